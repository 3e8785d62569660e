import CRDT
import DQL
import Exchange
import TestSupport
import Testing

@testable import Replica

/// A transaction of many statements, each of which happens as a whole or not at all: what it tells others is
/// what its own tables show, whatever was undone on the way.
@Suite("Parts of a transaction")
struct PartsTests {
    private struct Stop: Error {}

    @Test(
        "random parts, some within others, some undone: the operation makes the same documents elsewhere",
        arguments: Depth.seeds(fast: 6, deep: 300))
    func sameElsewhere(_ seed: UInt64) throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            let reader = try open(folder.appendingPathComponent("reader"), TestEnvironment(seed: 2))
            try writer.createIndex("a", on: "a")
            var random = SplitMix64(seed: seed)
            for _ in 0..<20 {
                let result = try writer.write { transaction in
                    for _ in 0...random.below(4) { try Self.part(transaction, &random, depth: 0) }
                }
                if let operation = result.operation {
                    let stamps = Set(
                        operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) })
                    #expect(stamps.count == operation.changes.count, "a document is changed once")
                    #expect(try reader.receive(Reception(updates: TestLog.deltas(of: operation))) == .stored)
                }
                #expect(try reader.everything() == writer.everything(), "seed \(seed)")
            }
            #expect(try writer.indexFaults() == [])
        }
    }

    /// Some edits and further parts; every third part is undone.
    private static func part(
        _ transaction: WriteTransaction, _ random: inout SplitMix64, depth: Int
    ) throws {
        let isUndone = random.below(3) == 0
        do {
            try transaction.atomically {
                for _ in 0...random.below(5) {
                    if depth < 3, random.below(4) == 0 {
                        try part(transaction, &random, depth: depth + 1)
                    } else {
                        try edit(transaction, &random)
                    }
                }
                if isUndone { throw Stop() }
            }
        } catch is Stop {}
    }

    private static func edit(_ transaction: WriteTransaction, _ random: inout SplitMix64) throws {
        let id = try DocumentID(.int(Int64(random.below(8))))
        let value = Value.int(Int64(random.below(100)))
        switch random.below(6) {
        case 0...2:
            let isThere = try transaction.exists("c", id)
            let isInserted = try transaction.insert(
                "c", id, ObjectValue([(key: "a", value: value)]), declared: TypeDeclaration(kind: .map),
                objectsAreRegisters: false)
            #expect(isInserted == !isThere)
        case 3: try transaction.edit("c", id) { $0.delete() }
        default:
            guard try transaction.exists("c", id) else { return }
            try transaction.edit("c", id) { try $0.set([random.below(2) == 0 ? "a" : "b"], value) }
        }
    }
}
