import CRDT
import DQL
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Indexes are kept up")
struct IndexMaintenanceTests {
    private static let paths = ["a", "-b", "m", "m.x", "kind", "m.z.deep"]

    @Test(
        "through random writes, receptions, folds, evictions and restarts",
        arguments: Depth.cases(fast: 3, deep: 100))
    func histories(_ seed: Int) throws {
        try withTemporaryDirectory { folder in
            let world = try World(folder: folder, seed: UInt64(seed), peers: 3)
            var random = SplitMix64(seed: UInt64(seed) + 77)
            var created = 0
            for step in 0..<150 {
                try world.step()
                if random.chance(10) {
                    let replica: any Replica =
                        random.chance(30) ? world.server : random.pick(world.peers).replica
                    created += try change(replica, random.pick(Self.paths), &random) ? 1 : 0
                }
                if step % 25 == 0 { try expectNoFaults(world) }
            }
            for peer in world.peers { try world.upload(peer) }
            for peer in world.peers { try world.sendStates(to: peer, chance: 100) }
            try expectNoFaults(world)
            #expect(created > 0)
        }
    }

    /// Creates, drops, or begins to build.
    /// - Returns: whether it created the index or began to.
    private func change(_ replica: any Replica, _ path: String, _ random: inout SplitMix64) throws -> Bool {
        switch random.below(4) {
        case 0:
            try replica.change(.drop(collection: "c", name: path, ifExists: true))
            return false
        case 1 where try replica.description(of: path) == nil:
            try replica.beginIndex(path, on: path, steps: random.below(2))
        default: try replica.change(.create(index(path, on: [path, "kind"]), ifNotExists: true))
        }
        return true
    }

    private func expectNoFaults(_ world: World) throws {
        for peer in world.peers { #expect(try peer.replica.indexFaults() == []) }
        #expect(try world.server.indexFaults() == [])
    }

    @Test("indexes are right after the publishing of a staged snapshot, and after a repair")
    func syncing() throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a")
            for number in 1...4 {
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'a': \(number)})")
            }
            let states = try (3...6).map { number in
                DocumentUpdate(
                    key: try key("c", .int(Int64(number))),
                    content: .state(
                        try document("a", .int(Int64(number) * 10), by: 9, at: .max >> 20).encoded()))
            }
            try replica.stage(states, for: [7])
            #expect(try replica.ids("a", [IndexRange()]) == ["1", "2", "3", "4"])
            #expect(try replica.receive(Reception(publishes: [7])) == .stored)
            #expect(try replica.indexFaults() == [])
            #expect(try replica.ids("a", [IndexRange()]).count == 6)

            let request = RepairRequest(
                admitted: [:], closed: [replica.actor], refused: [], seen: nil)
            guard case .needs(let keys) = try replica.repair(request) else {
                Issue.record("nothing was asked for")
                return
            }
            let server = try document("a", "server", by: 3, at: 5).encoded()
            try replica.stageRepair(keys.map { ($0, $0.id.value == 2 ? server : nil) })
            _ = try replica.repair(request)
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test("a part of a transaction that is undone takes along what it did to indexes")
    func savepoint() throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a")
            struct Stop: Error {}
            let long = Value.string(String(repeating: "x", count: 2_000))
            _ = try replica.write { transaction in
                for id in 1...2 as ClosedRange<Int64> {
                    try? transaction.atomically {
                        #expect(try !transaction.exists("c", DocumentID(.int(id))))
                        try transaction.edit("c", DocumentID(.int(id))) { try $0.set(["a"], long) }
                        if id == 1 { throw Stop() }
                    }
                }
                let isThere = try transaction.exists("c", DocumentID(1))
                #expect(!isThere)
            }
            #expect(try replica.description(of: "a")?.isExact == false)
            #expect(try replica.ids("a", [IndexRange()]) == ["2"])
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test("a transaction that is rolled back leaves its indexes as they were")
    func rollback() throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            struct Stop: Error {}
            #expect(throws: Stop.self) {
                _ = try replica.write { transaction in
                    try transaction.edit("c", DocumentID(1)) { try $0.set(["a"], 2) }
                    try transaction.edit("c", DocumentID(2)) { try $0.set(["a"], 3) }
                    throw Stop()
                }
            }
            #expect(try replica.indexFaults() == [])
            #expect(try replica.ids("a", [IndexRange(equal: [1])]) == ["1"])
            #expect(try replica.ids("a", [IndexRange(equal: [3])]) == [])
        }
    }

    @Test(
        "the fault finder finds a lacking, a superfluous and a wrong entry",
        arguments: [
            "DELETE FROM index_1 WHERE document = 1", "UPDATE index_1 SET document = 9 WHERE document = 1",
            "UPDATE index_1 SET key = x'10' WHERE document = 1",
            "UPDATE index_1 SET held = x'80' WHERE document = 1",
            "INSERT INTO index_1 (key, document) VALUES (x'10', 2)",
        ])
    func faults(_ damage: String) throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a")
            for number in 1...2 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            try replica.committing { database, _ in
                try RawStatement(fresh: damage, database).run()
                return ((), nil)
            }
            #expect(try !replica.indexFaults().isEmpty)
        }
    }
}
