import CRDT
import Foundation
import HTTPTypes
import Hummingbird
import Identity
import Machine
import ServiceKit

/// `/admin/console/session`: a cookie for a credential.
///
/// `POST` takes the admin credential, an API key or an access token as `Authorization: Bearer`, or
/// `{"local": true}` where `LocalVisitor` agrees; `GET` says who is signed in; `DELETE` signs out.
struct SessionRoutes: Sendable {
    let admin: AdminCredential
    let authenticator: Authenticator
    let system: SystemDatabase
    let access: ConsoleAccess
    let sessions: ConsoleSessions
    var nowSeconds: @Sendable () -> Int64 = SystemClock.seconds

    private static let path = "/admin/console/session"

    func mount(on mount: inout ServiceMount) {
        mount.on(.get, Self.path) { request, context in
            try await report(sessions.sessions(of: request), request, context)
        }
        mount.on(.post, Self.path) { request, context in
            var entry = system.audit.entry("POST \(Self.path)", .ok, request, context)
            do {
                let response = try await begin(request, context)
                entry.user = response.user ?? "admin"
                try? await system.audit.record(entry)
                return response.answer
            } catch {
                system.audit.note(entry, error)
                throw error
            }
        }
        mount.on(.delete, Self.path) { request, context in try await end(request, context) }
    }

    private struct Begun {
        var answer: Response
        var place: ConsoleSessions.Place
        var user: String?
    }

    private func begin(_ request: Request, _ context: ServiceContext) async throws -> Begun {
        try Self.requireConsole(request)
        let isLocal = try await Self.wantsLocal(request)
        let session: ConsoleSessions.Session
        var place = ConsoleSessions.Place.admin
        var user: String?
        let latest = nowSeconds() + Limits.consoleSessionSeconds
        if isLocal {
            guard LocalVisitor.isOwner(request, context, access) else {
                throw ServiceError(
                    .adminRefused, "only a browser of the server's own user on its machine is let in so")
            }
            session = .init(token: nil, expiresAtSeconds: latest)
        } else if let administrator = try admin.administrator(of: request) {
            let bearer = administrator.name == nil ? nil : Self.bearer(of: request)
            session = .init(
                token: bearer, expiresAtSeconds: min(latest, administrator.expiresAtSeconds ?? latest))
            user = administrator.user
        } else {
            let identity = try await identity(of: request)
            session = .init(
                token: Self.bearer(of: request), expiresAtSeconds: min(latest, identity.expiresAtSeconds))
            place = .database(identity.databaseID.text)
            user = identity.userID
        }
        let cookie = try sessions.cookie(for: session, at: place, isSecure: isSecure(request))
        var all = sessions.sessions(of: request)
        all[place] = session
        var answer = try await report(all, request, context)
        answer.headers[.setCookie] = cookie
        return Begun(answer: answer, place: place, user: user)
    }

    /// The identity of an API key or an access token. A text that cannot be an access token was most often
    /// meant as the admin credential, and nobody can log in again with that.
    private func identity(of request: Request) async throws -> Identity {
        do {
            return try await authenticator.identity(for: request)
        } catch let error as IdentityError
            where error.code != .tokenMissing && !Self.bearer(of: request).contains(".")
        {
            throw IdentityError(
                error.code,
                "the credential was not accepted: it is neither the admin credential nor a valid API key")
        }
    }

    private static func bearer(of request: Request) -> String {
        String((request.headers[.authorization] ?? "").split(separator: " ").last ?? "")
    }

    /// Ends the session of the database that `?database=` names, or all of them.
    private func end(_ request: Request, _ context: ServiceContext) async throws -> Response {
        try Self.requireConsole(request)
        try await request.requireNoMembers()
        let database = try QueryValues(request).text("database")
        let all = sessions.sessions(of: request)
        let ended = all.filter { database == nil || $0.key == .database(database ?? "") }
        let now = nowSeconds()
        let old = system.directory.revocations.values.filter {
            $0.databaseID == ConsoleSessions.database
                && $0.sinceSeconds + Limits.consoleSessionSeconds < now
        }
        if !ended.isEmpty {
            try await system.write { writer in
                for revocation in old { try writer.remove(revocation.id, Revocation.self) }
                for session in ended.values {
                    try writer.put(
                        Revocation(
                            database: ConsoleSessions.database, subject: .token, value: session.id,
                            sinceSeconds: now))
                }
            }
        }
        var answer = try await report(all.filter { ended[$0.key] == nil }, request, context)
        for place in ended.keys {
            guard let field = sessions.removal(at: place, isSecure: isSecure(request)) else { continue }
            answer.headers.append(HTTPField(name: .setCookie, value: field))
        }
        return answer
    }

    /// Answer with everybody who is signed in: the administrator or not, and users with their rights.
    private func report(
        _ all: [ConsoleSessions.Place: ConsoleSessions.Session], _ request: Request, _ context: ServiceContext
    ) async throws -> Response {
        var databases: [Value] = []
        for (place, session) in all {
            guard case .database(let id) = place, let token = session.token,
                let identity = try? await authenticator.identity(token: token, databaseID: DatabaseID(id))
            else { continue }
            let grant = (try? JSONEncoder().encode(identity.grant)).map(Array.init) ?? []
            databases.append([
                "id": .string(id), "userID": .string(identity.userID),
                "expiresAt": .int(session.expiresAtSeconds),
                "permissions": (try? JSONText.parse(grant)) ?? .null,
            ])
        }
        databases.sort { ($0["id"]?.stringValue ?? "") < ($1["id"]?.stringValue ?? "") }
        let role = all[.admin].flatMap { session -> AdminRole? in
            guard let token = session.token else { return .own }
            return try? admin.administrator(bearer: token)?.role
        }
        let body: Value = [
            "admin": .bool(role != nil),
            "adminRole": role.map { .string($0.rawValue) } ?? .null,
            "adminExpiresAt": role == nil ? .null : all[.admin].map { .int($0.expiresAtSeconds) } ?? .null,
            "databases": .array(databases),
            "local": .bool(LocalVisitor.isOwner(request, context, access)),
            "version": .string(BuildVersion.number),
        ]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Another site's page cannot set the field without a preflight, and a form cannot at all.
    private static func requireConsole(_ request: Request) throws(ServiceError) {
        guard request.headers[ConsoleSessions.field] != nil else {
            throw ServiceError(.badRequest, "the field X-Mimeo-Console is missing, with any value")
        }
    }

    private static func wantsLocal(_ request: Request) async throws -> Bool {
        let body = try await request.wholeBody(limitBytes: Limits.consoleBodyBytes)
        do {
            let object = try RequestObject(body.readableBytesView, known: ["local"], mayBeEmpty: true)
            guard let value = object.members["local"] else { return false }
            guard let flag = value.boolValue else {
                throw ServiceError(.badRequest, "local must be true or false")
            }
            return flag
        } catch let error as RequestObject.Malformed {
            throw ServiceError(.badRequest, error.message)
        }
    }

    /// True if the browser speaks TLS, as far as the server can know.
    private func isSecure(_ request: Request) -> Bool {
        if access.isSecure { return true }
        guard access.isBehindProxy, let name = HTTPField.Name("X-Forwarded-Proto") else { return false }
        return request.headers[name]?.lowercased() == "https"
    }
}
