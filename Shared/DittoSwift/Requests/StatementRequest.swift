import CRDT
import DQL
import Replica

/// One execution of a statement, with the data it was given when it began. Running it again in another
/// transaction is the same execution.
struct StatementRequest: Sendable {
    let engine: Engine
    let statement: PreparedStatement
    let arguments: ObjectValue
    /// Without the system collections, which depend on the transaction.
    let options: ExecutionOptions
    /// The rows of `system:data_sync_info`.
    let peers: [ObjectValue]
    /// The rows of `system:indexes`.
    let indexes: [ObjectValue]

    /// Runs any statement but ALTER SYSTEM and SHOW. The owner of the transaction supplies the commit.
    func run(
        in transaction: WriteTransaction, _ generateID: () -> DocumentID
    ) throws -> StatementOutcome {
        guard !statement.isReadOnly else {
            return try read(from: transaction, transaction.collectionNames)
        }
        let result = try statement.execute(
            in: transaction, arguments: arguments, options: options(transaction.collectionNames),
            idGenerator: generateID)
        return StatementOutcome(
            kind: statement.kind, kept: result.rows.map { KeptRow($0) },
            mutatedDocumentIDs: result.mutatedDocumentIDs,
            warnings: result.warnings.map(StatementWarning.init), commit: 0)
    }

    /// Runs a SELECT.
    func read(
        from source: some DocumentSource, _ collectionNames: () throws -> [CollectionName]
    ) throws -> StatementOutcome {
        var rows: [KeptRow] = []
        let warnings = try statement.forEachResult(
            in: source, arguments: arguments, options: options(collectionNames)
        ) { row in
            rows.append(row.kept)
            return true
        }
        return StatementOutcome(
            kind: statement.kind, kept: rows, mutatedDocumentIDs: [],
            warnings: warnings.map(StatementWarning.init), commit: 0)
    }

    private func options(_ collectionNames: () throws -> [CollectionName]) rethrows -> ExecutionOptions {
        var options = options
        options.system = EngineSystemCollections(
            engine: engine, names: statement.reads(.collections) ? try collectionNames() : [], peers: peers,
            indexes: indexes)
        return options
    }
}

extension StatementOutcome {
    /// The same outcome with every row decoded. Throws `unreadableDocument`.
    func decoded() throws -> StatementOutcome {
        StatementOutcome(
            kind: kind, kept: try kept.map { KeptRow(try $0.value) }, mutatedDocumentIDs: mutatedDocumentIDs,
            warnings: warnings, commit: commit)
    }

    /// The same outcome with its commit, and with warnings about documents that became large, and about
    /// evicted ones that nobody else is known to have.
    func with(oversized: [String], untaken: Int = 0, commit: UInt64) -> StatementOutcome {
        StatementOutcome(
            kind: kind, kept: kept, mutatedDocumentIDs: mutatedDocumentIDs,
            warnings: warnings
                + oversized.map { StatementWarning(SDKWarningCode.documentSize.rawValue, $0) }
                + (untaken == 0
                    ? []
                    : [
                        StatementWarning(
                            SDKWarningCode.evictedUntaken.rawValue,
                            "\(untaken) evicted documents had changes that no other peer is known to have")
                    ]),
            commit: commit)
    }
}
