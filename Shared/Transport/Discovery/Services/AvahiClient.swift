/// A conversation with avahi, the service of Linux for DNS-SD, over the bus of the system: announces this
/// peer, and knows the peers that others announce. A state machine without sockets: each event returns
/// messages to send.
///
/// Avahi removes the announcement when the connection to the bus closes, so one of a killed process does not
/// stay. It may go and come, also while we talk: `NameOwnerChanged` tells, and everything begins again.
/// Invariants: signals count only if avahi's owner of the moment has sent them; one resolver for each place,
/// and `Limits.services` of them.
struct AvahiClient: Sendable {
    /// The wishes of the application.
    struct Wish: Sendable, Equatable {
        /// The service of this peer; nil to announce nothing.
        var announced: PeerService?
        /// True to look for others.
        var browses = false

        var isAny: Bool { announced != nil || browses }
    }

    /// A service of this name at one interface and protocol of this device.
    struct Place: Hashable, Sendable {
        let interface: Int32
        let proto: Int32
        let name: String
    }

    /// A peer that others announce.
    struct Found: Hashable, Sendable {
        var service: PeerService
        /// The address in text, without a port.
        var host: String
        /// The number of the interface, which a link-local address needs.
        var interface: Int32
    }

    enum Condition: Sendable, Equatable {
        case looking, works
        /// The reason.
        case fails(String)
    }

    private enum Server: Equatable { case unknown, absent, starting, running }
    private enum Object: Equatable {
        case none, asked
        case at(String)

        var path: String? { if case .at(let path) = self { path } else { nil } }
    }
    private enum Question {
        case hello, state, group, add, commit, browser
        case resolver(Place)
    }
    private struct Resolver {
        var object = Object.asked
        var found: Found?
    }

    private(set) var wish = Wish()
    private var isOpen = false
    private var server = Server.unknown
    /// The unique name on the bus of avahi as it runs now.
    private var owner: String?
    private var reason: String?
    private var serial: UInt32 = 0
    private var questions: [UInt32: Question] = [:]
    private var group = Object.none
    private var announced: PeerService?
    private var isNameTaken = false
    private var browser = Object.none
    private var resolvers: [Place: Resolver] = [:]
    private var dice: SeededRandom
    private var outgoing: [DBusMessage] = []
    /// True once a service had no place: browsing has to begin again, or a flood would hide peers for ever.
    private(set) var hasOverflowed = false

    init(seed: UInt64) { dice = SeededRandom(state: seed) }

    /// The peers that are announced now, whoever announced them.
    var found: Set<Found> { Set(resolvers.values.compactMap(\.found)) }

    var condition: Condition {
        if let reason { return .fails(reason) }
        return switch server {
        case .running: .works
        case .absent: .fails("avahi does not run on this device")
        case .unknown, .starting: .looking
        }
    }

    /// True if avahi has refused something: it is not asked again over this connection.
    var isStuck: Bool { reason != nil }

    // MARK: Events

    /// The connection to the bus is open.
    mutating func opened() -> [DBusMessage] {
        self = AvahiClient(seed: dice.next(), wish: wish)
        isOpen = true
        ask(.hello, Self.bus("Hello"))
        for rule in [
            "type='signal',sender='\(Self.busName)',member='NameOwnerChanged',arg0='\(Self.avahi)'",
            "type='signal',sender='\(Self.avahi)'",
        ] {
            var call = Self.bus("AddMatch", .text(rule))
            call.wantsReply = false
            send(call)
        }
        ask(.state, Self.call("/", "Server", "GetState"))
        return flush()
    }

    /// The connection has closed, or could not be opened.
    mutating func closed(_ reason: String) {
        self = AvahiClient(seed: dice.next(), wish: wish)
        self.reason = reason
    }

    /// Takes other wishes.
    mutating func set(_ wish: Wish) -> [DBusMessage] {
        self.wish = wish
        settle()
        return flush()
    }

    /// Looks for others from the beginning.
    mutating func beginAgain() -> [DBusMessage] {
        endBrowsing()
        settle()
        return flush()
    }

    /// A message came.
    mutating func received(_ message: DBusMessage) -> [DBusMessage] {
        switch message.kind {
        case .reply, .error:
            guard let number = message.replySerial, let question = questions.removeValue(forKey: number)
            else { break }
            answered(question, message)
        case .signal where message.sender == Self.busName: ownerChanged(message)
        case .signal where message.sender == owner && owner != nil: told(message)
        case .signal, .call: break
        }
        settle()
        return flush()
    }

