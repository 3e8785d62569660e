import CRDT
import DQL
import DQLCorpus
import Foundation
import TestSupport
import Testing

@testable import Replica

/// Every statement of every relation has to give what the naive evaluator gives without any index, row for
/// row, in the same order: an index changes not even an order that nobody promised.
@Suite("Indexes change no answer")
struct IndexAgreementTests {
    @Test(
        "on stores with random indexes every relation holds, and every answer is the naive one",
        arguments: RelationCases.chunks(fast: 500))
    func agrees(_ cases: Range<Int>) throws {
        try withTemporaryDirectory { folder in
            var stores = 0
            let reports = try RelationRun(documents: 12).violations(of: cases) { store in
                stores += 1
                let engine = try ReplicaEngine(folder: folder.appendingPathComponent("\(stores)"))
                try RandomIndexes.create(on: engine, seed: UInt64(store))
                return EnginePair(MemoryStore(isSorted: false), engine)
            }
            #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
        }
    }

    @Test(
        "statements made for indexes give the same by scan, by index and naively, while the documents change",
        arguments: RelationCases.chunks(fast: 250))
    func statements(_ cases: Range<Int>) throws {
        try withTemporaryDirectory { folder in
            for seed in stride(from: cases.lowerBound, to: cases.upperBound, by: IndexedWorld.statements) {
                let world = try IndexedWorld(
                    folder: folder.appendingPathComponent("\(seed)"), seed: UInt64(seed))
                let reports = try world.run()
                #expect(reports == [], "MIMEO_SEED=\(seed): \(reports.joined(separator: "\n"))")
                try world.close()
            }
        }
    }
}

/// A naive store and one on disk that go through the same random changes; the one on disk has indexes that
/// come and go.
final class IndexedWorld {
    /// How many statements are asked of one world.
    static let statements = 50

    private let naive = MemoryStore(isSorted: false)
    private let replica: PeerReplica
    private var drawn: IndexedStatements
    private var indexes: Set<Int> = []
    /// Held prepared as applications hold them, while documents and indexes change.
    private let prepared: [PreparedStatement]

    init(folder: URL, seed: UInt64) throws {
        drawn = IndexedStatements(seed: seed)
        replica = try open(folder, TestEnvironment(seed: seed))
        prepared = try IndexedStatements.kept.map { try PreparedStatement($0) }
    }

    func close() throws { try replica.close() }

    func run() throws -> [String] {
        var reports: [String] = []
        for _ in 0..<(5 + drawn.random.below(40)) { try change(drawn.insertion()) }
        for _ in 0..<Self.statements where reports.isEmpty {
            switch drawn.random.below(10) {
            case 0, 1: try change(drawn.update())
            case 2: try change(drawn.insertion())
            case 3: try change(drawn.removal(evicts: true))
            case 4, 5: try changeIndexes()
            default: break
            }
            if let report = try difference(drawn.select()) { reports.append(report) }
            let arguments = drawn.arguments()
            if let report = try difference(drawn.random.pick(prepared), arguments) { reports.append(report) }
            if drawn.random.chance(25), let report = try joinDifference() { reports.append(report) }
        }
        return reports + (try replica.indexFaults())
    }

    private func change(_ statement: String) throws {
        _ = try naive.execute(statement)
        try replica.execute(statement)
    }

    private func changeIndexes() throws {
        let number = drawn.random.below(8)
        if indexes.remove(number) != nil {
            try replica.change(.drop(collection: "c", name: "i\(number)", ifExists: false))
            return
        }
        indexes.insert(number)
        let index = drawn.index("i\(number)")
        if drawn.random.chance(15) {
            // Left as a crash in its midst would leave it.
            try replica.store.begin(index, ifNotExists: false)
        } else {
            try replica.change(.create(index, ifNotExists: false))
        }
    }

    /// The difference between the naive answer, the scan's and the index's; nil if there is none.
    private func difference(_ statement: String) throws -> String? {
        try difference(PreparedStatement(statement), ObjectValue())
    }

    private func difference(_ prepared: PreparedStatement, _ arguments: ObjectValue) throws -> String? {
        let statement = prepared.text
        let wanted = try outcome { try self.naive.execute(statement, arguments).rows }
        for usesIndexes in [true, false] {
            var options = ExecutionOptions()
            options.usesIndexes = usesIndexes
            let found = try outcome {
                try self.replica.read { try prepared.rows(in: $0, arguments: arguments, options: options) }
            }
            guard found != wanted else { continue }
            let known = try replica.indexes().map { "\($0.row)" }.joined(separator: "\n")
            return
                "\(statement) \(arguments)\n\(usesIndexes ? "by index" : "by scan"): \(found)\n"
                + "naive: \(wanted)\n\(known)"
        }
        return nil
    }

    /// A join that an index or an id supports, beside one that scans naively.
    private func joinDifference() throws -> String? {
        let statement = drawn.join()
        let wanted = try outcome { try self.naive.rows(statement("USE INDEX ''")) }
        let prepared = try PreparedStatement(statement(""))
        let found = try outcome { try self.replica.read { try prepared.rows(in: $0) } }
        // Without support it is refused, which is no answer.
        guard found != wanted, !found.hasPrefix("DQL-0616") else { return nil }
        let known = try replica.indexes().map { "\($0.row)" }.joined(separator: "\n")
        return "\(prepared.text)\nby index: \(found)\nnaive: \(wanted)\n\(known)"
    }

    private func outcome(_ body: () throws -> [Value]) throws -> String {
        do {
            return try body().map { "\($0)" }.joined(separator: "\n")
        } catch let error as DQLError {
            return "\(error)"
        }
    }
}
