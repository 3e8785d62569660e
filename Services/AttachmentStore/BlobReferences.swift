import Attachments
import CRDT
import Exchange
import Identity
import Logging
import Machine
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
    /// An attachment as a document's token tells of it.
    struct Mention: Sendable {
        let id: String
        /// Bytes, as the token says.
        let length: Int64
        var file: FileDescription
    }

    /// The number and bytes of mentions.
    struct Sum: Sendable {
        var count = 0
        var bytes: Int64 = 0

        mutating func add(_ mention: Mention) {
            count += 1
            // The length is what a document says, and may be any.
            let (sum, isTooLarge) = bytes.addingReportingOverflow(mention.length)
            bytes = isTooLarge ? .max : sum
        }
    }

    private struct Table {
        /// True once all documents were read.
        var isWhole = false
        var documents: [String: Set<DocumentKey>] = [:]
        /// Each attachment of a document once.
        var mentions: [DocumentKey: [Mention]] = [:]
        /// Nil until somebody asks for a list.
        private var order: MentionOrder?
        /// The sums of the lists that were asked for since the last change.
        private var sums: [Asked: Sum] = [:]

        mutating func page(
            by rules: CompiledRules, for asked: Asked, after cursor: String, limit: Int
        ) -> Page {
            let order = order ?? MentionOrder(mentions)
            self.order = order
            var page = Page(sum: sum(by: rules, for: asked))
            let beginning = asked.collection.map { MentionOrder.beginning(of: $0) } ?? ""
            var place = max(order.first(after: cursor), order.first(from: beginning))
            var last: String?
            while place < order.entries.count {
                let entry = order.entries[place]
                guard entry.begins(with: beginning) else { break }
                place += 1
                guard (asked.collection ?? entry.key.collection) == entry.key.collection,
                    rules.allows(entry.key), let mention = mentions[entry.key]?[entry.index]
                else { continue }
                guard page.rows.count < limit else {
                    page.next = last
                    break
                }
                page.rows.append((entry.key, mention))
                last = entry.place
            }
            return page
        }

        private mutating func sum(by rules: CompiledRules, for asked: Asked) -> Sum {
            if let known = sums[asked] { return known }
            var sum = Sum()
            for (key, all) in mentions
            where (asked.collection ?? key.collection) == key.collection && rules.allows(key) {
                for mention in all { sum.add(mention) }
            }
            if sums.count >= Limits.rememberedSums { sums = [:] }
            sums[asked] = sum
            return sum
        }

        mutating func forget(_ key: DocumentKey) {
            sums = [:]
            order?.remove(key)
            for mention in mentions.removeValue(forKey: key) ?? [] {
                documents[mention.id]?.remove(key)
                if documents[mention.id]?.isEmpty == true { documents[mention.id] = nil }
            }
        }

        mutating func add(_ key: DocumentKey, _ document: DocumentReader) throws {
            var found: [Mention] = []
            // A large document may hold very many.
            var places: [String: Int] = [:]
            // An id of another form cannot be an attachment of this store.
            try document.root.forEachAttachment { token in
                guard let id = try? BlobID(token.id) else { return }
                let file = FileDescription(token)
                guard let place = places[id.text] else {
                    places[id.text] = found.count
                    return found.append(Mention(id: id.text, length: token.length, file: file))
                }
                if !file.isEmpty { found[place].file = file }
            }
            guard !found.isEmpty else { return }
            mentions[key] = found
            order?.add(key, found)
            sums = [:]
            for mention in found { documents[mention.id, default: []].insert(key) }
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
    private let catchUps = Monitor(CatchUps())

    /// Reads of the log, one at a time, that nobody has to wait for. A run that began after a request began
    /// has all that the log had then.
    private struct CatchUps: Sendable {
        var begun: UInt64 = 0
        var ended: UInt64 = 0
    }

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
        return try await known(id, by: rules)
    }

    /// The same for a client that may read everything, so that nothing is refused for it: waits for the log a
    /// moment at most, and tells what is known then.
    func fileKnownSoon(_ id: BlobID, by rules: CompiledRules) async throws -> FileDescription? {
        await catchUp(within: Limits.namePatience)
        return try await known(id, by: rules)
    }

    private func catchUp(within patience: Duration) async {
        let wanted = catchUps.read { $0.begun + 1 }
        let end = ContinuousClock.now + patience
        let begins = await catchUps.take(within: patience) { state -> Bool? in
            if state.ended >= wanted { return false }
            guard state.begun == state.ended else { return nil }
            state.begun += 1
            return true
        }
        guard begins == true else { return }
        Task {
            try? await materializer.advance()
            catchUps.change { $0.ended = $0.begun }
        }
        await catchUps.wait(within: end - .now) { $0.ended >= wanted }
    }

    private func known(_ id: BlobID, by rules: CompiledRules) async throws -> FileDescription? {
        try await materializer.executor.run { [self] in
            try table.withLock { table in
                try update(&table)
                let allowed = (table.documents[id.text] ?? []).filter { rules.allows($0) }
                guard !allowed.isEmpty else { return nil }
                return allowed.compactMap { key in
                    table.mentions[key]?.first { $0.id == id.text }?.file
                }.filter { !$0.isEmpty }.min() ?? FileDescription()
            }
        }
    }

    /// Mentions in documents that a client may read.
    struct Page: Sendable {
        var rows: [(key: DocumentKey, mention: Mention)] = []
        /// The cursor after the last row; nil if it is the last one.
        var next: String?
        /// All mentions, of which the rows are a part.
        var sum = Sum()
    }

    /// A list as a client asks for it: what the client may read, of one collection or of all.
    struct Asked: Hashable, Sendable {
        let grant: AccessRules
        let collection: CollectionName?
    }

    /// The mentions in documents that the rules allow, as of the log's head now: so many after a cursor, in
    /// the order of collections, ids and attachments.
    /// - Parameters:
    ///   - rules: those of the grant that asks.
    ///   - cursor: `next` of an earlier page; empty for the beginning.
    func page(
        by rules: CompiledRules, for asked: Asked, after cursor: String, limit: Int
    ) async throws -> Page {
        try await materializer.advance()
        return try await materializer.executor.run { [self] in
            try table.withLock { table in
                try update(&table)
                return table.page(by: rules, for: asked, after: cursor, limit: limit)
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