    // MARK: Answers

    private mutating func answered(_ question: Question, _ message: DBusMessage) {
        let isError = message.kind == .error
        let path = message.body.first?.string
        let failure = isError ? failure(message) : nil
        switch question {
        case .hello: reason = failure ?? reason
        case .state:
            guard !isError, let state = message.body.first?.integer else { return server = .absent }
            owner = message.sender
            server = state == Self.runs ? .running : .starting
        case .group:
            group = path.map { .at($0) } ?? .none
            reason = failure ?? reason
        case .add:
            if isError, message.errorName?.hasSuffix(".CollisionError") ?? false {
                takeOtherName()
            } else if isError {
                reason = failure
            } else if let path = group.path {
                ask(.commit, Self.call(path, "EntryGroup", "Commit"))
            }
        case .commit: reason = failure ?? reason
        case .browser:
            browser = path.map { .at($0) } ?? .none
            reason = failure ?? reason
        case .resolver(let place):
            if resolvers[place] != nil {
                if let path, !isError { resolvers[place]?.object = .at(path) } else { resolvers[place] = nil }
            } else if let path, !isError {
                // The service has gone meanwhile.
                free(path, "ServiceResolver")
            }
        }
    }

    private func failure(_ message: DBusMessage) -> String {
        "avahi: \((message.body.first?.string ?? message.errorName ?? "no reason").prefix(200))"
    }

    private mutating func takeOtherName() {
        announced = nil
        if isNameTaken { reason = "avahi: both names of this peer are taken by others" }
        isNameTaken = true
    }

    private mutating func ownerChanged(_ message: DBusMessage) {
        guard message.member == "NameOwnerChanged", message.body.count == 3,
            message.body[0].string == Self.avahi, let new = message.body[2].string
        else { return }
        let (seed, wish, last) = (dice.next(), wish, serial)
        self = AvahiClient(seed: seed, wish: wish)
        serial = last
        isOpen = true
        server = .absent
        guard !new.isEmpty else { return }
        server = .unknown
        ask(.state, Self.call("/", "Server", "GetState"))
    }

    private mutating func told(_ message: DBusMessage) {
        let body = message.body
        switch (message.interface, message.member) {
        case (Self.name("Server"), "StateChanged"):
            guard let state = body.first?.integer else { return }
            server = state == Self.runs ? .running : .starting
            // While the host has no name its services are not announced.
            if server != .running, let path = group.path, announced != nil {
                send(Self.call(path, "EntryGroup", "Reset", wantsReply: false))
                announced = nil
            }
        case (Self.name("EntryGroup"), "StateChanged"):
            guard message.path == group.path, let state = body.first?.integer else { return }
            if state == Self.collided, announced != nil { takeOtherName() }
            if state == Self.failed { reason = "avahi: \(body.last?.string?.prefix(200) ?? "no reason")" }
        case (Self.name("ServiceBrowser"), "ItemNew"): if let place = Self.place(body) { came(place) }
        case (Self.name("ServiceBrowser"), "ItemRemove"): if let place = Self.place(body) { went(place) }
        case (Self.name("ServiceBrowser"), "Failure"): reason = failure(message)
        case (Self.name("ServiceResolver"), "Found"): resolved(body)
        default: break
        }
    }

    private static func place(_ body: [DBusValue]) -> Place? {
        guard body.count >= 5, let interface = body[0].integer, let proto = body[1].integer,
            let name = body[2].string, PeerService.isInstance(name), body[3].string == PeerService.type
        else { return nil }
        return Place(interface: interface, proto: proto, name: name)
    }

    private mutating func came(_ place: Place) {
        guard wish.browses, resolvers[place] == nil else { return }
        if resolvers.count >= Limits.services {
            // Any goes, so that a flood cannot keep others out.
            hasOverflowed = true
            let places = Array(resolvers.keys)
            went(places[dice.below(places.count)])
        }
        resolvers[place] = Resolver()
        ask(
            .resolver(place),
            Self.call(
                "/", "Server", "ServiceResolverNew", .int32(place.interface), .int32(place.proto),
                .text(place.name), .text(PeerService.type), .text(Self.domain), .int32(place.proto),
                .uint32(0)))
    }

