import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Identity
import ServiceKit

/// The calls from before DQL: `find`, `findbyid`, `count` and `write` of version 4, and the DELETE of version
/// 1. Each becomes a statement or a transaction, and goes the way of those.
struct LegacyRoutes: Sendable {
    let pool: EvaluationPool
    /// Executes a statement for whoever sent a request.
    let execute: @Sendable (ExecuteRequest, Request, Identity, Evaluation) async throws -> ExecuteAnswer
    let identity: @Sendable (Request) async throws -> Identity

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/api/v4/store/find") { request, context in
            let members = ["query", "args", "limit", "offset", "sort", "serializedAs", "describe"]
            return try await call(request, context, members) { try .find($0) }
        }
        mount.on(.post, "/api/v4/store/findbyid") { request, context in
            try await call(request, context, ["id", "serializedAs"]) { try .findByID($0) }
        }
        mount.on(.post, "/api/v4/store/count") { request, context in
            try await call(request, context, ["query", "args"]) { try .count($0) }
        }
        mount.on(.post, "/api/v4/store/write") { request, context in
            let identity = try await identity(request)
            let sent = try await received(request, identity)
            return try await evaluating(identity, context) { evaluation in
                let body = try await sent.unpacked(in: evaluation)
                let members = try await body.members(known: ["commands"], in: evaluation)
                let write = try await reporting {
                    try await evaluation.run { try evaluation.preparing { try LegacyWrite(members) } }
                }
                var commands = write.request
                commands.key = try await body.key(request, of: identity, [4], in: evaluation)
                let transaction = commands
                let answer = try await reporting(transaction) {
                    try await execute(transaction, request, identity, evaluation)
                }
                return try await Self.json(answer, evaluation, context) { write.answer(answer) }
            }
        }
        mount.on(.delete, "/api/v1/collections/:collection/documents/:id") { request, context in
            let identity = try await identity(request)
            let collection = try HistoryRequest.collection(context).text
            let ids = try HistoryRequest.ids(context.parameters.require("id"))
            var statement = Self.deletion(of: ids, in: LegacyCall.quoted(collection))
            statement.key = try IdempotencyKey(
                request, user: identity.userID,
                parts: [[1], Array(collection.utf8), JSONText.bytes(ids[0].value)])
            let deletion = statement
            return try await evaluating(identity, context) { evaluation in
                let answer: ExecuteAnswer = try await reporting {
                    var answer = try await execute(deletion, request, identity, evaluation)
                    // Hints at a statement that the client did not write.
                    answer.warnings = []
                    return answer
                }
                return try await Self.json(answer, evaluation, context) {
                    [
                        "txnId": .int(Int64(clamping: answer.transactionID.rawValue)),
                        "deleted": .int(Int64(answer.mutatedDocumentIDs.count)),
                    ]
                }
            }
        }
    }

    /// Deletes the first of the documents that is there.
    private static func deletion(of ids: [DocumentID], in collection: String) -> ExecuteRequest {
        var arguments = ObjectValue([(key: "id", value: ids[0].value)])
        guard ids.count > 1 else {
            return ExecuteRequest(
                statement: "DELETE FROM \(collection) WHERE _id = :id", arguments: arguments)
        }
        arguments["ids"] = .array(ids.map(\.value))
        return ExecuteRequest(
            statement: "DELETE FROM \(collection) WHERE _id IN :ids AND "
                + "(_id = :id OR NOT EXISTS (SELECT _id FROM \(collection) WHERE _id = :id))",
            arguments: arguments)
    }

    private func call(
        _ request: Request, _ context: ServiceContext, _ members: [String],
        _ make: @escaping @Sendable (LegacyCall) throws -> LegacyStatement
    ) async throws -> Response {
        let identity = try await identity(request)
        let sent = try await received(request, identity)
        return try await evaluating(identity, context) { evaluation in
            let body = try await sent.unpacked(in: evaluation)
            let object = try await body.members(known: ["collection"] + members, in: evaluation)
            let made = try await reporting {
                try await evaluation.run {
                    let made = try evaluation.preparing { try make(try LegacyCall(object)) }
                    evaluation.leave(made)
                    return made
                }
            }
            evaluation.name(made.request.text)
            let answer = try await reporting {
                try await execute(made.request, request, identity, evaluation)
            }
            return try await Self.json(answer, evaluation, context) { made.answer(answer) }
        }
    }

    private func received(_ request: Request, _ identity: Identity) async throws -> SentBody {
        try await request.received(limitBytes: Limits.requestBytes, for: Account(identity))
    }

    /// Runs a call as one of the credential's running statements, which ends with its client.
    private func evaluating(
        _ identity: Identity, _ context: ServiceContext, _ body: (Evaluation) async throws -> Response
    ) async throws -> Response {
        let evaluation = try pool.statement("", of: identity.credential, in: identity.databaseID)
        defer { pool.finish(evaluation) }
        context.whenClientLeaves { evaluation.end(.abandoned) }
        do {
            return try await body(evaluation)
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            throw QueryError.ended(evaluation.end, after: pool.options.statementTime)
        }
    }

    /// Statement errors in everybody's form; those of a transaction with the index of their statement.
    private func reporting<Result>(
        _ request: ExecuteRequest? = nil, _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await body()
        } catch {
            throw Self.reported(error, index: request?.transaction?.running)
        }
    }

    private static func reported(_ error: any Error, index: Int?) -> any Error {
        if let failed = error as? TransactionFailure { return reported(failed.error, index: failed.index) }
        let plain: any Error =
            if let error = error as? DQLError, ![.timeout, .cancelled].contains(error.code) {
                ReportedStatement(error: error)
            } else {
                QueryError.translated(error)
            }
        guard let index, let reportable = plain as? any HTTPReportable else { return plain }
        return ReportedCommand(index: index, error: reportable)
    }

    /// The answer, printed in a turn. A write is reported even if its evaluation has ended meanwhile.
    private static func json(
        _ answer: ExecuteAnswer, _ evaluation: Evaluation, _ context: ServiceContext,
        _ value: @escaping @Sendable () -> Value
    ) async throws -> Response {
        var headers = answer.repetition
        headers[.cacheControl] = "no-store"
        let text: [UInt8]
        do {
            text = try await evaluation.run {
                try evaluation.willPrint(answer)
                return JSONText.bytes(answer.warned(value()))
            }
        } catch {
            guard !answer.mutatedDocumentIDs.isEmpty else { throw error }
            text = JSONText.bytes(answer.warned(value()))
        }
        do {
            return try .held(text, by: evaluation.held, context, headers: headers)
        } catch {
            guard !answer.mutatedDocumentIDs.isEmpty else { throw error }
            return .json(text, headers: headers)
        }
    }
}

