import CRDT
import Synchronization
import Testing

@testable import Sync

@Suite("Presence at one peer")
struct PresenceGossipTests {
    private static let author = "pkauthor"
    private static let neighbour = "pkneighbour"

    /// A peer with one link.
    private static func peer(usesMultihop: Bool = true) -> PresenceGossip {
        var gossip = PresenceGossip(peerKey: "pkown", start: 1, trust: PresenceWorld.trust("pkown"))
        var settings = PresenceGossip.Settings()
        settings.usesMultihop = usesMultihop
        _ = gossip.receive(.settings(settings), at: .zero)
        _ = gossip.receive(
            .linked(1, PresenceGossip.Neighbour(peerKey: neighbour, kind: .network), nil), at: .zero)
        return gossip
    }

    private static func record(
        _ key: String = author, starts: UInt64 = 1, version: UInt64 = 1, signer: String? = nil,
        links: [PresenceRecord.Connection] = [], change: (inout PresenceRecord) -> Void = { _ in }
    ) -> SignedRecord {
        var record = PresenceRecord(
            peerKey: key, rank: PresenceRank(starts: starts, start: 9, version: version),
            facts: PresenceRecord.Facts(), protocolVersion: 4, links: links)
        change(&record)
        let content = record.encoded()
        return SignedRecord(content: content, signature: PresenceWorld.trust(signer ?? key).sign(content))
    }

    private static func news(_ records: SignedRecord..., age: UInt64 = 0) -> PresenceNews {
        var news = PresenceNews()
        news.records = records.map { PresenceNews.Carried(record: $0, ageMilliseconds: age) }
        return news
    }

    private static func warnings(_ actions: [PresenceGossip.Action]) -> [String] {
        actions.compactMap { if case .warn(let text) = $0 { text } else { nil } }
    }

    @Test(
        "a record that is too large, forged, no record, or out of bounds is ignored, and told once",
        arguments: [
            SignedRecord(content: [UInt8](repeating: 0, count: 1_000_000), signature: []),
            record(signer: "pkmallory"), SignedRecord(content: [0xA1, 0, 1], signature: []),
            record { $0.facts.metadata = "no JSON" }, record { $0.facts.metadata = "[1]" },
            record { $0.facts.metadata = "{\"a\":\"\(String(repeating: "x", count: 4_096))\"}" },
            record { $0.facts.deviceName = String(repeating: "n", count: 25) },
            record { $0.facts.certificateHash = [1] }, record("pk with spaces"),
            record {
                $0.links = (0..<71).map { PresenceRecord.Connection(peer: "pk\($0)", kind: .network) }
            },
        ])
    func hostile(_ record: SignedRecord) {
        var gossip = Self.peer()
        var told: [String] = []
        for second in 1...3 {
            told += Self.warnings(
                gossip.receive(.received(1, Self.news(record)), at: .seconds(second)))
        }
        #expect(told.count == 1)
        #expect(gossip.records.isEmpty)
    }

    @Test("an old record does not replace a newer one, of this start or an earlier one")
    func replayed() {
        var gossip = Self.peer()
        func has(_ starts: UInt64, _ version: UInt64) -> Bool {
            let rank = PresenceRank(starts: starts, start: 9, version: version)
            return gossip.records[Self.author]?.record.rank == rank
        }
        for (starts, version) in [(2, 5), (2, 4), (1, 99), (2, 5)] as [(UInt64, UInt64)] {
            let record = Self.record(starts: starts, version: version)
            _ = gossip.receive(.received(1, Self.news(record)), at: .seconds(1))
            #expect(has(2, 5), "\(starts).\(version)")
        }
        _ = gossip.receive(.received(1, Self.news(Self.record(starts: 2, version: 6))), at: .seconds(1))
        #expect(has(2, 6))
        _ = gossip.receive(.received(1, Self.news(Self.record(starts: 3))), at: .seconds(1))
        #expect(has(3, 1))
    }

