import CRDT
import DQL

/// Parse, print, parse again; analyze; make a subscription of it.
@Sendable func fuzzStatementText(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let statement = try? StatementCompiler.parse(text) {
        let printed = StatementPrinter.print(statement)
        require(
            (try? StatementCompiler.parse(printed)) == statement, "a statement changes in print: \(printed)")
    }
    _ = try? StatementCompiler.compile(text)
    _ = try? SubscriptionQuery(statement: text, arguments: Samples.arguments)
}

/// A query of the older language is the statement that it says it is.
@Sendable func fuzzLegacyQuery(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    guard let select = try? LegacyQuery.select(text, from: "c") else { return }
    guard let printed = try? LegacyQuery.statement(text, from: "c"),
        let statement = try? StatementCompiler.parse(printed)
    else { fatalError("FUZZ: a legacy query does not print as a statement") }
    require(statement == .select(select), "a legacy query prints as another statement: \(printed)")
    _ = try? StatementCompiler.compile(printed)
}

/// Parse, plan and evaluate over a few documents; whatever it wrote is well-formed.
@Sendable func fuzzExecution(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    guard let statement = try? StatementCompiler.compile(text) else { return }
    for isStrict in [false, true] {
        let store = SampleStore()
        var generated: Int64 = 0
        let result = try? statement.execute(
            in: store, arguments: Samples.arguments, options: ExecutionOptions(strictMode: isStrict)
        ) {
            generated += 1
            return try DocumentID(.int(generated + 1_000))
        }
        for row in result?.rows ?? [] { _ = JSONText.print(row) }
        for document in store.written {
            guard let decoded = try? Document(decoding: document.encoded()) else {
                fatalError("FUZZ: a statement wrote what cannot be read")
            }
            require(decoded == document, "a statement's document decodes to another one")
        }
    }
}

/// A store of a few documents that forgets what is written to it: the next input starts anew.
private final class SampleStore: DocumentWriter {
    private var documents = Samples.stored
    private(set) var written: [Document] = []

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        for (id, bytes) in documents.sorted(by: { $0.key < $1.key }) {
            var goesOn = true
            try read(id, bytes) { goesOn = try visit($0) }
            if !goesOn { return }
        }
    }

    func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
        throws
    {
        if let bytes = documents[id] { try read(id, bytes, visit) }
    }

    private func read(_ id: DocumentID, _ bytes: [UInt8], _ visit: (DocumentRecord) throws -> Void) throws {
        try bytes.withUnsafeBytes { raw in
            let reader = try DocumentReader(raw)
            if reader.isLive { try visit(DocumentRecord(id: id, document: reader)) }
        }
    }

    func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool {
        try documents[id].map { try Document(decoding: EncodedState($0)).isLive } ?? false
    }

    func edit(_ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void)
        throws
    {
        let document = try documents[id].map { try Document(decoding: EncodedState($0)) } ?? Document()
        let stamp = Stamp(time: (document.vector.greatestTime ?? 0) + 1, actor: ActorID(77))
        var editor = DocumentEditor(document: document, stamp: stamp)
        try body(&editor)
        documents[id] = editor.document.encoded().bytes
        written.append(editor.document)
    }

    func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws {
        for id in ids { documents[id] = nil }
    }
}
