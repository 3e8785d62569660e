import CRDT
import Exchange
import Sync
import TestSupport
import Testing

@testable import Replica
@testable import Transport

/// A transaction of a peer that a neighbour gives the server before its author meets it.
@Suite("A transaction that links bring to a server", .timeLimit(.minutes(2)))
struct LinkListTests {
    struct NoList: Error {}

    /// The gateway's side of a session with the server.
    private func store(_ play: RemovalCase, _ kept: KeptMessage = KeptMessage()) -> PeerStore {
        PeerStore(
            replica: play.peers[1].replica, executor: .inline, report: { _ in }, acknowledged: {},
            kept: kept)
    }

    /// The documents of a list that begins now, if it has one page.
    private func list(_ store: PeerStore) async throws -> [DocumentVersion] {
        let answer = try await store.perform(.readHoldings(after: nil, ofLinks: true))
        guard case .holdings(let versions, isLast: true)? = answer else { throw NoList() }
        return versions
    }

    /// The vectors of documents as they are given to a server that asks for them.
    private func given(_ store: PeerStore, _ keys: [DocumentKey]) async throws -> [[UInt8]] {
        guard case .states(let states, _, _)? = try await store.perform(.readStates(keys, held: [])) else {
            throw NoList()
        }
        return try states.map { item in
            try Document(decoding: try #require(item.state)).vector.encoded()
        }
    }

    @Test("is one entry of its log, also if it changes more documents than are asked for at once")
    func oneEntry() async throws {
        try await withTemporaryDirectory { folder in
            let play = try await RemovalCase(2, in: folder)
            let rows = (0..<40).map { "({'_id': \($0), 'n': 1})" }.joined(separator: ", ")
            try play.peers[0].execute("INSERT INTO c DOCUMENTS \(rows)")
            try await play.link(0, 1)
            try await play.meet(1)
            #expect(try await play.server.states().map(\.changes.count) == [40])
            try play.peers[0].execute("UPDATE c SET n = 2 WHERE n = 1")
            try await play.link(0, 1)
            try await play.meet(1)
            #expect(try await play.server.states().map(\.changes.count) == [40, 40])
            try await play.close()
        }
    }

    @Test("goes in small pages after three sessions that broke before the server had it")
    func broken() async throws {
        try await withTemporaryDirectory { folder in
            let play = try await RemovalCase(2, in: folder)
            let rows = (0..<40).map { "({'_id': \($0), 'n': 1})" }.joined(separator: ", ")
            try play.peers[0].execute("INSERT INTO c DOCUMENTS \(rows)")
            try await play.link(0, 1)
            let kept = KeptMessage()
            for _ in 0..<3 { #expect(try await list(store(play, kept)).count == 40) }
            let slow = store(play, kept)
            await #expect(throws: NoList.self) { _ = try await list(slow) }
            _ = try await slow.perform(.settleLinks)
            try play.peers[0].execute("UPDATE c SET n = 2 WHERE n = 1")
            try await play.link(0, 1)
            #expect(try await list(store(play, kept)).count == 40)
            try await play.close()
        }
    }

    @Test("is given as it was when the list began; what links change then is in the next list")
    func oneMoment() async throws {
        try await withTemporaryDirectory { folder in
            let play = try await RemovalCase(2, in: folder)
            try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})")
            try await play.link(0, 1)
            let store = store(play)
            let first = try await list(store)
            #expect(first.count == 2)
            try play.peers[0].execute("UPDATE c SET n = 2 WHERE _id = 1")
            try await play.link(0, 1)
            #expect(try await given(store, first.map(\.key)) == first.map(\.vector))
            _ = try await store.perform(.settleLinks)
            let second = try await list(store)
            #expect(second.map(\.key) == [play.key])
            #expect(try await given(store, [play.key]) == second.map(\.vector))
            #expect(second.map(\.vector) != [first[0].vector])
            try await play.close()
        }
    }
}
