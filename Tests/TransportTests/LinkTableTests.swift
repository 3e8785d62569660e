import Exchange
import TestSupport
import Testing

@testable import Transport

@Suite("The table of links")
struct LinkTableTests {
    private static let start = LinkTable.Boot(count: 3, nonce: 77)
    private static let address = peerAddress(1)

    /// A table and its time.
    private struct Side {
        var table: LinkTable
        var now = Duration.zero

        init(_ key: String = "pkM", boot: LinkTable.Boot = LinkTableTests.start) {
            table = LinkTable(own: LinkTable.Remote(peerKey: key, boot: boot))
        }

        mutating func receive(_ event: LinkTable.Event) -> [LinkTable.Action] {
            table.receive(event, at: now, random: .max)
        }

        mutating func set(_ addresses: Set<MeshAddress> = [], listeners: Set<Int> = [1]) -> [LinkTable.Action]
        {
            receive(.set(LinkTable.Settings(addresses: addresses, listeners: listeners)))
        }

        /// The time passes until something is due.
        mutating func wait() -> [LinkTable.Action] {
            now = table.wakesAt ?? now
            return receive(.elapsed)
        }

        /// Accepts a connection of a peer that greets.
        mutating func meet(_ key: String, boot: LinkTable.Boot = LinkTable.Boot(count: 1, nonce: 1)) -> (
            id: LinkID, actions: [LinkTable.Action]
        ) {
            let id = table.nextLink()
            _ = receive(.accepted(id, listener: 1))
            return (id, receive(.greeted(id, LinkTable.Remote(peerKey: key, boot: boot))))
        }

        /// The same, until it is open.
        mutating func open(_ key: String, boot: LinkTable.Boot = LinkTable.Boot(count: 1, nonce: 1)) -> LinkID
        {
            let id = meet(key, boot: boot).id
            _ = receive(.answered(id, allows: true))
            return id
        }

        func isOpen(_ id: LinkID) -> Bool { table.links[id]?.isOpen ?? false }
    }

    private static func code(_ actions: [LinkTable.Action]) -> [String] {
        actions.compactMap { if case .close(_, let reason) = $0 { reason.code } else { nil } }
    }

    private static func dialed(_ actions: [LinkTable.Action]) -> LinkID? {
        actions.compactMap { if case .dial(let id, _) = $0 { id } else { nil } }.first
    }

    // MARK: Dialing

