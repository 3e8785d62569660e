import Attachments
import CRDT
import Identity
import Logging
import OperationLog
import Replica
import ServiceKit
import Synchronization

/// Which documents of a database refer to which attachment, as of the head of its log.
///
/// Kept beside a materialization of the database: all documents are looked through once per process, and
/// after that those that change. A document counts while it is live and an ATTACHMENT of it holds the id.
///
/// Invariants: what `changed` does not name is in `table` as it is in the replica. `table` is held while
/// documents are read, on threads that may block; `changed` is taken for moments only, and after `table`.
final class BlobReferences: Sendable {
    private struct Table {
        /// Whether all documents were looked through.
        var isWhole = false
        var documents: [String: Set<DocumentKey>] = [:]
        var blobs: [DocumentKey: [String]] = [:]

        mutating func forget(_ key: DocumentKey) {
            for blob in blobs.removeValue(forKey: key) ?? [] {
                documents[blob]?.remove(key)
                if documents[blob]?.isEmpty == true { documents[blob] = nil }
            }
        }

        mutating func add(_ key: DocumentKey, _ document: DocumentReader) throws {
            var found: [String] = []
            // A name of other form is nobody's here.
            try document.root.forEachAttachment { if let id = try? BlobID($0.id) { found.append(id.text) } }
            guard !found.isEmpty else { return }
            blobs[key] = found
            for blob in found { documents[blob, default: []].insert(key) }
        }
    }

    /// Documents that have changed since the table was made.
    private final class Changes: Sendable {
        struct State {
            var keys: Set<DocumentKey> = []
            /// More than is remembered: look through all of them.
            var isOver = false
        }
        private let state = Mutex(State())

        func note(_ operations: [FoldedOperation]) {
            state.withLock { state in
                guard !state.isOver else { return }
                for operation in operations {
                    for change in operation.changes { state.keys.insert(change.key) }
                }
                if state.keys.count > Limits.rememberedChanges { state = State(isOver: true) }
            }
        }

        func take() -> State {
            state.withLock { state in
                defer { state = State() }
                return state
            }
        }

        /// Puts back what could not be looked at.
        func restore(_ taken: State) {
            state.withLock { state in
                state.keys.formUnion(taken.keys)
                state.isOver = state.isOver || taken.isOver
            }
        }
    }

    private let materializer: Materializer
    private let changes: Changes
    private let following: Task<Void, Never>
    private let table = Mutex(Table())

    private init(_ materializer: Materializer, _ changes: Changes) {
        self.materializer = materializer
        self.changes = changes
        following = Task { await materializer.run() }
    }

    /// Opens the materialization, or makes it.
    static func open(
        _ database: DatabaseID, log: any OperationLog, folder: String, logger: Logger
    ) async throws -> BlobReferences {
        let changes = Changes()
        let materializer = try await Materializer.open(
            database, log: log, folder: "\(folder)/\(database)", logger: logger
        ) { changes.note($0) }
        return BlobReferences(materializer, changes)
    }

    /// Whether the log went back, so that another one is to be opened.
    var hasLostHistory: Bool { get async { await materializer.hasLostHistory } }

    /// Whether a document refers to the attachment that these rules allow, as of the log's head of now.
    func allows(_ id: BlobID, by rules: CompiledRules) async throws -> Bool {
        // An answer of no must not rest on what was written long ago.
        try await materializer.advance()
        return try await materializer.executor.run { [self] in
            try table.withLock { table in
                try update(&table)
                return table.documents[id.text]?.contains { rules.allows($0) } ?? false
            }
        }
    }

    /// Frees everything.
    func close() async {
        following.cancel()
        await materializer.close()
    }

    private func update(_ table: inout Table) throws {
        let taken = changes.take()
        guard !table.isWhole || taken.isOver || !taken.keys.isEmpty else { return }
        do {
            try materializer.replica.read { transaction in
                guard table.isWhole, !taken.isOver else { return try Self.readAll(transaction, &table) }
                for key in taken.keys {
                    table.forget(key)
                    try transaction.lookup(key.collection, key.id) { record in
                        try table.add(key, record.document)
                    }
                }
            }
        } catch {
            changes.restore(taken)
            throw error
        }
    }

    private static func readAll(_ transaction: ReadTransaction, _ table: inout Table) throws {
        table = Table()
        for collection in try transaction.collectionNames() {
            try transaction.scan(collection) { record in
                try table.add(DocumentKey(collection: collection, id: record.id), record.document)
                return true
            }
        }
        table.isWhole = true
    }
}
