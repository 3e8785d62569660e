import CRDT
import DQL
import DQLCorpus
import Foundation

@testable import Replica

/// A replica on disk as an engine of the corpus: reads run on snapshots, writes in transactions.
final class ReplicaEngine: StatementEngine {
    private let replica: PeerReplica
    private var generated = 0
    private var hasHadIndexes = false
    /// The transaction to be undone at its end, while there is one.
    private var open: WriteTransaction?

    /// Ends a transaction that is to leave nothing behind.
    private struct Undone: Error {}

    init(folder: URL) throws {
        replica = try PeerReplica(
            directory: folder.path, environment: TestEnvironment().environment, logger: quiet)
    }

    /// True if no statement has written anything or been given an id, so that the next case cannot tell.
    var isUntouched: Bool { replica.head == 0 && generated == 0 && !hasHadIndexes }

    func close() throws { try replica.close() }

    func execute(_ statement: String, _ arguments: ObjectValue, strict: Bool) throws -> StatementResult {
        let prepared = try PreparedStatement(statement)
        let options = ExecutionOptions(strictMode: strict)
        if let open { return try run(prepared, in: open, arguments, options) }
        if let change = prepared.indexChange(options.parameters) {
            hasHadIndexes = true
            try replica.change(change)
            return StatementResult()
        }
        guard prepared.isReadOnly else {
            return try replica.write { try self.run(prepared, in: $0, arguments, options) }.value
        }
        var result = StatementResult()
        result.warnings = try replica.read { transaction in
            try prepared.forEachRow(in: transaction, arguments: arguments, options: options) { row in
                result.rows.append(row)
                return true
            }
        }
        return result
    }

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        if let open { return try open.scan(collection, visit) }
        try replica.read { try $0.scan(collection, visit) }
    }

    func undoing<Result>(_ body: () throws -> Result) throws -> Result {
        var result: Result?
        do {
            _ = try replica.write { transaction in
                open = transaction
                defer { open = nil }
                result = try body()
                throw Undone()
            }
        } catch is Undone {}
        guard let result else { preconditionFailure("an undone transaction has run") }
        return result
    }

    private func run(
        _ statement: PreparedStatement, in transaction: WriteTransaction, _ arguments: ObjectValue,
        _ options: ExecutionOptions
    ) throws -> StatementResult {
        try statement.execute(in: transaction, arguments: arguments, options: options) {
            generated += 1
            return try DocumentID(.string("generated-\(generated)"))
        }
    }
}
