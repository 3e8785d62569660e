import Testing

@testable import Transport

/// Avahi and the bus, as far as a conversation with them needs them.
private struct FakeAvahi {
    var talk = AvahiClient(seed: 4)
    var owner = ":1.7"
    /// Calls that were made, by member, with their messages.
    private(set) var calls: [DBusMessage] = []
    private var objects = 0
    var refused: [String: String] = [:]
    var isThere = true
    var isStarting = false

    func members() -> [String] { calls.compactMap(\.member) }

    /// Takes messages, and answers them until nobody has anything to say.
    mutating func exchange(_ messages: [DBusMessage]) {
        var waiting = messages
        while !waiting.isEmpty {
            let call = waiting.removeFirst()
            calls.append(call)
            guard call.wantsReply else { continue }
            waiting += talk.received(answer(call))
        }
    }

    private mutating func answer(_ call: DBusMessage) -> DBusMessage {
        var reply = DBusMessage(kind: .reply)
        reply.replySerial = call.serial
        reply.sender = owner
        let member = call.member ?? ""
        if member != "Hello", !isThere { refused[member] = "org.freedesktop.DBus.Error.ServiceUnknown" }
        if let name = refused.removeValue(forKey: member) {
            reply.kind = .error
            reply.errorName = name
            reply.body = [.text("no \(member)")]
        } else if member == "GetState" {
            reply.body = [.int32(isStarting ? 1 : 2)]
        } else if member.hasSuffix("New") {
            objects += 1
            reply.body = [.path("/Client0/\(member)\(objects)")]
        }
        return reply
    }

    mutating func signal(_ interface: String, _ member: String, _ body: [DBusValue], path: String = "/") {
        var signal = DBusMessage(kind: .signal)
        signal.path = path
        signal.interface = "org.freedesktop.Avahi.\(interface)"
        signal.member = member
        signal.sender = owner
        signal.body = body
        exchange(talk.received(signal))
    }

    mutating func changeOwner(to name: String) {
        var signal = DBusMessage(kind: .signal)
        signal.sender = "org.freedesktop.DBus"
        signal.interface = "org.freedesktop.DBus"
        signal.member = "NameOwnerChanged"
        signal.body = [.text("org.freedesktop.Avahi"), .text(owner), .text(name)]
        owner = name
        exchange(talk.received(signal))
    }

    mutating func announce(_ name: String, _ member: String = "ItemNew", interface: Int32 = 2) {
        signal(
            "ServiceBrowser", member,
            [.int32(interface), .int32(0), .text(name), .text("_mimeo._tcp"), .text("local"), .uint32(4)])
    }

    mutating func resolve(_ service: PeerService, text: [String]? = nil, port: UInt16? = nil) {
        signal(
            "ServiceResolver", "Found",
            [
                .int32(2), .int32(0), .text(service.instance(isFirst: true)), .text("_mimeo._tcp"),
                .text("local"), .text("pi.local"), .int32(0), .text("10.0.0.5"),
                .uint16(port ?? UInt16(service.port)),
                .list(of: "ay", (text ?? service.text).map { .bytes($0.utf8) }), .uint32(0),
            ])
    }
}

@Suite("Avahi")
struct AvahiClientTests {
    private static let own = PeerService(tag: 1, peer: PeerMark(0xA), boot: 3, port: 4_040)
    private static let other = PeerService(tag: 1, peer: PeerMark(0xB), boot: 5, port: 4_041)

    private static func running(_ change: (inout FakeAvahi) -> Void = { _ in }) -> FakeAvahi {
        var avahi = FakeAvahi()
        change(&avahi)
        _ = avahi.talk.set(AvahiClient.Wish(announced: own, browses: true))
        avahi.exchange(avahi.talk.opened())
        return avahi
    }

    @Test("a peer is announced with the text that others read, and looks for others")
    func announced() throws {
        let avahi = Self.running()
        #expect(avahi.talk.condition == .works)
        let add = try #require(avahi.calls.first { $0.member == "AddService" })
        #expect(add.body[3].string == "mimeo-000000000000000a" && add.body[4].string == "_mimeo._tcp")
        #expect(PeerService(text: add.body[8].octetLists ?? [], port: 4_040) == Self.own)
        #expect(avahi.members().contains("Commit") && avahi.members().contains("ServiceBrowserNew"))
    }

    @Test("a service of another is found once it is resolved, and forgotten when it goes")
    func found() {
        var avahi = Self.running()
        avahi.announce("mimeo-000000000000000b")
        #expect(avahi.talk.found.isEmpty && avahi.members().last == "ServiceResolverNew")
        avahi.resolve(Self.other)
        #expect(avahi.talk.found == [AvahiClient.Found(service: Self.other, host: "10.0.0.5", interface: 2)])
        // A peer that was started again: the same service with another text.
        var again = Self.other
        again.boot = 6
        avahi.resolve(again)
        #expect(avahi.talk.found.map(\.service) == [again])
        avahi.announce("mimeo-000000000000000b", "ItemRemove")
        #expect(avahi.talk.found.isEmpty && avahi.members().last == "Free")
    }

