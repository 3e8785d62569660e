import DQL
import Exchange
import Foundation
import Sync
import Testing

@testable import CRDT
@testable import Replica
@testable import Transport

/// Peers of one server, and what happens to them.
final class RemovalCase {
    let peers: [MeshPeer]
    let server: MeshServer
    let key: DocumentKey
    let clock = MeshClock()
    private(set) var refusals: [Refusal] = []

    init(_ count: Int, in folder: URL) async throws {
        let clock = clock
        server = try await MeshServer(in: folder, clock)
        peers = try (0..<count).map { place in
            try MeshPeer("p\(place)", in: folder, seed: UInt64(place) + 1, hasServer: true) { clock.now }
        }
        key = DocumentKey(collection: "c", id: try DocumentID(.int(1)))
        for peer in peers { try peer.subscribe("SELECT * FROM c") }
    }

    func close() async throws {
        for peer in peers { try peer.close() }
        await server.close()
    }

    /// A peer meets the server until neither has anything to say.
    func meet(_ place: Int) async throws {
        let run = try #require(try await MeshServerRun(peers[place], server, at: server.now))
        try await run.settle()
        refusals += run.refusals
        await run.cut()
    }

    func link(_ first: Int, _ second: Int) async throws {
        let link = try #require(
            MeshLinkRun(peers[first], peers[second]) { $0.wallMilliseconds = self.clock.now })
        try await link.settle()
        link.cut()
    }

    /// A peer forgets the tombstones that its server has, as it does when it starts after a month.
    func forgetTombstones(_ place: Int) throws {
        clock.pass(31 * 86_400_000)
        try peers[place].restart()
    }

    /// The copy of a document that a peer shows the server.
    func shown(_ place: Int) throws -> DocumentVersion {
        DocumentVersion(key: key, vector: try document(place).vector.encoded())
    }

    /// A peer takes another identity as a writer, as after an eviction.
    func renew(_ place: Int) throws {
        let actor = peers[place].replica.actor
        try peers[place].execute("INSERT INTO c DOCUMENTS ({'_id': 9})")
        try peers[place].execute("EVICT FROM c WHERE _id = 9")
        try peers[place].execute("INSERT INTO c DOCUMENTS ({'_id': 9})")
        #expect(peers[place].replica.actor != actor)
    }

    struct NoAnswer: Error {}

    /// The state that the server answers a question with.
    func answer(to shown: DocumentVersion) async throws -> EncodedState {
        let answer = try await server.ask(.readStates([key], held: [shown]))
        guard case .states(let states, _, _)? = answer, let state = states.first?.state else {
            throw NoAnswer()
        }
        return state
    }

    func document(_ place: Int) throws -> Document {
        try peers[place].state(key).map { try Document(decoding: $0) } ?? Document()
    }

    func serverDocument() async throws -> Document {
        try await server.state(key).map { try Document(decoding: $0) } ?? Document()
    }

    /// Everybody holds the same bytes, which show this; and nothing was refused on the way.
    func check(_ shown: Value?, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let expected = try await serverDocument()
        for place in peers.indices {
            #expect(try document(place) == expected, "p\(place)", sourceLocation: sourceLocation)
        }
        let value: Value? = expected.isLive ? .object(expected.value) : nil
        #expect(value == shown, sourceLocation: sourceLocation)
        #expect(refusals.isEmpty, sourceLocation: sourceLocation)
    }
}
