import CRDT
import Hummingbird
import OperationLog
import ServiceKit

/// Lists the running statements and cancels them: `/api/v5/requests` a credential's own,
/// `/admin/query-service/databases/:database/requests` all of a database, for the holder of the admin
/// credential.
struct RequestRoutes: Sendable {
    let pool: EvaluationPool
    let log: any OperationLog
    let authenticator: Authenticator
    let admin: AdminCredential?

    func mount(on mount: inout ServiceMount) {
        mount.on(.get, "/api/v5/requests") { request, _ in
            let identity = try await authenticator.identity(for: request)
            return list(identity.databaseID, identity.credential)
        }
        mount.on(.delete, "/api/v5/requests/:request") { request, context in
            let identity = try await authenticator.identity(for: request)
            return try cancel(context, identity.databaseID, identity.credential)
        }
        guard let admin else { return }
        let path = "/admin/query-service/databases/:database/requests"
        mount.on(.get, path) { request, context in
            try admin.admit(request, route: path)
            return list(try await database(context), nil)
        }
        mount.on(.delete, "\(path)/:request") { request, context in
            try await admin.answer(request, context, authenticator.audit, route: "\(path)/:request") {
                try cancel(context, try await database(context), nil)
            }
        }
    }

    private func database(_ context: ServiceContext) async throws -> DatabaseID {
        let id = DatabaseID(try context.parameters.require("database"))
        guard try await log.databaseExists(id) else { throw QueryError(.unknownDatabase) }
        return id
    }

    /// - Parameter credential: whose statements; nil for all, each with its credential.
    private func list(_ database: DatabaseID, _ credential: String?) -> Response {
        let rows = pool.statements(in: database, of: credential).map { statement in
            Self.row(statement, namesCredential: credential == nil)
        }
        return .json(JSONText.bytes(["requests": .array(rows)]))
    }

    private static func row(_ statement: Evaluation, namesCredential: Bool) -> Value {
        func milliseconds(_ duration: Duration) -> Value { .int(Int64(duration / .milliseconds(1))) }
        var row = ObjectValue()
        row["id"] = .int(Int64(statement.number))
        row["statement"] = .string(statement.text)
        if namesCredential { row["credential"] = .string(statement.purpose.credential) }
        row["milliseconds"] = milliseconds(ContinuousClock.now - statement.begin)
        row["computedMilliseconds"] = milliseconds(statement.computed)
        row["rows"] = .int(Int64(statement.countedRows))
        row["isEnding"] = .bool(statement.end != nil)
        return .object(row)
    }

    /// Cancels a statement, which ends at its next check; its client gets `QUERY-0402`.
    private func cancel(
        _ context: ServiceContext, _ database: DatabaseID, _ credential: String?
    ) throws -> Response {
        let id = try context.parameters.require("request")
        let found = pool.statements(in: database, of: credential).first { String($0.number) == id }
        guard let found else { throw QueryError(.unknownStatement) }
        found.end(.cancelled)
        return .json(JSONText.bytes(["id": .int(Int64(found.number)), "isEnding": true]))
    }
}
