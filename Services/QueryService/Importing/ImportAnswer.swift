import CRDT
import HTTPTypes
import Hummingbird
import Logging
import OperationLog
import ServiceKit

/// The answer of an import, success and failure alike: `{"transactionId", "lines", "documents", "error",
/// "warnings"}`. With an error it says what is stored nevertheless.
struct ImportAnswer: Sendable {
    /// The log's offset after the last group; 0 if none was stored.
    private var transactionID: Offset = 0
    /// The first lines of the body, all of which are stored, blank ones among them.
    var lines = 0
    /// The documents that were written: not those that ON ID CONFLICT left alone.
    private var documents = 0
    private var warnings: [AnswerWarning] = []

    /// Adds a group up to a line.
    mutating func add(_ answer: ExecuteAnswer, through line: Int) {
        transactionID = max(transactionID, answer.transactionID)
        lines = line
        documents += answer.mutatedDocumentIDs.count
        for warning in answer.warnings
        where warnings.count < Limits.importWarnings && !warnings.contains(warning) {
            warnings.append(warning)
        }
    }

    /// The answer to a body that is stored as a whole.
    var response: Response { .json(JSONText.bytes(value(ObjectValue()))) }

    /// The answer to a body that is not.
    func response(to error: any Error, _ logger: Logger) -> Response {
        let failed = error as? LineFailure
        var reason = failed?.error ?? error
        switch reason {
        case let malformed as RequestObject.Malformed:
            reason = QueryError(.malformedRequest, malformed.message)
        // The client has left.
        case is CancellationError: reason = QueryError(.cancelled)
        default: break
        }
        let (body, status, headers) = ExecuteAnswer.envelope(of: reason, logger)
        var object = body["error"]?.objectValue ?? ObjectValue()
        var stored = self
        if let failed {
            object["inputLine"] = .int(Int64(failed.line))
            // Blank lines before it are no group's.
            stored.lines = failed.line - 1
        }
        return .json(JSONText.bytes(stored.value(object)), status: status, headers: headers)
    }

    private func value(_ error: ObjectValue) -> Value {
        [
            "transactionId": .offset(transactionID), "lines": .int(Int64(lines)),
            "documents": .int(Int64(documents)), "error": .object(error),
            "warnings": .array(warnings.map(\.value)),
        ]
    }
}