/// The error of a command, with its place among the commands.
private struct ReportedCommand: HTTPReportable {
    let index: Int
    let error: any HTTPReportable

    var httpStatus: HTTPResponse.Status { error.httpStatus }
    var publicCode: String { error.publicCode }
    var publicMessage: String { error.publicMessage }
    var httpHeaders: HTTPFields { error.httpHeaders }
    var publicMembers: ObjectValue {
        var members = error.publicMembers
        members["index"] = .int(Int64(index))
        return members
    }
}

/// The members of a call.
struct LegacyCall {
    let collection: CollectionName
    let members: ObjectValue
    /// The form of its documents.
    let form: RowForm

    /// - Throws: `QUERY-0101`.
    init(_ members: ObjectValue) throws(QueryError) {
        guard case .string(let name)? = members["collection"], !name.isEmpty else {
            throw Self.malformed("\"collection\" must be the name of a collection")
        }
        collection = CollectionName(name)
        switch members["serializedAs"] {
        case nil, .null?, .string("latestValues")?: form = .values
        case .string("latestValuesAndTypes")?: form = .typedFields(collection)
        default:
            throw Self.malformed("\"serializedAs\" is \"latestValues\" or \"latestValuesAndTypes\"")
        }
        self.members = members
    }

    /// The query in the legacy language as a SELECT; all documents without one.
    func select() throws -> String {
        let text = try self.text("query") ?? ""
        guard !text.allSatisfy(\.isWhitespace) else { return "SELECT * FROM \(Self.quoted(collection.text))" }
        return try LegacyQuery.statement(text, from: collection)
    }

    func arguments() throws(QueryError) -> ObjectValue {
        switch members["args"] {
        case nil, .null?: return ObjectValue()
        case .object(let arguments)?: return arguments
        default: throw Self.malformed("\"args\" must be an object")
        }
    }

    func text(_ name: String) throws(QueryError) -> String? {
        guard let value = members[name], value != .null else { return nil }
        guard let text = value.stringValue else { throw Self.malformed("\"\(name)\" must be a string") }
        return text
    }

    func flag(_ name: String) throws(QueryError) -> Bool {
        switch members[name] {
        case nil, .null?: return false
        case .bool(let flag)?: return flag
        default: throw Self.malformed("\"\(name)\" must be true or false")
        }
    }

    func whole(_ name: String) throws(QueryError) -> Int64? {
        guard let value = members[name], value != .null else { return nil }
        guard let number = value.intValue, number >= 0 else {
            throw Self.malformed("\"\(name)\" must be a whole number from 0")
        }
        return number
    }

