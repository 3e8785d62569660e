import CRDT
import Hummingbird
import Identity
import ServiceKit

/// Admin routes for devices: those that ask to join, and those that have joined.
extension AdminRoutes {
    func answerDevices(
        _ method: HTTPRequest.Method, _ path: String, _ request: Request, _ context: ServiceContext,
        _ database: DatabaseID
    ) async throws -> Response? {
        func parameter(_ name: String) throws -> String { try context.parameters.require(name) }
        let directory = people.book.directory
        if path.hasSuffix("/joins") {
            let now = nowSeconds()
            let waiting = directory.joins.values
                .filter { $0.databaseID == database && $0.expiresAtSeconds > now }
                .sorted { ($0.createdAtSeconds, $0.id) < ($1.createdAtSeconds, $1.id) }
            return Self.list("joins", waiting.map { AccountViews.join($0) })
        }
        if path.hasSuffix("/joins/:code") {
            return try await answerJoin(request, context, parameter("code"), database)
        }
        if path.hasSuffix("/devices") {
            let devices = directory.apiKeys.values.filter { $0.databaseID == database && $0.device != nil }
                .sorted { ($0.createdAtSeconds, $0.id) < ($1.createdAtSeconds, $1.id) }
            return Self.list("devices", devices.map { AccountViews.device($0) })
        }
        if path.hasSuffix("/devices/:device") {
            let id = try parameter("device")
            guard directory.apiKeys[id]?.device != nil else {
                throw AuthGatewayError(.recordUnknown, "the database has no device with this id")
            }
            return try await remove(id, APIKeyRecord.self, of: database)
        }
        return nil
    }

    /// Approves or denies a device, which acts for an account if the request names one.
    private func answerJoin(
        _ request: Request, _ context: ServiceContext, _ code: String, _ database: DatabaseID
    ) async throws -> Response {
        let body = try await AdminBody(request, known: ["name", "user", "permissions", "set", "deny"])
        let join = try people.joins.waiting(code, in: database)
        let isApproved = try body.flag("deny") != true
        let user = try body.text("user").map { try account($0, database) }
        var grant = user.map { people.book.grant(of: $0) }
        if let rights = try rights(body, database) {
            let set = rights.set.flatMap {
                people.book.directory.permissionSets["\(database)/\($0)"]?.permissions
            }
            grant = rights.permissions ?? set ?? .nothing
        }
        guard grant != nil || !isApproved else { throw AdminBody.missing("permissions") }
        let name = try AdminBody.deviceName(try body.text("name") ?? join.name)
        let by = try credential.administrator(of: request)?.user ?? "admin"
        try await people.joins.answer(
            code, in: database,
            JoinAnswer(
                isApproved: isApproved, by: by, user: user?.name, name: name, permissions: grant ?? .nothing))
        return Response(status: .noContent)
    }
}
