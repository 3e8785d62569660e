import Attachments
import CRDT
import Exchange
import Identity
import Logging
import OperationLog
import Replica
import ServiceKit
import Synchronization

/// Maps each attachment of a database to the documents that refer to it, as of the head of the log.
///
/// It reads a materialization of the database: all documents once per process, then only changed ones. A
/// document refers to an attachment while the document is live and one of its ATTACHMENTs holds the id.
///
/// Invariants: for documents that `changes` does not name, `table` agrees with the replica. `table` is locked
/// while documents are read, on threads that may block; `changes` is locked briefly, and after `table`.
final class BlobReferences: Sendable {
    private struct Table {
        /// True once all documents were read.
        var isWhole = false
        var documents: [String: Set<DocumentKey>] = [:]
        var blobs: [DocumentKey: [String]] = [:]
        /// Files by the metadata of tokens, by document and attachment.
        var files: [DocumentKey: [String: FileDescription]] = [:]

        mutating func forget(_ key: DocumentKey) {
            files[key] = nil
            for blob in blobs.removeValue(forKey: key) ?? [] {
                documents[blob]?.remove(key)
                if documents[blob]?.isEmpty == true { documents[blob] = nil }
            }
        }

        mutating func add(_ key: DocumentKey, _ document: DocumentReader) throws {
            var found: [String] = []
            // An id of another form cannot be an attachment of this store.
            try document.root.forEachAttachment { token in
                guard let id = try? BlobID(token.id) else { return }
                found.append(id.text)
                let file = FileDescription(token)
                if !file.isEmpty { files[key, default: [:]][id.text] = file }
            }
            guard !found.isEmpty else { return }
            blobs[key] = found
            for blob in found { documents[blob, default: []].insert(key) }
        }
    }

    /// Documents that have changed since the table was updated.
    private final class Changes: Sendable {
        struct State {
            var keys: Set<DocumentKey> = []
            /// True if more documents changed than are remembered, so all must be read again.
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

        /// Puts back changes that could not be read.
        func restore(_ taken: State) {
            state.withLock { state in
                state.keys.formUnion(taken.keys)
                state.isOver = state.isOver || taken.isOver
            }
        }
    }

    private let share: Materializations.Share
    private var materializer: Materializer { share.materializer }
    private let changes: Changes
    private let table = Mutex(Table())

    private init(_ share: Materializations.Share, _ changes: Changes) {
        self.share = share
        self.changes = changes
    }

    /// Opens the materialization, or joins the services that have it open.
    static func open(
        _ database: DatabaseID, in materializations: Materializations
    ) async throws -> BlobReferences {
        let changes = Changes()
        let share = try await materializations.open(database, onFold: { changes.note($0) })
        return BlobReferences(share, changes)
    }

    /// True if the log was reset to an earlier state, so that this object must be closed and opened again.
    var hasLostHistory: Bool { get async { await materializer.hasLostHistory } }

    /// Returns the file as a document describes it that these rules allow and that refers to the attachment,
    /// as of the log's head now; nil if none does.
    func file(_ id: BlobID, by rules: CompiledRules) async throws -> FileDescription? {
        // A refusal must not rest on an old state.
        try await materializer.advance()
        return try await materializer.executor.run { [self] in
            try table.withLock { table in
                try update(&table)
                let allowed = (table.documents[id.text] ?? []).filter { rules.allows($0) }
                guard !allowed.isEmpty else { return nil }
                return allowed.compactMap { table.files[$0]?[id.text] }.min() ?? FileDescription()
            }
        }
    }

    /// Returns whether any document refers to the attachment, as of the log's head now.
    func isReferred(to id: BlobID) async throws -> Bool {
        try await materializer.advance()
        return try await materializer.executor.run { [self] in
            try table.withLock { table in
                try update(&table)
                return table.documents[id.text] != nil
            }
        }
    }

    /// Returns the ones that no live document mentions, as of the log's head now. Reads all documents, and
    /// keeps nothing of them.
    func unmentioned(_ prefixes: Set<UInt64>) async throws -> Set<UInt64> {
        try await materializer.advance()
        return try await materializer.executor.run { [self] in
            var left = prefixes
            try materializer.replica.read { transaction in
                for collection in try transaction.collectionNames() where !left.isEmpty {
                    try transaction.scan(collection) { record in
                        BlobMentions.forEach(in: record.document.bytes) { left.remove($0) }
                        return !left.isEmpty
                    }
                }
            }
            return left
        }
    }

    /// Rewrites the materialization without its free pages.
    func compact(through offset: Offset) async throws { try await materializer.compact(through: offset) }

    /// Gives the share of the materialization back.
    func close() async { await share.close() }

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