    /// ORDER BY of `[{"property": "a.b", "direction": "asc"}]`; empty without it.
    func order() throws(QueryError) -> String {
        guard let value = members["sort"], value != .null else { return "" }
        guard let items = value.arrayValue else { throw Self.malformed("\"sort\" must be a list") }
        var keys: [String] = []
        for item in items {
            let item = try Self.object(item, "an item of \"sort\"", known: ["property", "direction"])
            guard let property = item["property"]?.stringValue, !property.isEmpty else {
                throw Self.malformed("each of \"sort\" must have a \"property\"")
            }
            let path = property.split(separator: ".").map { Self.quoted(String($0)) }.joined(separator: ".")
            let direction = item["direction"] ?? .null
            switch direction == .null ? "asc" : direction.stringValue?.lowercased() {
            case "asc", "ascending": keys.append(path)
            case "desc", "descending": keys.append(path + " DESC")
            default: throw Self.malformed("a \"direction\" must be \"asc\" or \"desc\"")
            }
        }
        return keys.isEmpty ? "" : " ORDER BY " + keys.joined(separator: ", ")
    }

    /// The members of a part of a call. A mistyped one must not count as one that is left out.
    /// - Throws: `QUERY-0101` for another value than an object, and for a member that the part has not.
    static func object(_ value: Value, _ part: String, known: [String]) throws(QueryError) -> ObjectValue {
        guard case .object(let members) = value else { throw malformed("\(part) must be an object") }
        if let unknown = members.entries.first(where: { !known.contains($0.key) }) {
            let shown = unknown.key.prefix(Limits.shownNameCharacters)
            let list = known.map { "\"\($0)\"" }.joined(separator: ", ")
            throw malformed("\"\(shown)\" is not a member of \(part), which may have \(list)")
        }
        return members
    }

    static func quoted(_ name: String) -> String {
        "`" + name.split(separator: "`", omittingEmptySubsequences: false).joined(separator: "``") + "`"
    }

    static func malformed(_ reason: String) -> QueryError { QueryError(.malformedRequest, reason) }
}

/// A call as a statement, and how its answer is told.
struct LegacyStatement: Sendable {
    let request: ExecuteRequest
    let answer: @Sendable (ExecuteAnswer) -> Value

    static func find(_ call: LegacyCall) throws -> LegacyStatement {
        var text = try call.select() + call.order()
        text += " LIMIT \(try call.whole("limit") ?? Limits.legacyDocuments)"
        if let offset = try call.whole("offset") { text += " OFFSET \(offset)" }
        let arguments = try call.arguments()
        guard try call.flag("describe") else {
            var request = ExecuteRequest(statement: text, arguments: arguments)
            request.form = call.form
            return LegacyStatement(request: request) { .object(documents($0.items, $0, call.form)) }
        }
        var request = ExecuteRequest(transaction: [
            ExecuteRequest.Step(statement: text, arguments: arguments),
            ExecuteRequest.Step(statement: "EXPLAIN " + text, arguments: arguments),
        ])
        request.form = call.form
        let statement = text
        return LegacyStatement(request: request) { answer in
            var told = documents(answer.results?.first?.items ?? [], answer, call.form)
            let plan = answer.results?.last?.items.first ?? .null
            told["describe"] = ["statement": .string(statement), "plan": plan]
            return .object(told)
        }
    }

    static func findByID(_ call: LegacyCall) throws -> LegacyStatement {
        guard let id = call.members["id"] else { throw LegacyCall.malformed("\"id\" is missing") }
        var request = ExecuteRequest(
            statement: "SELECT * FROM \(LegacyCall.quoted(call.collection.text)) WHERE _id = :id",
            arguments: ObjectValue([(key: "id", value: id)]))
        request.form = call.form
        return LegacyStatement(request: request) { .object(documents($0.items, $0, call.form)) }
    }

    static func count(_ call: LegacyCall) throws -> LegacyStatement {
        let all = "SELECT *"
        let select = try call.select()
        precondition(select.hasPrefix(all), "a legacy query is printed as SELECT *")
        let text = "SELECT COUNT(*) AS count" + select.dropFirst(all.count)
        return LegacyStatement(
            request: ExecuteRequest(statement: text, arguments: try call.arguments())
        ) { answer in
            ["count": answer.items.first?["count"] ?? 0, "txnId": transaction(answer)]
        }
    }

    private static func documents(
        _ rows: [Value], _ answer: ExecuteAnswer, _ form: RowForm
    ) -> ObjectValue {
        let documents = rows.map { row -> Value in
            switch form {
            case .values: ["id": row["_id"] ?? .null, "fields": row]
            case .typedFields: row
            }
        }
        return ObjectValue([
            (key: "documents", value: .array(documents)), (key: "txnId", value: transaction(answer)),
        ])
    }

    private static func transaction(_ answer: ExecuteAnswer) -> Value {
        .int(Int64(clamping: answer.transactionID.rawValue))
    }
}
