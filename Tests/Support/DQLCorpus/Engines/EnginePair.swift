import CRDT
import DQL

/// Two engines that have to give the same result for every statement: rows in their order, mutated ids,
/// warnings, errors. Both scan in the order in which documents arrived.
public final class EnginePair: StatementEngine {
    private let judge: any StatementEngine
    private let other: any StatementEngine

    /// A pair of engines; neither may have documents.
    public init(_ judge: any StatementEngine, _ other: any StatementEngine) {
        self.judge = judge
        self.other = other
    }

    /// The judge's result, after the other engine gave the same.
    public func execute(_ statement: String, _ arguments: ObjectValue, strict: Bool) throws -> StatementResult
    {
        let wanted = Result { try judge.execute(statement, arguments, strict: strict) }
        let given = Result { try other.execute(statement, arguments, strict: strict) }
        let (one, two) = (Self.words(wanted), Self.words(given))
        guard one == two else {
            throw Trial.Violation(message: "the engines disagree: \(one), the other one: \(two)")
        }
        return try wanted.get()
    }

    /// The judge's documents.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        try judge.scan(collection, visit)
    }

    /// Undoes the writes on both.
    public func undoing<Result>(_ body: () throws -> Result) throws -> Result {
        try judge.undoing { try other.undoing(body) }
    }

    private static func words(_ outcome: Result<StatementResult, any Error>) -> String {
        switch outcome {
        case .failure(let error): "\(error)"
        case .success(let result):
            """
            rows \(Trial.text(result.rows)), ids \(Trial.text(result.mutatedDocumentIDs.map(\.value))), \
            warnings \(result.warnings)
            """
        }
    }
}