    @Test("an address that fails is dialed after 0.2, 0.5, 1 and 5 s, then after twice as long, up to 60 s")
    func backOff() throws {
        var side = Side()
        var id = try #require(Self.dialed(side.set([Self.address])))
        var pauses: [Duration] = []
        for _ in 0..<9 {
            let failedAt = side.now
            _ = side.receive(.ended(id, SyncError(.unavailable, "refused")))
            var next: LinkID?
            // The condition of dialing is due in between.
            while next == nil { next = Self.dialed(side.wait()) }
            id = try #require(next)
            pauses.append(side.now - failedAt)
        }
        #expect(
            pauses.map { ($0 / .milliseconds(100)).rounded() } == [2, 5, 10, 50, 100, 200, 400, 600, 600])
    }

    @Test("the early dials are not later than the application's pause, and over where a peer has answered")
    func early() throws {
        /// The pauses after dials that end for a reason, in tenths of a second; each is answered, or not.
        func pauses(_ retry: Duration, _ reason: SyncError, isAnswered: Bool) throws -> [Double] {
            var side = Side()
            let settings = LinkTable.Settings(addresses: [Self.address], retryInterval: retry)
            var id = try #require(Self.dialed(side.receive(.set(settings))))
            return try (0..<4).map { _ in
                if isAnswered { _ = side.receive(.proven(id, peerKey: "pkZ")) }
                _ = side.receive(.ended(id, reason))
                let failedAt = side.now
                id = try #require(Self.dialed(side.wait()))
                return ((side.now - failedAt) / .milliseconds(100)).rounded()
            }
        }
        let lost = SyncError(.unavailable, "lost")
        #expect(try pauses(.milliseconds(300), lost, isAnswered: false) == [2, 3, 3, 3])
        #expect(try pauses(.seconds(2), lost, isAnswered: true) == [20, 40, 80, 160])
        let refused = SyncError(.otherGroup, "refused")
        #expect(try pauses(.seconds(2), refused, isAnswered: false) == [20, 40, 80, 160])
    }

    @Test("a link that was open and is lost is dialed again within a second; one that breaks rules is not")
    func soonAgain() throws {
        for (reason, isSoon) in [
            (SessionPump.lost, true), (SyncError(.goingAway, ""), true),
            (SyncError(.malformedFrame, ""), false), (SyncError(.unavailable, "of the store"), false),
        ] {
            var side = Side()
            let id = try #require(Self.dialed(side.set([Self.address])))
            _ = side.receive(.greeted(id, LinkTable.Remote(peerKey: "pkZ", boot: Self.start)))
            _ = side.receive(.answered(id, allows: true))
            side.now += .seconds(2)
            _ = side.receive(.ended(id, reason))
            let lostAt = side.now
            #expect(Self.dialed(side.wait()) != nil)
            #expect((side.now - lostAt < .seconds(1)) == isSoon, "\(reason)")
        }
    }

    @Test("a denied link is tried after 5 s, then later each time, up to five minutes")
    func denied() throws {
        var side = Side()
        var id = try #require(Self.dialed(side.set([Self.address])))
        var pauses: [Duration] = []
        for _ in 0..<8 {
            _ = side.receive(.greeted(id, LinkTable.Remote(peerKey: "pkZ", boot: Self.start)))
            let actions = side.receive(.answered(id, allows: false))
            #expect(Self.code(actions) == ["SYNC-0601"])
            let deniedAt = side.now
            _ = side.receive(.ended(id, SyncError(.goingAway, "closed by us")))
            id = try #require(Self.dialed(side.wait()))
            pauses.append(side.now - deniedAt)
        }
        #expect(
            pauses.map { ($0 / .seconds(1)).rounded() } == [5, 10, 20, 40, 80, 160, 300, 300])
    }

    @Test("an application that does not answer in 10 s denies")
    func noAnswer() {
        var side = Side()
        _ = side.set()
        let (id, actions) = side.meet("pkZ")
        #expect(actions == [.ask(id)])
        #expect(Self.code(side.wait()) == ["SYNC-0601"])
        #expect(side.now == .seconds(10))
        #expect(side.receive(.answered(id, allows: true)).isEmpty)
    }

    @Test("a connection that does not greet in 10 s is closed")
    func silent() {
        var side = Side()
        _ = side.set()
        let id = side.table.nextLink()
        _ = side.receive(.accepted(id, listener: 1))
        #expect(Self.code(side.wait()) == ["SYNC-0501"])
        #expect(side.now == .seconds(10))
    }

    @Test("dialing counts as failed after a minute without success, and as well again with the next link")
    func condition() throws {
        var side = Side()
        #expect(side.table.isReaching(at: .zero) == nil)
        var id = try #require(Self.dialed(side.set([Self.address])))
        while side.now < .seconds(60) {
            _ = side.receive(.ended(id, SyncError(.unavailable, "refused")))
            while true {
                guard let next = Self.dialed(side.wait()) else { continue }
                id = next
                break
            }
        }
        #expect(side.table.isReaching(at: side.now) == false)
        _ = side.open("pkZ")
        #expect(side.table.isReaching(at: side.now) == true)
    }

    // MARK: Who stays

    @Test("a peer that was started again takes the place of its old link; an older start is a copy")
    func startedAgain() {
        var side = Side()
        _ = side.set()
        let old = side.open("pkZ", boot: LinkTable.Boot(count: 4, nonce: 1))
        let (new, actions) = side.meet("pkZ", boot: LinkTable.Boot(count: 5, nonce: 9))
        #expect(Self.code(actions) == ["SYNC-0605"])
        #expect(side.receive(.ended(old, SessionPump.lost)) == [.ask(new)])
        _ = side.receive(.answered(new, allows: true))
        var told: [LinkTable.Action] = []
        for boot in [LinkTable.Boot(count: 4, nonce: 1), LinkTable.Boot(count: 5, nonce: 8)] {
            let (copy, actions) = side.meet("pkZ", boot: boot)
            #expect(Self.code(actions) == ["SYNC-0606"])
            told += actions.filter(Self.isWarning)
            _ = side.receive(.ended(copy, SyncError(.sameStore, "")))
        }
        let text = "SYNC-0606: a peer runs twice with the key pkZ: its store was copied; no link with it"
        #expect(told == [.warn(text)])
        #expect(side.isOpen(new))
    }

    private static func isWarning(_ action: LinkTable.Action) -> Bool {
        if case .warn = action { true } else { false }
    }

    @Test("a link to the peer itself, or to a copy of its store, is closed by who finds out")
    func itself() {
        var side = Side("pkM")
        _ = side.set()
        #expect(Self.code(side.meet("pkM", boot: Self.start).actions) == ["SYNC-0605"])
        let copy = LinkTable.Boot(count: 3, nonce: 78)
        #expect(Self.code(side.meet("pkM", boot: copy).actions) == ["SYNC-0606"])
    }

    @Test(
        "an address that leads to the peer itself rests for a minute, though both ends of its link are here")
    func ownAddress() throws {
        var side = Side("pkM")
        let id = try #require(Self.dialed(side.set([Self.address])))
        let other = side.table.nextLink()
        _ = side.receive(.accepted(other, listener: 1))
        for end in [id, other] { _ = side.receive(.proven(end, peerKey: "pkM")) }
        let reason = SyncError(.doubleLink, "this address leads to the peer itself")
        #expect(side.receive(.ended(id, reason)).isEmpty)
        #expect(side.receive(.ended(other, reason)).isEmpty)
        #expect(side.table.attempts[Self.address]?.state == .double)
        let next = try #require(side.table.dials[Self.address]?.nextAt)
        #expect(next > .seconds(40) && next <= .seconds(60))
    }

    @Test("a store that others call a copy says so in its log, once, whoever dialed")
    func isCopy() throws {
        var side = Side("pkM")
        let id = try #require(Self.dialed(side.set([Self.address])))
        let first = side.receive(.ended(id, SyncError(.sameStore, "")))
        #expect(
            first.filter(Self.isWarning) == [
                .warn(
                    "SYNC-0606: another running store has this one's key: one is a copy, give it a directory"
                        + " of its own")
            ])
        #expect(side.table.attempts[Self.address]?.state == .failed(isFinal: true))
        #expect(side.table.attempts[Self.address]?.reason == "SYNC-0606: ")
        let again = try #require(Self.dialed(side.wait()))
        #expect(side.receive(.ended(again, SyncError(.sameStore, ""))).filter(Self.isWarning).isEmpty)
    }

    @Test("an address that leads to a linked peer rests while that link is there")
    func covered() throws {
        var side = Side("pkZ")
        let id = try #require(Self.dialed(side.set([Self.address])))
        let other = side.open("pkA")
        _ = side.receive(
            .greeted(id, LinkTable.Remote(peerKey: "pkA", boot: LinkTable.Boot(count: 1, nonce: 1))))
        // The peer with the smaller key decides, and it is the other one.
        _ = side.receive(.ended(id, SyncError(.doubleLink, "")))
        side.now += .seconds(500)
        #expect(side.receive(.elapsed).isEmpty)
        _ = side.receive(.ended(other, SessionPump.lost))
        #expect(Self.dialed(side.wait()) != nil)
        #expect(side.now < .seconds(502))
    }

    // MARK: Bounds

    @Test("the oldest of 32 connections that have not greeted goes for the next one; open links stay")
    func openingLinks() {
        var side = Side()
        _ = side.set()
        let open = side.open("pkZ")
        var closed: [LinkID] = []
        for _ in 0..<40 {
            let id = side.table.nextLink()
            for case .close(let victim, _) in side.receive(.accepted(id, listener: 1)) {
                closed.append(victim)
                _ = side.receive(.ended(victim, SyncError(.unavailable, "")))
            }
        }
        #expect(closed == (0..<8).map { open + 1 + LinkID($0) })
        #expect(side.isOpen(open))
    }

    @Test("a 33rd incoming link is closed, and those that are open stay")
    func incomingLinks() {
        var side = Side()
        _ = side.set()
        let open = (0..<32).map { side.open("pkN\($0)") }
        #expect(Self.code(side.meet("pkO").actions) == ["SYNC-0501"])
        #expect(open.allSatisfy(side.isOpen))
    }

    @Test("what the settings do not have any more is closed with SYNC-0503, and nothing else")
    func configured() throws {
        var side = Side()
        let id = try #require(Self.dialed(side.set([Self.address], listeners: [1, 2])))
        let accepted = side.open("pkZ")
        #expect(side.set([Self.address], listeners: [1]).isEmpty)
        #expect(side.set([], listeners: [1]).count == 1)
        #expect(side.set([], listeners: []) == [.close(accepted, SyncError(.goingAway, Self.gone))])
        _ = side.receive(.ended(id, SyncError(.goingAway, "")))
        _ = side.receive(.ended(accepted, SyncError(.goingAway, "")))
        #expect(side.table.links.isEmpty && side.table.wakesAt == nil)
    }

    private static let gone = "this link is not configured any more"

    @Test("another sync group ends all links, and dials begin anew")
    func group() throws {
        var side = Side()
        let id = try #require(Self.dialed(side.set([Self.address])))
        var settings = side.table.settings
        settings.syncGroup = 7
        #expect(Self.code(side.receive(.set(settings))) == ["SYNC-0503"])
        _ = side.receive(.ended(id, SyncError(.goingAway, "")))
        #expect(Self.dialed(side.wait()) != nil)
    }

    @Test("a link ends with the certificate of either side")
    func expiry() {
        var side = Side()
        _ = side.set()
        let id = side.table.nextLink()
        _ = side.receive(.accepted(id, listener: 1))
        _ = side.receive(
            .greeted(id, LinkTable.Remote(peerKey: "pkZ", boot: Self.start, endsAt: .seconds(90))))
        _ = side.receive(.answered(id, allows: true))
        #expect(Self.code(side.wait()) == ["SYNC-0502"])
        #expect(side.now == .seconds(90))
    }

    // MARK: Two sides

    @Test("two peers that dial each other keep one link, the same at both sides, whatever comes first")
    func bothDial() {
        for seed in 0..<Depth.pick(fast: UInt64(120), deep: 20_000) {
            var pair = LinkPair(seed: seed, addresses: seed % 3 == 0 ? 2 : 1, isSecure: seed % 2 == 0)
            pair.run(until: .seconds(300))
            #expect(pair.agreed != nil, "seed \(seed): \(pair.left.links) \(pair.right.links)")
            #expect(pair.dials < 40, "seed \(seed)")
        }
    }
}

