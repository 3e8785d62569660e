import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Identity
import OperationLog
import ServiceKit

/// `POST /api/v5/store/import`: documents, one a line, which an INSERT stores in groups.
///
/// A group is read, stored and durable before the next one is read, so a body of any length takes the memory
/// of one group, and its client waits where others write. Each group is one operation of the log, a part of a
/// stream (`StreamTurns`) and a write in its credential's turn.
///
/// Lines are stored in their order: an answer with an error has stored the first so many lines, and nothing
/// of those after them. A group with a bad line is divided until that line stands alone.
struct ImportRoute: Sendable {
    /// The statement's parameter for the documents of a group.
    static let parameter = "documents"

    let feeds: FeedRoutes
    /// Executes a write of an identity.
    let execute: @Sendable (ExecuteRequest, Identity, Evaluation) async throws -> ExecuteAnswer

    func mount(on mount: inout ServiceMount) {
        mount.on(
            .post, "/api/v5/store/import", failure: { ImportAnswer().response(to: $0, $1) }
        ) { request, context in try await answer(request, context) }
    }

    private func answer(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let identity = try await feeds.identity(of: request)
        let text = try Self.statement(request)
        let slot = try feeds.slots.take(identity)
        let turns = feeds.turns(request, identity, context)
        let projection = try await feeds.projection(identity.databaseID)
        try await turns.evaluating { evaluation in
            try Self.check(try await projection.prepare(text, evaluation), identity)
        }
        var stored = ImportAnswer()
        do {
            var lines = try BodyLines(request, for: Account(identity), Limits.importGroups)
            while let group = try await lines.next() {
                if let reason = feeds.end(of: identity) { throw reason }
                try await turns.evaluating { evaluation in
                    try await store(group, by: text, of: identity, evaluation, &stored)
                }
            }
            withExtendedLifetime(slot) {}
            return stored.response
        } catch {
            return stored.response(to: error, context.logger)
        }
    }

    /// The statement of a request.
    private static func statement(_ request: Request) throws -> String {
        guard let text = try QueryValues(request).text("statement") else {
            throw QueryError(
                .malformedRequest,
                "the query parameter \"statement\" is missing, such as "
                    + "INSERT INTO cars DOCUMENTS (:\(parameter))")
        }
        if let name = HTTPField.Name(IdempotencyKey.field), request.headers.contains(name) {
            throw QueryError(
                .malformedRequest,
                "an Idempotency-Key names one operation, and an import makes several: give each document its "
                    + "_id, and send the lines again with ON ID CONFLICT DO NOTHING")
        }
        return text
    }

    private static func check(_ statement: PreparedStatement, _ identity: Identity) throws {
        guard statement.kind == .insert, statement.parameterNames == [parameter] else {
            throw QueryError(
                .malformedRequest,
                "an import takes an INSERT of :\(parameter), and no other parameter, such as "
                    + "INSERT INTO cars DOCUMENTS (:\(parameter))")
        }
        try Projection.authorize(statement, identity.rights)
    }

    private func store(
        _ group: BodyLines.Group, by text: String, of identity: Identity, _ evaluation: Evaluation,
        _ stored: inout ImportAnswer
    ) async throws {
        let (lines, failure) = try await group.objects(in: evaluation)
        try await store(lines[...], by: text, of: identity, evaluation, &stored)
        if let failure { throw failure }
        stored.lines = group.last
    }

    /// Stores lines in one operation, or, where one of them is refused, those before it.
    /// - Throws: `LineFailure` for a line that is refused; other errors where none is to blame.
    private func store(
        _ lines: ArraySlice<BodyLines.Line>, by text: String, of identity: Identity,
        _ evaluation: Evaluation, _ stored: inout ImportAnswer
    ) async throws {
        guard let first = lines.first, let last = lines.last else { return }
        let documents = Value.array(lines.map(\.value))
        let request = ExecuteRequest(
            statement: text, arguments: ObjectValue([(key: Self.parameter, value: documents)]))
        do {
            stored.add(try await execute(request, identity, evaluation), through: last.number)
        } catch  where Self.isOfLine(error) {
            guard lines.count > 1 else { throw LineFailure(line: first.number, error: error) }
            let middle = lines.startIndex + lines.count / 2
            try await store(lines[..<middle], by: text, of: identity, evaluation, &stored)
            try await store(lines[middle...], by: text, of: identity, evaluation, &stored)
        }
    }

    /// Returns whether a document is to blame for an error: without it, the others may be stored.
    private static func isOfLine(_ error: any Error) -> Bool {
        if let error = error as? DQLError {
            return ![.timeout, .cancelled, .unreadableDocument].contains(error.code)
        }
        guard let error = QueryError.translated(error) as? QueryError else { return false }
        return [.refusedByStore, .writeNotGranted, .erased].contains(error.code)
    }
}
