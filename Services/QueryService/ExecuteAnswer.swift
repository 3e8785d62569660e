import CRDT
import DQL
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ServiceKit

/// The form of an answer, as `Accept` asks for it.
enum AnswerForm: String, Sendable, CaseIterable {
    case json = "application/json"
    case cbor = "application/cbor"
    /// Rows one a line, and last the envelope without them.
    case lines = "application/x-ndjson"

    init(_ request: Request) {
        let types = Self.allCases.map(\.rawValue)
        let best = request.headers[.accept].flatMap { MediaTypes($0).best(of: types) }
        self = best.flatMap { Self(rawValue: $0) } ?? .json
    }

    var type: String { rawValue }

    /// A value in this form. As CBOR it says what it says as JSON.
    func bytes(_ value: Value) -> [UInt8] {
        let json = JSONText.bytes(value)
        guard self == .cbor, let told = try? JSONText.parse(json) else { return json }
        return CBOR.encode(told)
    }
}

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
    /// Has the rows, which are not in `items` then.
    var spool: RowSpool?
    /// How many rows it has.
    var spooledCount = 0
    /// The memory of `items`, approximately.
    var heldBytes = 0
    /// True if the statement ran before, under the same `Idempotency-Key`.
    var isRepeated = false

    /// The field of an answer that was given before; none for others.
    var repetition: HTTPFields {
        guard isRepeated, let name = HTTPField.Name(IdempotencyKey.repeatedField) else { return [:] }
        return [name: "true"]
    }

    /// The JSON text.
    var bytes: [UInt8] { JSONText.bytes(envelope) }

    var response: Response { .json(bytes, headers: repetition) }

    /// True if it is so small that it is printed where it is sent.
    var isPlain: Bool {
        items.count + mutatedDocumentIDs.count <= Limits.plainAnswerRows
            && heldBytes <= Limits.plainAnswerBytes
    }

    /// The whole answer in a form.
    func encoded(_ form: AnswerForm) -> [UInt8] { form.bytes(envelope) }

    /// The answer with rows that wait in a spool: a slow client holds a piece of them in memory.
    func response(with spool: RowSpool, _ form: AnswerForm, _ context: ServiceContext) -> Response {
        let (head, rest) = parts(form)
        spool.finish(.success(.null))
        var headers = repetition
        headers[.contentType] = form.type
        if form != .json { headers[.vary] = "Accept" }
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody { writer in
                try await context.writing { try await writer.write(head) }
                while case .lines(let rows) = try await spool.next() {
                    try await context.writing { try await context.write(rows, to: &writer) }
                }
                try await writer.write(rest)
                try await writer.finish(nil)
            })
    }

    /// The envelope before and after its spooled rows.
    private func parts(_ form: AnswerForm) -> (head: ByteBuffer, rest: ByteBuffer) {
        let bytes = encoded(form)
        // An empty list of items, where the rows stand. No text has the last byte of the one in CBOR.
        let mark = form == .cbor ? [0x65] + Array("items".utf8) + [0x80] : Array("\"items\":[".utf8)
        guard let place = bytes.firstRange(of: mark) else { preconditionFailure("an envelope has items") }
        var head = ByteBuffer(bytes: bytes[..<place.upperBound])
        if form == .cbor {
            head.moveWriterIndex(to: head.writerIndex - 1)
            head.writeBytes(Self.listHead(spooledCount))
        }
        return (head, ByteBuffer(bytes: bytes[place.upperBound...]))
    }

    /// The head of a list of so many items in CBOR, in its shortest form.
    static func listHead(_ count: Int) -> [UInt8] {
        let major: UInt8 = 0x80
        return switch count {
        case ..<24: [major | UInt8(count)]
        case ..<0x100: [major | 24, UInt8(count)]
        case ..<0x1_0000: [major | 25] + withUnsafeBytes(of: UInt16(count).bigEndian, Array.init)
        default: [major | 26] + withUnsafeBytes(of: UInt32(clamping: count).bigEndian, Array.init)
        }
    }

    /// Adds the rows to lines, or of a transaction the envelopes of its statements.
    func add(to spool: RowSpool) throws {
        if isRepeated { spool.noteRepeated() }
        var lines = RowLines(spool, .lines)
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

    /// An object, the answer in another form, with the warnings of all statements, each once.
    func warned(_ told: Value) -> Value {
        var all: [AnswerWarning] = []
        for answer in results ?? [self] {
            for warning in answer.warnings + Self.changes(in: answer.items) where !all.contains(warning) {
                all.append(warning)
            }
        }
        guard !all.isEmpty, case .object(var members) = told else { return told }
        members["warnings"] = .array(all.map(\.value))
        return .object(members)
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