/// The address of a peer.
private func peerAddress(_ number: Int, host: String = "there") -> MeshAddress {
    guard let address = MeshAddress(tcp: "\(host):\(number)") else { preconditionFailure("an address") }
    return address
}

/// Two tables and the connections between them: what each side learns comes in order on a connection, and in
/// any order otherwise. Now and then a connection breaks, for a while.
private struct LinkPair {
    private struct Pipe {
        /// The numbers at the left and the right side.
        var ids: [LinkID?] = [nil, nil]
        /// What each side learns next.
        var coming: [[LinkTable.Event]] = [[], []]
    }

    private var tables: [LinkTable]
    private var pipes: [Pipe] = []
    private var generator: SplitMix64
    private var now = Duration.zero
    private(set) var dials = 0
    private static let remotes = [
        LinkTable.Remote(peerKey: "pkA", boot: LinkTable.Boot(count: 1, nonce: 5)),
        LinkTable.Remote(peerKey: "pkB", boot: LinkTable.Boot(count: 9, nonce: 6)),
    ]

    var left: LinkTable { tables[0] }
    var right: LinkTable { tables[1] }

    /// Whether the sides know each other's key before the greeting.
    private let isSecure: Bool

    init(seed: UInt64, addresses count: Int, isSecure: Bool) {
        self.isSecure = isSecure
        generator = SplitMix64(seed: seed)
        tables = Self.remotes.map { LinkTable(own: $0) }
        for side in 0...1 {
            let addresses = (0..<count).map { peerAddress($0 + 1, host: "host\(side)") }
            send(.set(LinkTable.Settings(addresses: Set(addresses), listeners: [1])), to: side)
        }
    }

