import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Identity
import ServiceKit

/// Live queries: `POST` and `GET /api/v5/store/observe`.
struct ObserveRoutes: Sendable {
    let feeds: FeedRoutes
    let observations: Observations
    let statements: PreparedStatements

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/api/v5/store/observe") { request, context in
            let identity = try await feeds.identity(of: request)
            let body = try await request.received(
                limitBytes: Limits.requestBytes, for: Account(identity))
            let turns = feeds.turns(request, identity, context)
            let wanted = try await turns.evaluating { evaluation in
                try await ExecuteRequest(body.unpacked(in: evaluation), in: evaluation)
            }
            return try await observe(wanted, identity, request, context, turns)
        }
        mount.on(.get, "/api/v5/store/observe") { request, context in
            let identity = try await feeds.identity(of: request)
            let query = try QueryValues(request)
            let turns = feeds.turns(request, identity, context)
            var members = ObjectValue()
            if let statement = try query.text("statement") { members["statement"] = .string(statement) }
            if let arguments = try query.text("args") {
                do throws(CRDTError) {
                    members["args"] = try JSONText.parseStrictly(
                        Array(arguments.utf8), within: ParsingBounds(values: Limits.requestValues))
                } catch {
                    throw QueryError(.malformedRequest, "\"args\": \(error.message)")
                }
            }
            return try await observe(
                try ExecuteRequest(members: members), identity, request, context, turns)
        }
    }

    private func observe(
        _ wanted: ExecuteRequest, _ identity: Identity, _ request: Request, _ context: ServiceContext,
        _ turns: StreamTurns
    ) async throws -> Response {
        guard wanted.asOf == nil else {
            throw QueryError(.malformedRequest, "\"asOf\" reads the past, which does not change")
        }
        let (statement, preparedBytes): (PreparedStatement, Int)
        do {
            let (statements, text) = (statements, wanted.statement)
            (statement, preparedBytes) =
                text.utf8.count > Limits.plainStatementBytes
                ? try await turns.run { evaluation in
                    let statement = try evaluation.preparing { try statements.prepare(text) }
                    return (statement, evaluation.preparedBytes)
                } : (try statements.prepare(text), 0)
        } catch let error as DQLError {
            throw ReportedStatement(error: error)
        }
        guard statement.kind == .select else {
            throw QueryError(.malformedRequest, "only a SELECT can be observed")
        }
        try Projection.authorize(statement, identity.rights)
        let format = try StreamFormat(request, preferred: .events)
        let last = try Self.lastEvent(request)
        let slot = try feeds.slots.take(identity)
        let projection = try await feeds.projection(identity.databaseID)
        try await projection.beginFollowing()
        let arguments = wanted.arguments
        let query = try await turns.run { _ in
            try Observations.Wanted(
                statement, preparedBytes: preparedBytes, arguments, identity, on: projection)
        }
        let membership = observations.join(query)
        do {
            try await membership.observation.begin()
        } catch let error as DQLError {
            observations.forget(membership.observation)
            throw ReportedStatement(error: error)
        } catch {
            observations.forget(membership.observation)
            throw QueryError.translated(error)
        }
        let end: @Sendable () -> (any HTTPReportable)? = { feeds.end(of: identity) }
        return StreamWriter.response(format, context) { [observations] stream in
            let follower = ObserveStream(
                observation: membership.observation, turns: turns, end: end)
            let hasQueryEnded = try await follower.run(since: last, to: &stream)
            if hasQueryEnded { observations.forget(membership.observation) }
            withExtendedLifetime((slot, membership)) {}
        }
    }

    /// The offset of the last event that the client has.
    private static func lastEvent(_ request: Request) throws -> Offset? {
        guard let text = HTTPField.Name("Last-Event-ID").flatMap({ request.headers[$0] }) else { return nil }
        guard let offset = UInt64(text) else {
            throw ServiceError(.badRequest, "Last-Event-ID must be the id of an event, an offset of the log")
        }
        return Offset(offset)
    }
}

