import CRDT

/// A condition of DQL over one document of any collection, written alone: the filter of a feed of changes.
public struct DocumentCondition: Sendable {
    private let query: SubscriptionQuery

    /// - Throws: the parser's errors, `missingArgument` for a parameter, and `unsupportedSubscription` for a
    ///   subquery.
    public init(_ text: String) throws(DQLError) {
        var parser = try Parser(text)
        let syntax = try parser.expression()
        guard parser.current.kind == .end else { throw parser.unexpected("the end of the condition") }
        let nowhere = SourceSpan(start: 0, end: 0)
        let name = NameSyntax(text: "c", span: nowhere)
        query = try SubscriptionQuery(
            condition: SelectStatement(
                projection: .all(nowhere),
                source: SourceSyntax(
                    collection: CollectionSyntax(name: name, isSystem: false, fields: [])),
                selection: SelectionSyntax(condition: syntax)))
    }

    /// Returns whether a state of a document fulfils the condition.
    /// - Parameter interruption: see `SubscriptionQuery.matches`.
    /// - Throws: `unreadableDocument`; `cancelled` or `timeout` as `interruption` says.
    public func holds(
        for id: DocumentID, _ state: EncodedState, interruption: (@Sendable () -> Interruption?)? = nil
    ) throws -> Bool {
        try state.withUnsafeBytes { bytes in
            let reader: DocumentReader
            do {
                reader = try DocumentReader(bytes)
            } catch {
                throw DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
            }
            return try query.matches(
                DocumentRecord(id: id, document: reader), interruption: interruption)
        }
    }
}

extension EncodedState {
    /// The document as a reader without declared types sees it, `_id` first; nil if it is deleted.
    /// - Throws: `unreadableDocument`.
    public func visibleDocument(_ id: DocumentID) throws -> Value? {
        try withUnsafeBytes { bytes in
            let reader: DocumentReader
            do {
                reader = try DocumentReader(bytes)
            } catch {
                throw DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
            }
            return reader.isLive ? try ResultRow.value(of: reader, id) : nil
        }
    }
}