    /// The one connection that is open at both sides, if it is the only link.
    var agreed: Int? {
        let open = pipes.indices.filter { index in
            (0...1).allSatisfy { side in
                pipes[index].ids[side].flatMap { tables[side].links[$0]?.isOpen } ?? false
            }
        }
        // In the clear an address is tried again now and then, since nobody says who refused.
        let isAlone = tables.allSatisfy { table in
            table.links.values.count(where: \.isOpen) == 1 && (!isSecure || table.links.count == 1)
        }
        return open.count == 1 && isAlone ? open[0] : nil
    }

    mutating func run(until end: Duration) {
        var breaks = 3
        while now < end {
            let ready = pipes.indices.flatMap { pipe in
                [(pipe, 0), (pipe, 1)].filter { !pipes[$0.0].coming[$0.1].isEmpty }
            }
            guard let (pipe, side) = ready.randomElement(using: &generator) else {
                now = tables.compactMap(\.wakesAt).min().map { max($0, now) } ?? end
                for side in 0...1 { send(.elapsed, to: side) }
                continue
            }
            now += .milliseconds(Int64.random(in: 0...40, using: &generator))
            if breaks > 0, now < .seconds(60), Int.random(in: 0..<12, using: &generator) == 0 {
                breaks -= 1
                lose(pipe)
                continue
            }
            let event = pipes[pipe].coming[side].removeFirst()
            send(event, to: side)
        }
    }

