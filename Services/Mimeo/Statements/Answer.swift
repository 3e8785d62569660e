import CRDT
import DQL
import DittoSwift

/// The result or error of a statement, local or remote: one JSON object, or a table for people.
enum Answer: Sendable {
    case result(Result)
    case failure(Problem)

    /// The result of a successful statement.
    struct Result: Sendable {
        var items: [Value]
        var mutatedDocumentIDs: [Value]
        var commitID: UInt64
        var warnings: [Value]
    }

    /// The error of a statement or command.
    struct Problem: Sendable, Equatable {
        var code: String
        var message: String
        var line: Int?
        var column: Int?
    }

    /// The object to print; its keys are always the same.
    var json: Value {
        switch self {
        case .result(let result):
            [
                "items": .array(result.items), "mutatedDocumentIDs": .array(result.mutatedDocumentIDs),
                "commitID": .int(Int64(clamping: result.commitID)), "warnings": .array(result.warnings),
            ]
        case .failure(let problem): ["error": problem.json]
        }
    }

    var isFailure: Bool { if case .failure = self { true } else { false } }

    init(_ outcome: StatementOutcome) {
        var warnings = outcome.warnings.map(\.json)
        if let number = outcome.rows.lazy.compactMap(\.unwritableNumber).first {
            let text = "a row has \(number), which JSON cannot hold: null stands in its place"
            warnings.append(["code": .string(MimeoNoteCode.valueChanged.rawValue), "message": .string(text)])
        }
        self = .result(
            Result(
                items: outcome.rows, mutatedDocumentIDs: outcome.mutatedDocumentIDs.map(\.value),
                commitID: outcome.commit, warnings: warnings))
    }

    init(_ failure: Failure) { self = .failure(Problem(failure)) }
}

extension Answer.Problem {
    init(_ failure: Failure) {
        self.init(
            code: failure.code, message: failure.message, line: failure.position?.line,
            column: failure.position?.column)
    }

    init(_ error: MimeoError) { self.init(code: error.code.rawValue, message: error.message) }

    /// `{"code", "message", "line"?, "column"?}`, with the place if it is known.
    var json: Value {
        var object: ObjectValue = ObjectValue([
            (key: "code", value: .string(code)), (key: "message", value: .string(message)),
        ])
        if let line { object["line"] = .int(Int64(line)) }
        if let column { object["column"] = .int(Int64(column)) }
        return .object(object)
    }

    /// The text for stderr.
    var text: String {
        let place = line.flatMap { line in column.map { " at \(line):\($0)" } } ?? ""
        return "\(code)\(place): \(message)"
    }
}

extension StatementWarning {
    var json: Value {
        Answer.Problem(code: code, message: message, line: position?.line, column: position?.column).json
    }
}
