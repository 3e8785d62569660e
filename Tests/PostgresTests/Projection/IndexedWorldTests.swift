import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "Worlds of indexes on a projection in PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct IndexedWorldPostgresTests {
    @Test("statements made for indexes give the same with them, without them and naively, while all changes")
    func statements() async throws {
        let seeds = Depth.seeds(fast: 1, deep: 150)
        try await TestDatabase.use { url in
            var joins = 0
            for seed in seeds {
                let world = try IndexedPostgresWorld(url: url, seed: seed)
                let reports = try world.run(Depth.pick(fast: 25, deep: 50))
                #expect(reports == [], "MIMEO_SEED=\(seed): \(reports.joined(separator: "\n"))")
                joins += world.joins
            }
            #expect(joins > 0, "no join ran: seeds \(seeds)")
        }
    }
}

/// A naive store and a projection that go through the same random changes; the projection has indexes that
/// come and go, and a builder that may have been stopped in its work.
private final class IndexedPostgresWorld {
    private let naive = MemoryStore()
    private let engine: ProjectionEngine
    /// The joins that were carried out.
    private(set) var joins = 0
    private var drawn: IndexedStatements
    private var indexes: Set<Int> = []
    /// Held prepared as services hold them, while documents and indexes change.
    private let prepared: [PreparedStatement]

    init(url: String, seed: UInt64) throws {
        drawn = IndexedStatements(seed: seed)
        // So few that answers go on behind the first rows, and few become many.
        engine = try ProjectionEngine(url: url, database: DatabaseID("world-\(seed)"), firstPushedRows: 3)
        prepared = try IndexedStatements.kept.map { try PreparedStatement($0) }
    }

    func run(_ statements: Int) throws -> [String] {
        var reports: [String] = []
        for _ in 0..<(5 + drawn.random.below(40)) { try change(drawn.insertion()) }
        for _ in 0..<statements where reports.isEmpty {
            switch drawn.random.below(10) {
            case 0, 1: try change(drawn.update())
            case 2: try change(drawn.insertion())
            // EVICT is for peers.
            case 3: try change(drawn.removal(evicts: false))
            case 4, 5: try changeIndexes()
            default: break
            }
            reports += try difference(PreparedStatement(drawn.select()), ObjectValue())
            let arguments = drawn.arguments()
            reports += try difference(drawn.random.pick(prepared), arguments)
            if drawn.random.chance(25) { reports += try joinDifference() }
        }
        // Some draws find no support, and a world may draw only such ones.
        for _ in 0..<40 where joins == 0 && reports.isEmpty { reports += try joinDifference() }
        return try reports + engine.faults()
    }

    private func change(_ statement: String) throws {
        let wanted = try outcome { try naive.rows(statement) }
        let found = try outcome { try engine.rows(statement) }
        #expect(found == wanted, "\(statement)")
    }

    private func changeIndexes() throws {
        let number = drawn.random.below(8)
        if indexes.remove(number) != nil {
            try engine.carryOut(.drop(collection: "c", name: "i\(number)", ifExists: false))
            return
        }
        indexes.insert(number)
        let index = drawn.index("i\(number)")
        // Some are left to the builder of a later one.
        try engine.define(index, isBuilt: !drawn.random.chance(15))
    }

    private func difference(_ prepared: PreparedStatement, _ arguments: ObjectValue) throws -> [String] {
        let wanted = try outcome { try naive.rows(prepared.text, arguments) }
        var reports: [String] = []
        for usesIndexes in [true, false] {
            let found = try outcome { try engine.rows(of: prepared, arguments, usesIndexes: usesIndexes) }
            guard found != wanted else { continue }
            reports.append(
                "\(prepared.text) \(arguments)\n\(usesIndexes ? "with indexes" : "without"): \(found)\n"
                    + "naive: \(wanted)\n\(try engine.indexRows().joined(separator: "\n"))")
        }
        return reports
    }

    /// A join that an index or an id supports, beside one that scans naively.
    private func joinDifference() throws -> [String] {
        let statement = drawn.join()
        let wanted = try outcome { try naive.rows(statement("USE INDEX ''")) }
        let found = try outcome { try engine.rows(of: PreparedStatement(statement("")), ObjectValue()) }
        // Without support it is refused, which is no answer.
        if !found.hasPrefix("DQL-0616") { joins += 1 }
        guard found != wanted, !found.hasPrefix("DQL-0616") else { return [] }
        let indexes = try engine.indexRows().joined(separator: "\n")
        return ["\(statement(""))\nwith indexes: \(found)\nnaive: \(wanted)\n\(indexes)"]
    }

    private func outcome(_ body: () throws -> [Value]) throws -> String {
        do {
            return try body().map { "\($0)" }.joined(separator: "\n")
        } catch let error as DQLError {
            return "\(error)"
        }
    }
}
