import CRDT
import Exchange
import TestSupport
import Testing

@testable import Replica
@testable import Transport

/// Notes that come beside what they name, that a neighbour does not take, or that contradict each other
/// (decision 0164).
@Suite("Notes of links at their edges", .timeLimit(.minutes(2)))
struct NoteEdgeTests {
    /// Versions of document 0: as one author began it, and changed by each of two others.
    private struct Versions {
        let key: DocumentKey
        let base: Document
        let first: (actor: ActorID, document: Document)
        let second: (actor: ActorID, document: Document)
    }

    private func withPeers(
        _ count: Int, subscribing statement: String = "SELECT * FROM c",
        _ body: ([MeshPeer], Versions) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let peers = try (0..<count + 3).map { place in
                try MeshPeer("p\(place)", in: folder, seed: UInt64(place) + 1) { 1_800_000_000_000 }
            }
            let authors = peers.suffix(3).map { $0 }
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(0)))
            for peer in peers { try peer.subscribe(statement) }
            try authors[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'kind': 'blue'})")
            let base = try document(key, at: authors[0])
            let changed = try authors[1...].map { author in
                try tell(author, key, .state(base.encoded()))
                try author.execute("UPDATE c SET by\(author.name) = 1 WHERE _id = 0")
                return (actor: author.replica.actor, document: try document(key, at: author))
            }
            try await body(
                Array(peers.prefix(count)),
                Versions(key: key, base: base, first: changed[0], second: changed[1]))
            for peer in peers { try peer.close() }
        }
    }

    private func document(_ key: DocumentKey, at peer: MeshPeer) throws -> Document {
        try Document(decoding: try #require(try peer.state(key)))
    }

    /// A link of somebody else brings this.
    private func tell(
        _ peer: MeshPeer, _ key: DocumentKey, _ contents: DocumentUpdate.Content...
    ) throws {
        let feed = try #require(LogID(bytes: Array(repeating: 9, count: 16)))
        _ = try peer.replica.feed.receive(
            Reception(updates: contents.map { DocumentUpdate(key: key, content: $0) }, settles: [key]),
            from: feed)
    }

    private func void(_ actor: ActorID) -> DocumentUpdate.Content {
        .void(VersionVector([.init(actor: actor, time: 0)]).encoded())
    }

    /// Runs links until nothing is left to do; false if that takes too many steps.
    private func rest(_ links: [MeshLinkRun]) async throws -> Bool {
        var left = 5_000
        var moves = true
        while moves, left > 0 {
            moves = false
            for link in links {
                for place in [0, 1] {
                    while left > 0, try await link.step(place) { (moves, left) = (true, left - 1) }
                    while link.ends[place].peer.later.step() { moves = true }
                }
            }
        }
        return !moves
    }

    @Test("a document that goes in the frame that brings it goes at the neighbour too")
    func broughtAndVoid() async throws {
        try await withPeers(2) { peers, versions in
            let link = try #require(MeshLinkRun(peers[0], peers[1]))
            try await link.settle()
            let (key, document) = (versions.key, versions.base)
            // Both come in one frame, behind another one.
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
            try tell(peers[0], key, .state(document.encoded()))
            let author = try #require(document.vector.entries.first).actor
            try tell(peers[0], key, void(author), .state(Document().encoded()))
            #expect(try peers[0].state(key) == nil)
            try await link.settle()
            #expect(try peers[1].state(key) == nil)
            link.cut()
        }
    }

    @Test("a neighbour's word that something is gone takes nothing: only the server has a frontier")
    func unbelievedRemoval() async throws {
        try await withPeers(1) { peers, versions in
            let state = DocumentUpdate.Content.state(versions.first.document.encoded())
            try tell(peers[0], versions.key, state)
            try tell(peers[0], versions.key, .gone(versions.first.document.vector.encoded()))
            try tell(
                peers[0], versions.key, .gone(versions.first.document.vector.encoded()),
                .state(versions.base.encoded()))
            #expect(try document(versions.key, at: peers[0]) == versions.first.document)
        }
    }

    @Test("neighbours that do not take a note are not told it for ever")
    func unbelieved() async throws {
        try await withPeers(3) { peers, versions in
            let (key, base, change) = (versions.key, versions.base, versions.first)
            try tell(peers[0], key, .state(change.document.encoded()))
            try tell(peers[0], key, void(change.actor), .state(base.encoded()))
            #expect(try document(key, at: peers[0]) == base)
            let links = try [1, 2].map { place in
                try tell(peers[place], key, .state(change.document.encoded()))
                return try #require(
                    MeshLinkRun(peers[place], peers[0]) { link in
                        if link.isDialer { link.mayWrite = { _ in false } }
                    })
            }
            #expect(try await rest(links), "the links come to rest")
            #expect(try document(key, at: peers[0]) == base)
            #expect(links.allSatisfy { $0.frames < 100 }, "\(links.map(\.frames)) frames")
            for link in links { link.cut() }
        }
    }

    @Test("two neighbours that each hold what the other calls void come to rest")
    func contradiction() async throws {
        try await withPeers(2) { peers, versions in
            let held = [versions.first, versions.second]
            for place in [0, 1] {
                let state = DocumentUpdate.Content.state(held[place].document.encoded())
                try tell(peers[place], versions.key, state)
                try tell(peers[place], versions.key, void(held[1 - place].actor), state)
                #expect(try !peers[place].void(versions.key).isEmpty)
            }
            let link = try #require(MeshLinkRun(peers[0], peers[1]))
            #expect(try await rest([link]), "the link comes to rest")
            #expect(link.frames < 200, "\(link.frames) frames")
            for place in [0, 1] {
                #expect(try document(versions.key, at: peers[place]) == held[place].document)
            }
            link.cut()
        }
    }

    @Test("a staged document that is named with void stamps is asked about, whatever its vector covers")
    func stagedAndNamed() async throws {
        try await withPeers(1) { peers, versions in
            let (key, replica) = (versions.key, peers[0].replica)
            let state = DocumentUpdate(key: key, content: .state(versions.first.document.encoded()))
            _ = try replica.stage(StagedPage(subscription: [1], updates: [state]))
            var named = DocumentVersion(key: key, vector: versions.base.vector.encoded())
            #expect(try replica.outdated([named], for: [1]).isEmpty)
            named.void = VersionVector([.init(actor: versions.first.actor, time: 0)]).encoded()
            #expect(try replica.outdated([named], for: [1]) == [key])
        }
    }

    @Test("a change stands where its sender evicts the document before it is asked about it")
    func evictedBeforeAsked() async throws {
        try await withPeers(2, subscribing: "SELECT * FROM c WHERE kind = 'blue'") { peers, _ in
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(2)))
            let link = try #require(MeshLinkRun(peers[0], peers[1]))
            try await link.settle()
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'kind': 'blue'})")
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'kind': 'blue', 'n': 1})")
            try peers[0].execute("UPDATE c SET kind = 'green' WHERE _id = 2")
            try peers[0].execute("UPDATE c SET n = 2 WHERE _id = 2")
            while peers[0].later.step() {}
            while try await link.step(0) {}
            while try await link.step(1) {}
            try peers[0].execute("EVICT FROM c WHERE _id = 2")
            try await link.settle()
            #expect("\(try document(key, at: peers[1]).value)".contains("green"))
            link.cut()
        }
    }
}
