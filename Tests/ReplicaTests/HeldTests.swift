import CRDT
import DQL
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("What a subscriber holds, beside the fold")
struct HeldTests {
    /// A fold of these statements, each an operation, and its writer.
    private func fold(_ folder: URL, _ statements: [String]) throws -> (Materialization, PeerReplica) {
        let writer = try open(folder.appendingPathComponent("writer"))
        let fold = try openFold(folder.appendingPathComponent("fold"))
        var log = TestLog()
        for statement in statements { log.append(try #require(try writer.execute(statement).operation)) }
        _ = try fold.fold(log.items())
        return (fold, writer)
    }

    private func compare(
        _ fold: Materialization, _ held: [(Value, VersionVector)], unmatched: Set<DocumentID> = [],
        after: Value? = nil, isLast: Bool = true,
        rows: Int = 100, mayWrite: Bool = true, mayRead: (DocumentKey) -> Bool = { _ in true }
    ) throws -> HoldingsAnswer {
        let candidates = try held.map { item in
            var version = DocumentVersion(try key("c", item.0), item.1)
            version.isUnmatched = unmatched.contains(version.id)
            return version
        }
        let page = HoldingsPage(
            candidates: candidates, after: try after.map { try DocumentID($0) }, isLast: isLast)
        let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE n > 0")
        return try fold.read { transaction in
            let found = try transaction.compare(
                page, of: query, bytes: 1_000_000, rows: rows, mayWrite: { _ in mayWrite },
                mayRead: mayRead)
            // Asked for one by one, the same is said of them.
            let readable = candidates.filter { mayRead($0.key) && $0.id <= found.through ?? $0.id }
            let single = try transaction.lost(of: readable, mayWrite: { _ in mayWrite })
            for (one, all) in [(single.told, found.gone), (single.lost, found.lost)] {
                let sorted = one.sorted { $0.key.id < $1.key.id }
                #expect(sorted.map(\.id) == all.map(\.id) && sorted.map(\.vector) == all.map(\.vector))
            }
            return found
        }
    }

    @Test("what was written beside the subscriptions waits for its answer, and nothing else does")
    func besideSubscriptions() throws {
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c")])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 2})")
            _ = try replica.acknowledge(replica.actor, through: 2, offset: 9)
            #expect(try replica.wantUnanswered(through: 9) == [try key("d", 2)])
        }
    }

    @Test("what was staged is forgotten with an eviction, but for live subscriptions")
    func evictedWhileStaged() throws {
        try withPeer { replica, _ in
            let live = try SubscriptionQuery(statement: "SELECT * FROM c")
            replica.setLiveQueries([live])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            for key in [live.canonicalKey, [5]] { try replica.stage([], for: key, resume: [1]) }
            try replica.execute("EVICT FROM c WHERE _id = 1")
            #expect(try replica.resumption(of: live.canonicalKey) == [1])
            #expect(try replica.resumption(of: [5]) == nil)
        }
    }