    @Test("a record ends 60 s after it was written, wherever it lay, and is remembered for ten minutes")
    func ending() {
        var gossip = Self.peer()
        let record = Self.record(version: 7)
        _ = gossip.receive(.received(1, Self.news(record, age: 50_000)), at: .zero)
        #expect(gossip.wakesAt.map { $0 <= .seconds(10) } == true)
        _ = gossip.receive(.elapsed, at: .milliseconds(9_999))
        #expect(gossip.records.count == 1)
        _ = gossip.receive(.elapsed, at: .seconds(10))
        #expect(gossip.records.isEmpty)
        // A copy that claims to be young is the same record, and an older one is older.
        _ = gossip.receive(.received(1, Self.news(record, Self.record(version: 6))), at: .seconds(300))
        #expect(gossip.records.isEmpty)
        _ = gossip.receive(.elapsed, at: .seconds(700))
        _ = gossip.receive(.received(1, Self.news(record, age: .max)), at: .seconds(701))
        #expect(gossip.records.isEmpty)
        _ = gossip.receive(.received(1, Self.news(record)), at: .seconds(701))
        #expect(gossip.records.count == 1)
    }

    @Test("a peer that leaves is gone at once, and no record of before brings it back")
    func leaving() {
        var gossip = Self.peer()
        _ = gossip.receive(.received(1, Self.news(Self.record(version: 3))), at: .seconds(1))
        _ = gossip.receive(
            .received(1, Self.news(Self.record(version: 4) { $0.isLeaving = true })), at: .seconds(2))
        _ = gossip.receive(.received(1, Self.news(Self.record(version: 3))), at: .seconds(3))
        #expect(gossip.records.isEmpty)
        _ = gossip.receive(.received(1, Self.news(Self.record(version: 5))), at: .seconds(4))
        #expect(gossip.records.count == 1)
    }

    @Test("only a connection that both ends name is one; the own links need no word")
    func connections() {
        var gossip = Self.peer()
        func link(_ peer: String) -> PresenceRecord.Connection {
            PresenceRecord.Connection(peer: peer, kind: .network)
        }
        let theirs = Self.record(Self.neighbour, links: [link(Self.author), link("pkown")].sorted())
        #expect(gossip.graph.peers.map(\.peerKey) == [Self.neighbour])
        _ = gossip.receive(.received(1, Self.news(theirs, Self.record())), at: .seconds(1))
        #expect(gossip.graph.peers.map(\.peerKey) == [Self.neighbour])
        let answer = Self.record(version: 2, links: [link(Self.neighbour)])
        _ = gossip.receive(.received(1, Self.news(answer)), at: .seconds(1))
        #expect(gossip.graph.peers.map(\.peerKey) == [Self.neighbour, Self.author])
        #expect(gossip.graph.peers.map(\.hops) == [1, 2])
        #expect(gossip.graph.connections.count == 2)
    }

    @Test("a flood of peers that nobody is linked with is bounded, and does not drive out who is there")
    func flood() {
        var gossip = Self.peer()
        _ = gossip.receive(.received(1, Self.news(Self.record(Self.neighbour))), at: .zero)
        for number in 0..<1_200 {
            let stranger = Self.record("pkstranger\(number)")
            _ = gossip.receive(.received(1, Self.news(stranger)), at: .milliseconds(number * 10))
        }
        #expect(gossip.records.count <= Limits.presenceRecords)
        #expect(gossip.records[Self.neighbour] != nil)
        #expect(gossip.remembered.count <= Limits.presenceRecords)
        #expect(gossip.graph.peers.map(\.peerKey) == [Self.neighbour])
    }

    @Test("a link checks a thousand signatures at once, and a hundred more each second")
    func checks() {
        var link = LinkNews(PresenceGossip.Neighbour(peerKey: "pk", kind: .network), .zero)
        func spent() -> Int { (0..<5_000).count { _ in link.spendCheck() } }
        #expect(spent() == Limits.presenceChecks.burst)
        link.refill(.seconds(2))
        #expect(spent() == 2 * Limits.presenceChecks.eachSecond)
    }

