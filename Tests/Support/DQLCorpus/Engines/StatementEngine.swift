import CRDT
import DQL

/// An engine that executes statements on documents: the corpus and the relations run on it.
public protocol StatementEngine: AnyObject {
    /// Executes a statement; one that writes runs in its own transaction, and if it fails it leaves no
    /// trace. Ids of documents without one are `generated-1`, `generated-2` and so on.
    func execute(_ statement: String, _ arguments: ObjectValue, strict: Bool) throws -> StatementResult

    /// Visits the live documents of a collection, in the transaction that is to be undone if there is one.
    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws

    /// Runs `body` and then undoes the writes of its statements.
    func undoing<Result>(_ body: () throws -> Result) throws -> Result
}

extension StatementEngine {
    /// The rows of a statement.
    public func rows(
        _ statement: String, _ arguments: ObjectValue = ObjectValue(), strict: Bool = false
    ) throws -> [Value] {
        try execute(statement, arguments, strict: strict).rows
    }
}
