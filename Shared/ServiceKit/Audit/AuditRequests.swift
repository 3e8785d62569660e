import Hummingbird
import Logging

extension AuditLog {
    /// An entry about a request: its time, address and id.
    public nonisolated func entry(
        _ action: String, _ result: AuditEntry.Result, _ request: Request, _ context: ServiceContext
    ) -> AuditEntry {
        var entry = AuditEntry(
            milliseconds: milliseconds, action: action, result: result,
            address: request.source(context, trustsProxy: trustsProxy))
        entry.request = request.headers[RequestID.field]
        return entry
    }

    /// Adds how an action ended that comes in floods, such as a login.
    public nonisolated func note(_ entry: AuditEntry, _ error: (any Error)?) {
        var entry = entry
        if let error { entry.end(with: error) }
        note(entry)
    }

    /// Answers an admin request. A request that may change something is an entry before its answer goes;
    /// refused credentials are counted.
    /// - Parameters:
    ///   - route: the route's path, with the names of its parameters.
    ///   - admit: throws for a request without an admin credential of the route's role.
    public nonisolated func admin(
        _ request: Request, _ context: ServiceContext, route: String, admit: () throws -> Administrator,
        _ body: () async throws -> Response
    ) async throws -> Response {
        let administrator: Administrator
        do {
            administrator = try admit()
        } catch {
            note(entry("admin", .refused, request, context), error)
            throw error
        }
        guard request.method != .get, request.method != .head else { return try await body() }
        var entry = entry("\(request.method.rawValue) \(route)", .ok, request, context)
        entry.user = administrator.user
        entry.path = request.uri.path
        entry.database = context.parameters.get("database")
        let result: Swift.Result<Response, any Error>
        do {
            result = .success(try await body())
        } catch {
            entry.end(with: error)
            result = .failure(error)
        }
        // It waits for the log if it cannot be written now; the change itself was made or refused.
        try? await record(entry)
        return try result.get()
    }
}

extension AdminCredential {
    /// Answers an admin request with its audit entry, as `AuditLog.admin` does; a process without an audit
    /// only checks the credential.
    public func answer(
        _ request: Request, _ context: ServiceContext, _ audit: AuditLog?, route: String,
        _ body: () async throws -> Response
    ) async throws -> Response {
        guard let audit else {
            try admit(request, route: route)
            return try await body()
        }
        return try await audit.admin(
            request, context, route: route, admit: { try admit(request, route: route) }, body)
    }
}

extension AuditEntry {
    /// Sets result and code from the error that ended the action.
    mutating func end(with error: any Error) {
        let reported = ErrorAnswer.reportable(error)
        code = reported.publicCode
        result = reported.httpStatus.code >= 500 ? .failed : .refused
    }
}