    @Test("changes of 200 ms travel together: a record five times a second at most")
    func pace() {
        var gossip = Self.peer()
        let before = gossip.rank.version
        for step in 1...990 {
            var facts = PresenceRecord.Facts()
            facts.deviceName = "name \(step)"
            _ = gossip.receive(.facts(facts, certificate: nil), at: .milliseconds(step))
        }
        #expect(gossip.rank.version - before <= 6)
        #expect(gossip.own?.record.facts.deviceName != "name 990")
        _ = gossip.receive(.elapsed, at: .milliseconds(1_300))
        #expect(gossip.own?.record.facts.deviceName == "name 990")
    }

    @Test("a slow link gets the latest record of a peer once, however many came meanwhile")
    func slowLink() {
        var gossip = Self.peer()
        _ = gossip.receive(
            .linked(2, PresenceGossip.Neighbour(peerKey: "pkslow", kind: .webSocket), nil), at: .zero)
        var offers = 0
        for version in 1...50 as ClosedRange<UInt64> {
            let actions = gossip.receive(
                .received(1, Self.news(Self.record(version: version))), at: .milliseconds(version * 100))
            offers += actions.count { $0 == .offer(2) }
        }
        // Offered and not ready: nothing more is offered, and nothing is kept for it but names.
        #expect(offers <= 1)
        let sent = gossip.receive(.ready(2), at: .seconds(6)).compactMap { action -> PresenceNews? in
            if case .send(2, let news) = action { news } else { nil }
        }
        let versions = sent.flatMap(\.records).compactMap { PresenceRecord(decoding: $0.record.content) }
            .filter { $0.peerKey == Self.author }.map(\.rank.version)
        #expect(versions == [50])
    }

    @Test("a server is told of this peer and of those it does not know, without digests")
    func server() {
        var gossip = Self.peer()
        let offline = Self.record("pkoffline")
        let online = Self.record("pkonline") { $0.facts.isConnectedToServer = true }
        _ = gossip.receive(.received(1, Self.news(offline, online)), at: .seconds(1))
        var actions = gossip.receive(.linked(9, .server, nil), at: .seconds(2))
        #expect(actions.contains(.offer(9)))
        actions = gossip.receive(.ready(9), at: .seconds(2))
        let news = actions.compactMap { if case .send(9, let news) = $0 { news } else { nil } }
        let keys = news.flatMap(\.records).compactMap {
            PresenceRecord(decoding: $0.record.content)?.peerKey
        }
        #expect(Set(keys) == ["pkown", "pkoffline"])
        #expect(news.allSatisfy { $0.digests.isEmpty && $0.wanted.isEmpty })
        // A server's word counts nothing.
        _ = gossip.receive(.received(9, Self.news(Self.record("pkghost"))), at: .seconds(3))
        #expect(gossip.records["pkghost"] == nil)
        // And it is no connection of the graph.
        #expect(gossip.graph.peers.map(\.peerKey) == [Self.neighbour])
    }

    @Test("a record that is no peer's own cannot make it skip starts")
    func forgedOwn() {
        var gossip = Self.peer()
        let forged = Self.record("pkown", starts: 1_000, signer: "pkmallory")
        _ = gossip.receive(.received(1, Self.news(forged)), at: .seconds(30))
        #expect(gossip.rank.starts == 0)
        let real = Self.record("pkown", starts: 1_000)
        _ = gossip.receive(.received(1, Self.news(real)), at: .seconds(60))
        #expect(gossip.rank.starts == 1_001)
        _ = gossip.receive(.received(1, Self.news(Self.record("pkown", starts: .max))), at: .seconds(90))
        #expect(gossip.rank.starts == 1_001)
    }