    @Test("seeds that were reaped are lost for a subscriber that holds them alive, under the same vector")
    func reapedSeeds() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            let seed = "INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'n': 1})"
            log.append(try #require(try writer.execute(seed).operation))
            let seeded = try Document(decoding: try #require(try writer.state(key("c", 1))))
            let living = seeded.vector
            log.append(try #require(try writer.execute("DELETE FROM c").operation))
            let deleted = try Document(decoding: try #require(try writer.state(key("c", 1)))).vector
            log.append(
                Operation(
                    actor: ActorID(9), sequence: 1, timestamp: 1 << 60,
                    changes: [
                        Operation.Change(
                            collection: "c", id: try key("c", 1).id, delta: ReapingChange.encode(at: deleted))
                    ]))
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let found = try compare(fold, [(.int(1), living)])
            #expect(found.lost.map(\.id) == [try DocumentID(.int(1))])
            #expect(found.lost.map(\.known) == [living])
            #expect(found.documents.isEmpty && found.gone.isEmpty)
        }
    }

    @Test("what the log has lost is gone for a subscriber that may not give it back")
    func lost() throws {
        try withTemporaryDirectory { folder in
            let (fold, _) = try fold(folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})"])
            let known = try Document(decoding: try #require(try fold.state(try key("c", 1)))).vector
            let later = VersionVector([.init(actor: ActorID(77), time: 1 << 60)])
            let held: [(Value, VersionVector)] = [(.int(1), known.union(later)), (.int(2), later)]
            let giving = try compare(fold, held)
            #expect(giving.gone.isEmpty && giving.documents.isEmpty)
            let taking = try compare(fold, held, mayWrite: false)
            #expect(taking.gone.map(\.id) == [try DocumentID(.int(1)), try DocumentID(.int(2))])
            #expect(taking.gone.map(\.known) == [known.union(later), later])
            #expect(taking.documents.map(\.id) == [try DocumentID(.int(1))])
            #expect(try compare(fold, [(.int(1), known)], mayWrite: false).gone.isEmpty)
        }
    }

    @Test(
        "what does not match at the subscriber is told as gone or hidden only, unless it matches here"
    )
    func unmatched() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder,
                [
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})",
                    "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1})", "UPDATE c SET n = -1 WHERE _id = 1",
                    "UPDATE c SET n = 2 WHERE _id = 2",
                    "UPDATE c SET n = -1 WHERE _id = 3",
                ])
            let lost = VersionVector([.init(actor: writer.actor, time: 1)])
            let first = lost
            let held: [(Value, VersionVector)] = [(1, first), (2, first), (3, first), (4, lost)]
            let ids = try (1...4).map { try DocumentID(.int(Int64($0))) }
            #expect(try compare(fold, held).documents.map(\.id) == Array(ids[0..<3]))
            let found = try compare(fold, held, unmatched: [ids[0], ids[1], ids[3]])
            #expect(found.documents.map(\.id) == [ids[1], ids[2]])
            #expect(found.lost.map(\.id) == [ids[3]])
            #expect(try compare(fold, held, unmatched: Set(ids)) { _ in false }.hidden.map(\.id) == ids)
            // Gone here, and anew: what takes its place is not the subscriber's concern.
            let other = VersionVector([
                .init(actor: writer.actor, time: 1), .init(actor: ActorID(7), time: 1),
            ])
            let anew = try compare(fold, [(1, other)], unmatched: [ids[0]], mayWrite: false)
            #expect(anew.gone.map(\.id) == [ids[0]])
            #expect(anew.documents.map(\.id) == [ids[1]])
        }
    }

    @Test("what is held is not sent again; what is new, newer, left or gone is told")
    func comparison() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder,
                [
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})",
                    "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1})",
                    "INSERT INTO c DOCUMENTS ({'_id': 4, 'n': 0}), ({'_id': 5, 'n': 1})",
                    "UPDATE c SET n = -1 WHERE _id = 3",
                ])
            let vectors = try (1...5).map { id -> VersionVector in
                let key = try key("c", .int(Int64(id)))
                return try Document(decoding: try #require(try fold.state(key))).vector
            }
            let first = VersionVector([.init(actor: writer.actor, time: vectors[0].entries[0].time)])
            let found = try compare(fold, [(1, vectors[0]), (3, first), (7, first)])
            #expect(found.documents.map(\.id) == [try DocumentID(2), try DocumentID(3), try DocumentID(5)])
            #expect(found.lost.map(\.id) == [try DocumentID(7)])
            #expect(found.lost.map { $0.known?.entries.count } == [1])
            #expect(found.hidden.isEmpty && found.gone.isEmpty)
        }
    }

    @Test("writes that the log has not seen are not gone, and what was reaped and written again is both")
    func unseen() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})"])
            let ours = try Document(decoding: try #require(try fold.state(try key("c", 1)))).vector
            let time = ours.entries[0].time
            let unseen = VersionVector([.init(actor: writer.actor, time: time + 1)])
            let foreign = VersionVector([.init(actor: ActorID(9), time: 1)])
            let found = try compare(fold, [(1, ours.union(foreign)), (2, unseen), (3, foreign)])
            #expect(found.documents.isEmpty)
            #expect(found.gone.isEmpty && found.lost.isEmpty)
            // The fold has a later write of this writer elsewhere, so the one held here was removed.
            _ = try fold.fold([])
            let again = try compare(fold, [(1, VersionVector([.init(actor: writer.actor, time: time - 1)]))])
            #expect(again.documents.map(\.id) == [try DocumentID(1)])
            #expect(again.gone.isEmpty && again.lost.isEmpty)
        }
    }

    @Test(
        "nothing counts as lost where a writer goes on: what its later write rests on says which stamps are")
    func goesOn() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})"])
            let lost = VersionVector([.init(actor: writer.actor, time: 1)])
            let later = VersionVector([.init(actor: ActorID(7), time: 9)])
            #expect(try compare(fold, [(.int(2), lost)]).lost.map(\.known) == [lost])
            let both = try compare(fold, [(.int(2), lost.union(later))])
            #expect(both.lost.isEmpty && both.gone.isEmpty && both.documents.count == 1)
            try fold.read { transaction in
                var parts = LostParts(transaction)
                let most = try parts.most(of: lost.union(later), here: VersionVector())
                let none = try parts.most(of: lost, here: lost)
                #expect(most == lost && none.isEmpty)
            }
        }
    }

    @Test("ids that may not be read are named back to who holds them, and to nobody else")
    func hidden() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})"])
            let vector = VersionVector([.init(actor: writer.actor, time: 1)])
            let found = try compare(fold, [(1, vector), (9, vector)]) { _ in false }
            #expect(found.documents.isEmpty && found.gone.isEmpty)
            #expect(found.hidden.map(\.id) == [try DocumentID(1), try DocumentID(9)])
        }
    }

    @Test("a long range is answered in parts, none of it twice and none left out")
    func parts() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder, (1...9).map { "INSERT INTO c DOCUMENTS ({'_id': \($0), 'n': 1})" })
            let old = VersionVector([.init(actor: writer.actor, time: 1)])
            var held: [(Value, VersionVector)] = [(3, old), (20, old), (21, old)]
            var sent: [DocumentID] = []
            var lost: [DocumentID] = []
            var after: Value?
            for _ in 0..<6 {
                let found = try compare(fold, held, after: after, rows: 2)
                sent += found.documents.map(\.id)
                lost += found.lost.map(\.id)
                guard let through = found.through else { break }
                after = through.value
                held.removeAll { item in (try? DocumentID(item.0)).map { $0 <= through } ?? true }
            }
            #expect(try sent == (1...9).map { try DocumentID(.int($0)) })
            #expect(try lost == [20, 21].map { try DocumentID(.int($0)) })
        }
    }

    @Test("a store names what it shows as matching, by id, without tombstones")
    func names() throws {
        try withPeer { replica, _ in
            try replica.execute(
                "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1}), ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 0})")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 4, 'n': 1})")
            try replica.execute("DELETE FROM c WHERE _id = 4")
            let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE n > 0")
            let page = try replica.held(of: query, after: nil)
            #expect(page.candidates.map(\.id) == [try DocumentID(1), try DocumentID(3)])
            #expect(page.isLast)
            #expect(try replica.held(of: query, after: try DocumentID(1)).candidates.count == 1)
            let all = try replica.held(of: query, after: nil, isWhole: true)
            #expect(try all.candidates.map(\.id) == (1...3).map { try DocumentID(.int($0)) })
            #expect(all.candidates.map(\.isUnmatched) == [false, true, false])
        }
    }
}