    private mutating func went(_ place: Place) {
        if let path = resolvers.removeValue(forKey: place)?.object.path { free(path, "ServiceResolver") }
    }

    private mutating func resolved(_ body: [DBusValue]) {
        guard let place = Self.place(body), resolvers[place] != nil, body.count == 11,
            let host = body[7].string, case .uint16(let port) = body[8], let text = body[9].octetLists
        else { return }
        let service = PeerService(text: text, port: Int(port))
        resolvers[place]?.found = service.map { Found(service: $0, host: host, interface: place.interface) }
    }

    // MARK: Wishes

    /// Brings avahi's objects in line with the wishes.
    private mutating func settle() {
        guard isOpen, server == .running, reason == nil else { return }
        if wish.browses, browser == .none {
            browser = .asked
            ask(
                .browser,
                Self.call(
                    "/", "Server", "ServiceBrowserNew", .int32(Self.any), .int32(Self.any),
                    .text(PeerService.type), .text(Self.domain), .uint32(0)))
        } else if !wish.browses {
            endBrowsing()
        }
        switch (group, wish.announced) {
        case (.none, .some):
            group = .asked
            ask(.group, Self.call("/", "Server", "EntryGroupNew"))
        case (.at(let path), let service?) where service != announced: announce(service, path)
        case (.at(let path), nil):
            free(path, "EntryGroup")
            (group, announced) = (.none, nil)
        default: break
        }
    }

    private mutating func endBrowsing() {
        hasOverflowed = false
        for place in Array(resolvers.keys) { went(place) }
        guard let path = browser.path else { return }
        free(path, "ServiceBrowser")
        browser = .none
    }

    private mutating func announce(_ service: PeerService, _ path: String) {
        announced = service
        send(Self.call(path, "EntryGroup", "Reset", wantsReply: false))
        ask(
            .add,
            Self.call(
                path, "EntryGroup", "AddService", .int32(Self.any), .int32(Self.any), .uint32(0),
                .text(service.instance(isFirst: !isNameTaken)), .text(PeerService.type), .text(""), .text(""),
                .uint16(UInt16(service.port)),
                .list(of: "ay", service.text.map { .bytes($0.utf8) })))
    }

    private mutating func free(_ path: String, _ interface: String) {
        send(Self.call(path, interface, "Free", wantsReply: false))
    }

    // MARK: Messages

    private static let busName = "org.freedesktop.DBus"
    private static let avahi = "org.freedesktop.Avahi"
    private static let domain = "local"
    /// AVAHI_IF_UNSPEC and AVAHI_PROTO_UNSPEC.
    private static let any: Int32 = -1
    /// AVAHI_SERVER_RUNNING.
    private static let runs: Int32 = 2
    /// AVAHI_ENTRY_GROUP_COLLISION and AVAHI_ENTRY_GROUP_FAILURE.
    private static let (collided, failed): (Int32, Int32) = (3, 4)

    private static func name(_ interface: String) -> String { "\(avahi).\(interface)" }

    private static func bus(_ member: String, _ body: DBusValue...) -> DBusMessage {
        var message = DBusMessage(kind: .call)
        message.path = "/org/freedesktop/DBus"
        message.interface = busName
        message.member = member
        message.destination = busName
        message.body = body
        return message
    }

    private static func call(
        _ path: String, _ interface: String, _ member: String, _ body: DBusValue..., wantsReply: Bool = true
    ) -> DBusMessage {
        var message = DBusMessage(kind: .call)
        message.path = path
        message.interface = name(interface)
        message.member = member
        message.destination = avahi
        message.wantsReply = wantsReply
        message.body = body
        return message
    }

    private mutating func ask(_ question: Question, _ message: DBusMessage) {
        send(message)
        questions[serial] = question
    }

    private mutating func send(_ message: DBusMessage) {
        serial = serial == .max ? 1 : serial + 1
        var message = message
        message.serial = serial
        outgoing.append(message)
    }

    private mutating func flush() -> [DBusMessage] {
        defer { outgoing = [] }
        return outgoing
    }
}

extension AvahiClient {
    private init(seed: UInt64, wish: Wish) {
        self.init(seed: seed)
        self.wish = wish
    }
}