    private mutating func lose(_ pipe: Int) {
        for side in 0...1 {
            guard let id = pipes[pipe].ids[side] else { continue }
            pipes[pipe].coming[side] = [.ended(id, SessionPump.lost)]
        }
    }

    private mutating func send(_ event: LinkTable.Event, to side: Int) {
        let random = generator.next()
        for action in tables[side].receive(event, at: now, random: random) { perform(action, side) }
    }

    private mutating func perform(_ action: LinkTable.Action, _ side: Int) {
        switch action {
        case .dial(let id, _):
            dials += 1
            let there = tables[1 - side].nextLink()
            var pipe = Pipe()
            pipe.ids[side] = id
            pipe.ids[1 - side] = there
            let (here, other) = (Self.remotes[side], Self.remotes[1 - side])
            pipe.coming[side] = isSecure ? [.proven(id, peerKey: other.peerKey)] : []
            pipe.coming[1 - side] = [.accepted(there, listener: 1)]
            pipe.coming[1 - side] += isSecure ? [.proven(there, peerKey: here.peerKey)] : []
            pipe.coming[1 - side].append(.greeted(there, here))
            pipes.append(pipe)
        case .ask(let id): append(.answered(id, allows: true), id, side)
        case .close(let id, let reason):
            guard let pipe = pipes.firstIndex(where: { $0.ids[side] == id }) else { return }
            // Nothing more comes at this side; the other learns it behind what is under way.
            pipes[pipe].coming[side] = [.ended(id, reason)]
            pipes[pipe].coming[1 - side] += end(pipe, side, reason)
        case .open(let id):
            // A side that was dialed greets now.
            guard let pipe = pipes.firstIndex(where: { $0.ids[side] == id }),
                tables[side].links[id]?.isAccepted == true, let there = pipes[pipe].ids[1 - side]
            else { return }
            pipes[pipe].coming[1 - side].append(.greeted(there, Self.remotes[side]))
        case .warn: break
        }
    }

    private func end(_ pipe: Int, _ side: Int, _ reason: SyncError) -> [LinkTable.Event] {
        pipes[pipe].ids[1 - side].map { [.ended($0, reason)] } ?? []
    }

    private mutating func append(_ event: LinkTable.Event, _ id: LinkID, _ side: Int) {
        guard let pipe = pipes.firstIndex(where: { $0.ids[side] == id }) else { return }
        pipes[pipe].coming[side].append(event)
    }
}
