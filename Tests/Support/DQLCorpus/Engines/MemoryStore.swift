import CRDT
import DQL

/// The naive store: real documents in memory, every read over their encoded bytes. The judge of the corpus.
///
/// It scans in the order of the ids by default, unlike a store on disk. So a test that relies on an
/// unpromised order fails on one of the two.
public final class MemoryStore: DocumentWriter, StatementEngine {
    /// The documents of one collection.
    private struct Shelf {
        var documents: [DocumentID: (document: Document, bytes: EncodedState)] = [:]
        /// The ids of all documents, in the order of scans.
        var ids: [DocumentID] = []

        mutating func put(_ id: DocumentID, _ document: Document, sorted: Bool) {
            if documents.updateValue((document, document.encoded()), forKey: id) == nil {
                ids.insert(id, at: sorted ? ids.firstIndex { id < $0 } ?? ids.count : ids.count)
            }
        }

        mutating func remove(_ id: DocumentID) {
            documents[id] = nil
            ids.removeAll { $0 == id }
        }
    }

    private var collections: [CollectionName: Shelf] = [:]
    private var time: Timestamp = 1
    private var generated = 0
    private let isSorted: Bool
    private let usesIndexes: Bool
    /// The indexes that CREATE INDEX made, by name.
    var indexes: [IndexDescription] = []
    var indexVersion = 0

    /// A store without documents, scanned in the order of the ids, or in the order of their arrival, as a
    /// store on disk is. As a judge it has indexes and does not use them.
    public init(isSorted: Bool = true, usesIndexes: Bool = false) {
        self.isSorted = isSorted
        self.usesIndexes = usesIndexes
    }

    /// See `DocumentSource`.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let shelf = collections[collection] else { return }
        for id in shelf.ids {
            var goesOn = true
            try read(id, in: shelf) { goesOn = try visit($0) }
            if !goesOn { return }
        }
    }

    /// See `DocumentSource`.
    public func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        guard let shelf = collections[collection] else { return }
        try read(id, in: shelf, visit)
    }

    private func read(_ id: DocumentID, in shelf: Shelf, _ visit: (DocumentRecord) throws -> Void) throws {
        try shelf.documents[id]?.bytes.withUnsafeBytes { bytes in
            let reader = try DocumentReader(bytes)
            if reader.isLive { try visit(DocumentRecord(id: id, document: reader)) }
        }
    }

    /// See `DocumentWriter`.
    public func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool {
        collections[collection]?.documents[id]?.document.isLive ?? false
    }

    /// See `DocumentWriter`; each edit has a stamp of its own.
    public func edit(
        _ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void
    ) throws {
        time += 1
        var editor = DocumentEditor(
            document: collections[collection]?.documents[id]?.document ?? Document(),
            stamp: Stamp(time: time, actor: ActorID(1)))
        try body(&editor)
        collections[collection, default: Shelf()].put(id, editor.document, sorted: isSorted)
    }

    /// See `DocumentWriter`.
    public func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws {
        for id in ids { collections[collection]?.remove(id) }
    }

    /// See `StatementEngine`; by default without arguments and outside strict mode.
    public func execute(
        _ statement: String, _ arguments: ObjectValue = ObjectValue(), strict: Bool = false
    ) throws -> StatementResult {
        let before = collections
        do {
            let prepared = try StatementCompiler.compile(statement)
            var options = ExecutionOptions(strictMode: strict)
            options.usesIndexes = usesIndexes
            if let change = prepared.indexChange(options.parameters) {
                try self.change(change)
                return StatementResult()
            }
            return try prepared.execute(in: self, arguments: arguments, options: options) {
                generated += 1
                return try DocumentID(.string("generated-\(generated)"))
            }
        } catch {
            collections = before
            throw error
        }
    }

    /// See `StatementEngine`.
    public func undoing<Result>(_ body: () throws -> Result) throws -> Result {
        let before = collections
        defer { collections = before }
        return try body()
    }
}

extension ObjectValue: ExpressibleByDictionaryLiteral {
    /// An object from pairs; a later duplicate wins.
    public init(dictionaryLiteral elements: (String, Value)...) {
        self.init(elements.map { (key: $0.0, value: $0.1) })
    }
}

/// The error of a statement when it is executed on an empty store; nil if it succeeds.
public func failure(of statement: String, _ arguments: ObjectValue = ObjectValue()) -> DQLError? {
    do {
        _ = try MemoryStore().execute(statement, arguments)
        return nil
    } catch {
        return error as? DQLError
    }
}