    @Test("the greatest record fits: full metadata and 70 links")
    func greatest() {
        let links = (0..<70).map {
            PresenceRecord.Connection(
                peer: "pk" + String(repeating: "k", count: 42) + "\($0 + 10)", kind: .webSocket)
        }
        let metadata = "{\"a\":\"\(String(repeating: "x", count: 4_096 - 8))\"}"
        let record = Self.record(links: links) { record in
            record.facts.metadata = metadata
            record.facts.certificateHash = [UInt8](repeating: 1, count: 32)
            record.facts.deviceName = String(repeating: "d", count: 24)
        }
        #expect(record.content.count <= Limits.presenceRecordBytes)
        #expect(PresenceRecord(decoding: record.content)?.links.count == 70)
    }

    // MARK: The server's board

    /// The session of peer a, unless said, tells a record.
    private func tell(
        _ board: inout PresenceTable, _ record: SignedRecord, as peerKey: String? = "pka", at now: Duration
    ) {
        board.received(
            PresenceNews.Carried(record: record, ageMilliseconds: 0), from: 1, peerKey: peerKey, at: now)
    }

    @Test("a board has sessions as long as they run, and others as long as their records live")
    func board() {
        var board = PresenceTable { PresenceWorld.trust($1).isValid($0, $1) }
        func link(_ peer: String) -> PresenceRecord.Connection {
            PresenceRecord.Connection(peer: peer, kind: .network)
        }
        let a = Self.record("pka", links: [link("pkb"), link("pkc")])
        tell(&board, a, at: .zero)
        tell(&board, Self.record("pkb", links: [link("pka")]), at: .zero)
        var graph = board.graph(running: ["pka", "pkz"], at: .seconds(1))
        #expect(graph.peers.map(\.peerKey) == ["pka", "pkb", "pkc", "pkz"])
        #expect(graph.peers.map(\.hasSession) == [true, false, false, true])
        // Of c nothing is known but that a is linked with it.
        #expect(graph.connections.count == 2)
        // b has no such link any more: both ends count where both have spoken.
        tell(&board, Self.record("pkb", version: 2), at: .seconds(2))
        #expect(board.graph(running: ["pka"], at: .seconds(3)).connections.map(\.second) == ["pkc"])
        // b's record ends; a is there as long as its session, however old its record is.
        graph = board.graph(running: ["pka"], at: .seconds(70))
        #expect(graph.peers.map(\.peerKey) == ["pka", "pkb", "pkc"])
        #expect(graph.peers[1].record == nil)
        board.left(1)
        #expect(board.graph(running: [], at: .seconds(70)).peers.isEmpty)
    }

    @Test("a board believes of a session what it has proven, and of others what they have signed")
    func boardProofs() {
        var board = PresenceTable { PresenceWorld.trust($1).isValid($0, $1) }
        tell(&board, Self.record("pka", signer: "pkx"), at: .zero)
        tell(&board, Self.record("pkb", signer: "pkx"), at: .zero)
        let graph = board.graph(running: ["pka"], at: .zero)
        #expect(graph.peers.map(\.peerKey) == ["pka"])
        #expect(graph.peers.first?.record != nil)
        for number in 0..<600 { tell(&board, Self.record("pk\(number)"), at: .milliseconds(number)) }
        #expect(board.graph(running: [], at: .seconds(2)).peers.count <= Limits.presenceOfSession + 1)
    }

    @Test(
        "a session has so many signatures checked, whether it has proven a peer or none",
        arguments: ["pka", nil])
    func boardChecks(peerKey: String?) {
        let checks = Mutex(0)
        var board = PresenceTable { _, _ in
            checks.withLock { $0 += 1 }
            return false
        }
        for number in 0..<3_000 {
            tell(&board, Self.record("pk\(number)"), as: peerKey, at: .zero)
        }
        #expect(checks.withLock(\.self) == Limits.presenceChecks.burst)
        for number in 0..<3_000 {
            tell(&board, Self.record("pk\(number)"), as: peerKey, at: .seconds(2))
        }
        #expect(checks.withLock(\.self) == Limits.presenceChecks.burst + 2 * Limits.presenceChecks.eachSecond)
    }
}