    @Test("a text that is not ours, and a service that nobody looked for, are no peers")
    func malformed() {
        var avahi = Self.running()
        avahi.resolve(Self.other)
        #expect(avahi.talk.found.isEmpty)
        avahi.announce("printer")
        #expect(avahi.members().last != "ServiceResolverNew")
        avahi.announce("mimeo-000000000000000b")
        for text in [
            [], ["v=2"] + Self.other.text.dropFirst(), ["v=1", "t=1", "p=2", "b=3"],
            Self.other.text.map { $0.uppercased() }, Array(repeating: "x", count: 500) + Self.other.text,
        ] {
            avahi.resolve(Self.other, text: text)
            #expect(avahi.talk.found.isEmpty)
        }
        avahi.resolve(Self.other, port: 0)
        #expect(avahi.talk.found.isEmpty)
        avahi.resolve(Self.other, text: Self.other.text + ["x=y", "p=ffffffffffffffff"])
        #expect(avahi.talk.found.count == 1)
    }

    @Test("signals of another program on the bus are not believed")
    func forgedSignals() {
        var avahi = Self.running()
        avahi.owner = ":1.99"
        avahi.announce("mimeo-000000000000000b")
        #expect(avahi.members().last != "ServiceResolverNew" && avahi.talk.found.isEmpty)
    }

    @Test("a name that another service has gives way to a second one; when both are taken, it is said")
    func collision() {
        let taken = "org.freedesktop.Avahi.CollisionError"
        var avahi = Self.running { $0.refused["AddService"] = taken }
        let names = avahi.calls.filter { $0.member == "AddService" }.map { $0.body[3].string }
        #expect(names == ["mimeo-000000000000000a", "mimeo-000000000000000a-0000000000000003"])
        #expect(avahi.talk.condition == .works)
        // The network says later that the second one is taken too.
        let group = avahi.calls.last { $0.member == "Commit" }?.path ?? ""
        avahi.signal("EntryGroup", "StateChanged", [.int32(3), .text("")], path: group)
        #expect(avahi.talk.condition == .fails("avahi: both names of this peer are taken by others"))
        #expect(avahi.talk.isStuck)
    }

    @Test("without avahi the reason says so; when it comes, goes and comes, everything is asked again")
    func restarts() {
        var avahi = Self.running { $0.isThere = false }
        #expect(avahi.talk.condition == .fails("avahi does not run on this device"))
        #expect(!avahi.members().contains("AddService") && !avahi.talk.isStuck)
        avahi.isThere = true
        avahi.changeOwner(to: ":1.8")
        #expect(avahi.talk.condition == .works)
        avahi.announce("mimeo-000000000000000b")
        avahi.resolve(Self.other)
        #expect(avahi.talk.found.count == 1)
        avahi.changeOwner(to: "")
        #expect(avahi.talk.found.isEmpty && avahi.talk.condition != .works)
        avahi.changeOwner(to: ":1.9")
        #expect(avahi.talk.condition == .works)
        #expect(avahi.members().filter { $0 == "AddService" }.count == 2)
        #expect(avahi.members().filter { $0 == "ServiceBrowserNew" }.count == 2)
    }

    @Test("nothing is announced before the host has its name, nor while it has lost it")
    func hostName() {
        var avahi = Self.running { $0.isStarting = true }
        #expect(avahi.talk.condition == .looking && !avahi.members().contains("AddService"))
        avahi.signal("Server", "StateChanged", [.int32(2), .text("")])
        #expect(avahi.members().filter { $0 == "AddService" }.count == 1)
        avahi.signal("Server", "StateChanged", [.int32(3), .text("")])
        avahi.signal("Server", "StateChanged", [.int32(2), .text("")])
        #expect(avahi.members().filter { $0 == "AddService" }.count == 2)
    }

    @Test("another port is announced in the place of the former one; without a wish nothing is left")
    func wishes() {
        var avahi = Self.running()
        var moved = Self.own
        moved.port = 5_050
        avahi.exchange(avahi.talk.set(AvahiClient.Wish(announced: moved, browses: true)))
        #expect(avahi.members().suffix(3) == ["Reset", "AddService", "Commit"])
        avahi.announce("mimeo-000000000000000b")
        let calls = avahi.calls.count
        avahi.exchange(avahi.talk.set(AvahiClient.Wish()))
        let freed = avahi.calls.dropFirst(calls).map { call in
            "\(call.member ?? "") \(call.interface?.split(separator: ".").last ?? "")"
        }
        #expect(freed == ["Free ServiceResolver", "Free ServiceBrowser", "Free EntryGroup"])
        avahi.announce("mimeo-000000000000000b")
        #expect(avahi.members().last == "Free")
    }

    @Test("of a thousand services 256 are resolved, any of them, and browsing can begin again")
    func flood() {
        var avahi = Self.running()
        for number in 0..<1_000 {
            let service = PeerService(tag: 1, peer: PeerMark(UInt64(number)), boot: 1, port: 1)
            avahi.announce(service.instance(isFirst: true))
        }
        let resolved = avahi.members().filter { $0 == "ServiceResolverNew" }.count
        let freed = avahi.members().filter { $0 == "Free" }.count
        #expect(resolved == 1_000 && resolved - freed == 256)
        #expect(avahi.talk.hasOverflowed)
        avahi.exchange(avahi.talk.beginAgain())
        #expect(!avahi.talk.hasOverflowed && avahi.members().last == "ServiceBrowserNew")
        #expect(avahi.members().filter { $0 == "Free" }.count == 1_001)
    }
}