/// An error of the statement, answered in everybody's form.
struct ReportedStatement: HTTPReportable {
    let error: DQLError

    var httpStatus: HTTPResponse.Status { .badRequest }
    var publicCode: String { error.code.rawValue }
    var publicMessage: String { error.message }
    var publicMembers: ObjectValue {
        var members = ObjectValue()
        if let line = error.line { members["line"] = .int(Int64(line)) }
        if let column = error.column { members["column"] = .int(Int64(column)) }
        return members
    }
}

/// One follower of a live query.
struct ObserveStream: Sendable {
    let observation: Observation
    let turns: StreamTurns
    let end: @Sendable () -> (any HTTPReportable)?

    /// Writes the result, or `current`, and then the changes until the end.
    /// - Returns: whether the query itself has ended, and not only this follower.
    func run(since last: Offset?, to stream: inout StreamWriter) async throws -> Bool {
        var number = try await begin(since: last, to: &stream)
        while true {
            if let reason = end() {
                try await close(reason, to: &stream)
                return false
            }
            switch observation.step(after: number) {
            case .behind: number = try await result(to: &stream)
            case .ended(let reason):
                try await close(reason, to: &stream)
                return true
            case .events(let events, let through):
                for event in events {
                    try await stream.add(json: event.json, event: "change", id: event.offset)
                }
                number = through
                if events.isEmpty {
                    try await stream.beAlive()
                    await observation.wait(beyond: number)
                    try Task.checkCancellation()
                } else {
                    try await stream.flush()
                }
            }
        }
    }

    private func begin(since last: Offset?, to stream: inout StreamWriter) async throws -> Int {
        let (rows, version) = observation.current()
        guard let last, try await observation.isCurrent(since: last) else {
            return try await result(to: &stream)
        }
        let value: Value = [
            "event": "current", "transactionId": .int(Int64(clamping: rows.offset.rawValue)),
        ]
        try await stream.add(value, event: "current", id: rows.offset)
        try await stream.flush()
        return version
    }

    /// Writes all rows, in parts.
    private func result(to stream: inout StreamWriter) async throws -> Int {
        let (rows, version) = observation.current()
        let begin = "{\"event\":\"result\",\"transactionId\":\(rows.offset),\"items\":["
        var rest = rows.rows[...]
        repeat {
            let left = rest
            let part = try await turns.run { try Self.part(of: left, $0) }
            rest.removeFirst(part.count)
            let warnings = part.changed.map { ",\"warnings\":" + JSONText.print(Self.warnings($0)) } ?? ""
            let end = rest.isEmpty ? "]\(warnings)}" : "]\(warnings),\"more\":true}"
            try await stream.add(
                json: begin + part.text + end, event: "result", id: rest.isEmpty ? rows.offset : nil)
        } while !rest.isEmpty
        try await stream.flush()
        return version
    }

    /// The first rows as JSON: some more bytes than `Limits.resultPartBytes`, or all rows; and the first of
    /// their numbers that JSON cannot hold.
    private static func part(
        of rows: ArraySlice<KeptRow>, _ evaluation: Evaluation
    ) throws -> (text: String, count: Int, changed: Double?) {
        var (text, count) = ("", 0)
        var changed: Double?
        for row in rows where text.utf8.count <= Limits.resultPartBytes {
            try evaluation.checkEnd()
            if count > 0 { text += "," }
            let value = try row.value
            text += JSONText.print(value)
            changed = changed ?? value.unwritableNumber
            count += 1
        }
        return (text, count, changed)
    }

    /// The member `warnings` of an event whose rows have a number that JSON cannot hold.
    static func warnings(_ number: Double) -> Value { [.string(ExecuteAnswer.changed(number).text)] }

    private func close(_ reason: any HTTPReportable, to stream: inout StreamWriter) async throws {
        let value: Value = [
            "event": "closed",
            "error": ["code": .string(reason.publicCode), "message": .string(reason.publicMessage)],
        ]
        try await stream.add(value, event: "closed")
        try await stream.flush()
    }
}
