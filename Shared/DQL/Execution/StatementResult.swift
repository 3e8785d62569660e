import CRDT

/// The result of executing a statement.
public struct StatementResult: Sendable {
    /// The rows of a SELECT or of RETURNING: objects, or bare values with RAW.
    public var rows: [Value]
    /// The documents a statement wrote, each once, in the order they were written.
    public var mutatedDocumentIDs: [DocumentID]
    /// Parts of the statement that are probably not meant; never change the result.
    public var warnings: [DQLWarning]

    /// A result.
    public init(rows: [Value] = [], mutatedDocumentIDs: [DocumentID] = [], warnings: [DQLWarning] = []) {
        self.rows = rows
        self.mutatedDocumentIDs = mutatedDocumentIDs
        self.warnings = warnings
    }
}
