import CRDT
import DQL

/// The naive store: real documents in memory, every read over their encoded bytes. The judge of the corpus.
final class MemoryStore: DocumentWriter {
    private var collections: [String: [DocumentID: Document]] = [:]
    private var time: Timestamp = 1
    private var generated = 0

    func scan(_ collection: String, _ visit: (DocumentRecord) throws -> Bool) throws {
        for (id, document) in (collections[collection] ?? [:]).sorted(by: { $0.key < $1.key }) {
            var goesOn = true
            try read(id, document) { goesOn = try visit($0) }
            if !goesOn { return }
        }
    }

    func lookup(_ collection: String, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void) throws {
        guard let document = collections[collection]?[id] else { return }
        try read(id, document, visit)
    }

    private func read(_ id: DocumentID, _ document: Document, _ visit: (DocumentRecord) throws -> Void) throws
    {
        try document.encoded().withUnsafeBytes { bytes in
            let reader = try DocumentReader(bytes)
            if reader.isLive { try visit(DocumentRecord(id: id, document: reader)) }
        }
    }

    func exists(_ collection: String, _ id: DocumentID) throws -> Bool {
        collections[collection]?[id]?.isLive ?? false
    }

    func edit(_ collection: String, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void) throws {
        time += 1
        var editor = DocumentEditor(
            document: collections[collection]?[id] ?? Document(), stamp: Stamp(time: time, actor: ActorID(1)))
        try body(&editor)
        collections[collection, default: [:]][id] = editor.document
    }

    func evict(_ collection: String, _ ids: [DocumentID]) throws {
        for id in ids { collections[collection]?[id] = nil }
    }

    /// Executes a statement; a failing one leaves no trace.
    func execute(
        _ statement: String, _ arguments: ObjectValue = ObjectValue(), strict: Bool = false
    ) throws -> StatementResult {
        let before = collections
        do {
            return try StatementCompiler.compile(statement).execute(
                in: self, arguments: arguments, options: ExecutionOptions(strictMode: strict)
            ) {
                generated += 1
                return try DocumentID(.string("generated-\(generated)"))
            }
        } catch {
            collections = before
            throw error
        }
    }

    func rows(_ statement: String, _ arguments: ObjectValue = ObjectValue()) throws -> [Value] {
        try execute(statement, arguments).rows
    }
}

extension ObjectValue: ExpressibleByDictionaryLiteral {
    /// From pairs; a later duplicate wins.
    public init(dictionaryLiteral elements: (String, Value)...) {
        self.init(elements.map { (key: $0.0, value: $0.1) })
    }
}

/// The error a statement gives when it is executed on an empty store; nil when it gives none.
func failure(of statement: String, _ arguments: ObjectValue = ObjectValue()) -> DQLError? {
    do {
        _ = try MemoryStore().execute(statement, arguments)
        return nil
    } catch {
        return error as? DQLError
    }
}
