import CRDT
import DQL
import DQLCorpus
import Foundation
import Logging
import OperationLog

@testable import Postgres

/// A projection in PostgreSQL as an engine of the corpus: a statement that writes is drafted on a snapshot,
/// becomes an entry of a log that exists in its entries only, and is folded.
final class ProjectionEngine: StatementEngine {
    private let url: String
    private let database: DatabaseID
    private let session: ProjectionSession
    private let builder: IndexBuilder
    /// Indexes that are created when the first statement reads, so that documents are there before them.
    private var pending: [IndexDescription] = []
    private let connection: Connection
    private var position: LogPosition
    private var sequence: SequenceNumber = 0
    private var generated = 0
    /// The draft to be thrown away at its end, while there is one.
    private var open: ProjectionDraft?

    /// - Parameter firstPushedRows: see `PostgresLimits`.
    init(
        url: String, database: DatabaseID, surveyedDocuments: Int = PostgresLimits.surveyedDocuments,
        firstPushedRows: Int = PostgresLimits.firstPushedRows
    ) throws {
        self.url = url
        self.database = database
        let logID = LogID.random()
        position = LogPosition(logID: logID, offset: 0, hash: ChainHash.start(logID))
        session = try ProjectionSession(
            url: url, database: database, start: position, logger: quiet, indexes: DefinedIndexes.projection,
            surveyedDocuments: surveyedDocuments)
        builder = IndexBuilder(url: url, logger: quiet)
        connection = try Connection(url: url)
        connection.firstPushedRows = firstPushedRows
        guard try session.look().isLeading else { preconditionFailure("two engines of one database") }
    }

    /// True if no statement has written anything or been given an id.
    var isUntouched: Bool { sequence == 0 && generated == 0 }

    func execute(_ statement: String, _ arguments: ObjectValue, strict: Bool) throws -> StatementResult {
        let prepared = try PreparedStatement(statement)
        let options = ExecutionOptions(strictMode: strict)
        if let open { return try run(prepared, in: open, arguments, options) }
        if let change = prepared.indexChange(options.parameters) { return try carryOut(change) }
        if prepared.isReadOnly, !pending.isEmpty {
            let indexes = pending
            pending = []
            for index in indexes { try define(index) }
        }
        let (result, operation) = try withDraft { draft in
            (try run(prepared, in: draft, arguments, options), try draft.operation())
        }
        if let operation { try append(operation) }
        return result
    }

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        if let open { return try open.scan(collection, visit) }
        try ProjectionSnapshot.run(of: database, on: connection) { try $0.scan(collection, visit) }
    }

    /// The rows of a prepared statement, which reads.
    func rows(
        of prepared: PreparedStatement, _ arguments: ObjectValue, usesIndexes: Bool = true
    ) throws -> [Value] {
        var options = ExecutionOptions()
        options.usesIndexes = usesIndexes
        let key = prepared.soleDocument(arguments)
        return try ProjectionSnapshot.run(of: database, on: connection, fetching: key, fallsBack: false) {
            try prepared.rows(in: $0, arguments: arguments, options: options)
        }
    }

    /// The indexes as people see them.
    func indexRows() throws -> [String] {
        try ProjectionSnapshot.run(of: database, on: connection) { try $0.indexes().map { "\($0.row)" } }
    }

    /// See `IndexBuildTests`.
    func faults() throws -> [String] {
        try ProjectionSnapshot.run(of: database, on: connection) { try IndexBuildTests.faults(in: $0) }
    }

    func undoing<Result>(_ body: () throws -> Result) throws -> Result {
        try withDraft { draft in
            open = draft
            defer { open = nil }
            return try body()
        }
    }

    private func withDraft<Result>(_ body: (ProjectionDraft) throws -> Result) throws -> Result {
        try ProjectionSnapshot.run(of: database, on: connection, fallsBack: false) { snapshot in
            try body(snapshot.draft(as: ActorID(1), sequence: sequence.next, wallMilliseconds: 1_000))
        }
    }

    /// Begins an index at once if its number is even, else when documents are there.
    @discardableResult
    func carryOut(_ change: IndexChange) throws -> StatementResult {
        switch change {
        case .create(let index, _):
            if index.name.utf8.last.map({ $0.isMultiple(of: 2) }) ?? true {
                try define(index)
            } else {
                pending.append(index)
            }
        case .drop(let collection, let name, _):
            pending.removeAll { $0.name == name && $0.collection == collection }
            try write { draft in
                try draft.edit(DefinedIndexes.collection, DefinedIndexes.id(name, collection)) { $0.delete() }
            }
        }
        return StatementResult()
    }

    /// - Parameter isBuilt: false to leave it as a process that is killed leaves it.
    func define(_ index: IndexDescription, isBuilt: Bool = true) throws {
        try write(builds: isBuilt) { draft in
            try draft.edit(DefinedIndexes.collection, DefinedIndexes.id(index.name, index.collection)) {
                try $0.create(DefinedIndexes.fields(of: index))
            }
        }
    }

    private func write(builds: Bool = true, _ body: (ProjectionDraft) throws -> Void) throws {
        let operation = try withDraft { draft in
            try body(draft)
            return try draft.operation()
        }
        if let operation { try append(operation) }
        try buildIndexes(isStopped: !builds)
    }

    /// Does what the indexes need, as a worker and its builder do in turns.
    func buildIndexes(isStopped: Bool = false) throws {
        for work in try session.indexWork(isCurrentGood: true, isTaken: true) {
            if isStopped { continue }
            let outcome = builder.perform(work)
            if let failure = outcome.failure { throw ProjectionError(.storageFailed, failure) }
            try session.finish(outcome.built, in: work.generation)
        }
    }

    private func append(_ operation: CRDT.Operation) throws {
        sequence = sequence.next
        let entry = LogEntry.next(after: position, operation)
        position = try session.fold([entry]).position
    }

    private func run(
        _ statement: PreparedStatement, in draft: ProjectionDraft, _ arguments: ObjectValue,
        _ options: ExecutionOptions
    ) throws -> StatementResult {
        try statement.execute(in: Evicting(draft), arguments: arguments, options: options) {
            generated += 1
            return try DocumentID(.string("generated-\(generated)"))
        }
    }
}

/// A draft that deletes what a statement evicts: a projection does not evict, and what a statement answers is
/// the same.
private struct Evicting: DocumentWriter {
    private let draft: ProjectionDraft

    init(_ draft: ProjectionDraft) { self.draft = draft }

    var pushing: (any PushingSource)? { draft.pushing }
    var indexed: (any IndexedSource)? { draft.indexed }

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        try draft.scan(collection, visit)
    }

    func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
        throws
    {
        try draft.lookup(collection, id, visit)
    }

    func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool {
        try draft.exists(collection, id)
    }

    func edit(
        _ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void
    ) throws {
        try draft.edit(collection, id, body)
    }

    func expect(_ collection: CollectionName, _ ids: ArraySlice<DocumentID>) throws {
        try draft.expect(collection, ids)
    }

    func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws {
        for id in ids { try draft.edit(collection, id) { $0.delete() } }
    }
}

extension LogEntry {
    /// The entry that a log at a position gives an operation.
    static func next(after position: LogPosition, _ operation: CRDT.Operation) -> LogEntry {
        let bytes = operation.encoded()
        let digest = ChainHash.digest(
            actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
            contentHash: ChainHash.content(bytes))
        return LogEntry(
            offset: position.offset.next, hash: ChainHash.next(after: position.hash, digest: digest),
            record: OperationRecord(
                actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
                bytes: bytes))
    }
}
