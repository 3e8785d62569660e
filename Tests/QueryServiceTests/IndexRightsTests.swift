import CRDT
import DQL
import Foundation
import Identity
import Logging
import Replica
import Testing

@testable import QueryService

@Suite("Rights on a store with indexes")
struct IndexRightsTests {
    /// Twenty documents, of which every other one may be read, in a store with an index on `n`.
    private func withStore(_ body: (PeerReplica, CompiledRules) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("rights-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let replica = try PeerReplica(directory: folder, environment: .system, logger: logger)
        for number in 0..<20 {
            let kind = number % 2 == 0 ? "even" : "odd"
            let text =
                "INSERT INTO c DOCUMENTS ({'_id': '\(kind)-\(number)', 'n': \(number), 'kind': '\(kind)'})"
            let statement = try PreparedStatement(text)
            _ = try replica.write { transaction in
                try statement.execute(in: transaction, idGenerator: { throw CancellationError() })
            }
        }
        for text in ["CREATE INDEX by_n ON c (n)", "CREATE INDEX by_kind ON c (kind)"] {
            let index = try #require(try PreparedStatement(text).indexChange(SystemParameters()))
            try replica.change(index)
        }
        let grant = Grant(
            read: AccessRules(queriesByCollection: ["c": ["_id LIKE 'even%'"]]), queryLanguage: 1)
        try body(replica, try CompiledGrant(grant).read)
        try replica.close()
    }

    @Test(
        "an index gives what a scan would give of what may be read",
        arguments: [
            "SELECT n FROM c WHERE n = 4", "SELECT n FROM c WHERE n = 5", "SELECT n FROM c WHERE n > 10",
            "SELECT n FROM c ORDER BY n", "SELECT n FROM c ORDER BY n DESC LIMIT 3",
            "SELECT * FROM c WHERE n < 3",
            "SELECT COUNT(*) AS a FROM c", "SELECT COUNT(*) AS a FROM c WHERE n >= 5",
            "SELECT MIN(n) AS a, MAX(n) AS b FROM c", "SELECT n FROM c WHERE n IN (1, 2, 3, 4)",
            "SELECT n FROM c WHERE n = 2 OR n = 3", "SELECT n FROM c WHERE n = 3 OR kind = 'odd'",
            "SELECT n FROM c WHERE n = 3 AND kind = 'odd'", "SELECT n FROM c WHERE n > 3 AND kind = 'odd'",
            "SELECT a.n FROM c a JOIN c b ON a.n = b.n", "SELECT DISTINCT kind FROM c WHERE n > 1",
            "SELECT n FROM c WHERE _id = 'odd-1'", "SELECT n FROM c WHERE _id IN ('odd-1', 'even-2')",
        ])
    func agrees(text: String) throws {
        try withStore { replica, rules in
            let statement = try PreparedStatement(text)
            try replica.read { transaction in
                let granted = GrantedDocuments(base: transaction, rules: rules)
                var scanning = ExecutionOptions()
                scanning.usesIndexes = false
                let found = try statement.rows(in: granted).map { JSONText.print($0, sortedKeys: true) }
                // A join needs the index; and what it may give is known.
                guard !text.contains("JOIN") else {
                    #expect(found.count == 10)
                    return
                }
                let expected = try statement.rows(in: granted, options: scanning).map {
                    JSONText.print($0, sortedKeys: true)
                }
                #expect(found.sorted() == expected.sorted())
                #expect(!found.contains { $0.contains("odd") })
            }
        }
    }
}
