import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Logging
import ServiceKit

/// The answer of `store/execute`, success and failure alike:
/// `{"transactionId", "queryType", "items", "mutatedDocumentIds", "error", "warnings",
/// "totalWarningsCount"}`.
struct ExecuteAnswer: Sendable {
    /// The log's offset after the statement.
    var transactionID: Offset
    let queryType: StatementKind
    var items: [Value] = []
    var mutatedDocumentIDs: [Value] = []
    var warnings: [String] = []
    /// True if the statement ran before, under the same `Idempotency-Key`.
    var isRepeated = false

    /// The field of an answer that was given before; none for others.
    var repetition: HTTPFields {
        guard isRepeated, let name = HTTPField.Name(IdempotencyKey.repeatedField) else { return [:] }
        return [name: "true"]
    }

    var response: Response {
        Self.envelope(
            status: .ok, headers: repetition, transactionID: transactionID, queryType: queryType.rawValue,
            items: items,
            mutatedDocumentIDs: mutatedDocumentIDs, error: ObjectValue(), warnings: warnings)
    }

    /// The envelope of an error, with its status.
    @Sendable static func failure(_ error: any Error, _ logger: Logger) -> Response {
        var object = ObjectValue()
        let status: HTTPResponse.Status
        var headers: HTTPFields = [:]
        // A document that cannot be read is not the client's fault.
        if let error = error as? DQLError, error.code != .unreadableDocument {
            status = .badRequest
            object["code"] = .string(error.code.rawValue)
            object["description"] = .string(error.message)
            if let line = error.line { object["line"] = .int(Int64(line)) }
            if let column = error.column { object["column"] = .int(Int64(column)) }
            if let suggestion = error.suggestion { object["suggestion"] = .string(suggestion) }
        } else {
            let reportable = ErrorAnswer.reportable(QueryError.translated(error))
            status = reportable.httpStatus
            headers = reportable.httpHeaders
            object["code"] = .string(reportable.publicCode)
            object["description"] = .string(reportable.publicMessage)
            for member in reportable.publicMembers.entries { object[member.key] = member.value }
            if status.code >= 500 { logger.error("a statement failed", metadata: ["error": "\(error)"]) }
        }
        // All other error answers have `message`, so this envelope has it too.
        object["message"] = object["description"]
        return envelope(
            status: status, headers: headers, transactionID: 0, queryType: "unknown", items: [],
            mutatedDocumentIDs: [],
            error: object, warnings: [])
    }

    private static func envelope(
        status: HTTPResponse.Status, headers: HTTPFields = [:], transactionID: Offset, queryType: String,
        items: [Value],
        mutatedDocumentIDs: [Value], error: ObjectValue, warnings: [String]
    ) -> Response {
        let body: Value = [
            "transactionId": .int(Int64(clamping: transactionID.rawValue)), "queryType": .string(queryType),
            "items": .array(items), "mutatedDocumentIds": .array(mutatedDocumentIDs), "error": .object(error),
            "warnings": .array(warnings.map { ["description": .string($0)] }),
            "totalWarningsCount": .int(Int64(warnings.count)),
        ]
        return .json(JSONText.print(body).utf8, status: status, headers: headers)
    }
}
