import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Logging
import ServiceKit

/// The answer of `store/execute`, success and failure alike:
/// `{"transactionId", "queryType", "items", "mutatedDocumentIds", "error", "warnings",
/// "totalWarningsCount"}`; of a transaction that succeeds `{"transactionId", "results": [such ones]}`.
struct ExecuteAnswer: Sendable {
    /// The log's offset after the statement.
    var transactionID: Offset
    let queryType: StatementKind
    var items: [Value] = []
    var mutatedDocumentIDs: [Value] = []
    var warnings: [AnswerWarning] = []
    /// The answers of a transaction's statements, of which `items` and `mutatedDocumentIDs` have everything;
    /// nil for a single statement.
    var results: [ExecuteAnswer]?
    /// True if the statement ran before, under the same `Idempotency-Key`.
    var isRepeated = false

    /// The field of an answer that was given before; none for others.
    var repetition: HTTPFields {
        guard isRepeated, let name = HTTPField.Name(IdempotencyKey.repeatedField) else { return [:] }
        return [name: "true"]
    }

    var response: Response {
        .json(JSONText.bytes(envelope), headers: repetition)
    }

    /// Adds the rows to lines, or of a transaction the envelopes of its statements.
    func add(to spool: RowSpool) throws(QueryError) {
        if isRepeated { spool.noteRepeated() }
        var lines = RowLines(spool)
        for row in results?.map({ $0.envelope(transactionID) }) ?? items { try lines.add(row) }
        try lines.flush()
    }

    /// The last line: the envelope without rows.
    var lastLine: Value {
        var rest = self
        rest.warnings += Self.changes(in: items)
        rest.items = []
        if results != nil { rest.results = [] }
        return rest.envelope
    }

    private var envelope: Value {
        guard let results else { return envelope(transactionID) }
        return [
            "transactionId": .offset(transactionID),
            "results": .array(results.map { $0.envelope(transactionID) }),
        ]
    }

    private func envelope(_ offset: Offset) -> Value {
        Self.envelope(
            transactionID: offset, queryType: queryType.rawValue, items: items,
            mutatedDocumentIDs: mutatedDocumentIDs, error: ObjectValue(),
            warnings: warnings + Self.changes(in: items))
    }

    /// The warning of rows with a number that JSON cannot hold; none for others.
    static func changes(in rows: [Value]) -> [AnswerWarning] {
        rows.lazy.compactMap(\.unwritableNumber).first.map { [changed($0)] } ?? []
    }

    /// The warning of a number that JSON cannot hold.
    static func changed(_ number: Double) -> AnswerWarning {
        AnswerWarning("a row has \(number), which JSON cannot hold: null stands in its place")
    }

    /// The envelope of an error, with its status.
    @Sendable static func failure(_ error: any Error, _ logger: Logger) -> Response {
        let (body, status, headers) = envelope(of: error, logger)
        return .json(JSONText.bytes(body), status: status, headers: headers)
    }

    /// The envelope of an error, its status and header fields.
    static func envelope(
        of error: any Error, _ logger: Logger
    ) -> (body: Value, status: HTTPResponse.Status, headers: HTTPFields) {
        let failed = error as? TransactionFailure
        let error = failed?.error ?? error
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
        // All other error answers have `message`, so this envelope has it too, as a person reads it.
        let suggestion = object["suggestion"]?.stringValue
        object["message"] = object["description"]?.stringValue.map {
            .string(DQLError.text($0, suggestion: suggestion))
        }
        if let failed { object["index"] = .int(Int64(failed.index)) }
        let body = envelope(
            transactionID: 0, queryType: "unknown", items: [], mutatedDocumentIDs: [], error: object,
            warnings: [])
        return (body, status, headers)
    }

    private static func envelope(
        transactionID: Offset, queryType: String, items: [Value], mutatedDocumentIDs: [Value],
        error: ObjectValue, warnings: [AnswerWarning]
    ) -> Value {
        [
            "transactionId": .offset(transactionID), "queryType": .string(queryType),
            "items": .array(items), "mutatedDocumentIds": .array(mutatedDocumentIDs), "error": .object(error),
            "warnings": .array(warnings.map(\.value)),
            "totalWarningsCount": .int(Int64(warnings.count)),
        ]
    }
}
