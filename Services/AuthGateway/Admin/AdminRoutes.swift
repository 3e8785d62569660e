import CRDT
import Foundation
import Hummingbird
import Identity
import ServiceKit

/// `/admin/auth/…`: manages databases, providers, API keys, revocations and signing keys. Every request
/// needs an admin credential with the route's role; access tokens and API keys are refused.
struct AdminRoutes: Sendable {
    let state: GatewayState
    let people: PeopleRoutes
    let credential: AdminCredential
    let limiter: AttemptLimiter
    let trustsProxy: Bool
    let nowSeconds: @Sendable () -> Int64
    /// The providers of the file, which override those of the admin API.
    let configured: ProvidersFile
    let registerDatabase: @Sendable (DatabaseID) async throws -> Void

    /// Every method and path, also for the authorization matrix in the tests.
    static let paths: [(method: HTTPRequest.Method, path: String)] =
        [
            (.get, "/admin/auth/databases"), (.post, "/admin/auth/databases"),
            (.get, "/admin/auth/databases/:database"), (.delete, "/admin/auth/databases/:database"),
            (.get, "/admin/auth/databases/:database/erasure"),
            (.get, "/admin/auth/databases/:database/providers"),
            (.post, "/admin/auth/databases/:database/providers"),
            (.delete, "/admin/auth/databases/:database/providers/:provider"),
            (.get, "/admin/auth/databases/:database/api-keys"),
            (.post, "/admin/auth/databases/:database/api-keys"),
            (.delete, "/admin/auth/databases/:database/api-keys/:key"),
            (.get, "/admin/auth/databases/:database/revocations"),
            (.post, "/admin/auth/databases/:database/revocations"),
            (.delete, "/admin/auth/databases/:database/revocations/:revocation"),
            (.get, "/admin/auth/databases/:database/keys"),
            (.post, "/admin/auth/databases/:database/keys"),
            (.get, "/admin/auth/databases/:database/providers/:provider/secrets"),
            (.post, "/admin/auth/databases/:database/providers/:provider/secrets"),
            (.delete, "/admin/auth/databases/:database/providers/:provider/secrets/:secret"),
            (.get, "/admin/auth/audit"), (.post, "/admin/auth/audit"),
            (.get, "/admin/auth/databases/:database/providers/:provider"),
            (.patch, "/admin/auth/databases/:database/providers/:provider"),
            (.get, "/admin/auth/sealing-key"), (.post, "/admin/auth/sealing-key"),
            (.delete, "/admin/auth/sealing-key/previous"),
            (.get, "/admin/auth/restore"), (.post, "/admin/auth/restore"),
            (.post, "/admin/auth/databases/:database/explain-access"),
            (.get, "/admin/auth/databases/:database/limits"),
            (.put, "/admin/auth/databases/:database/limits"),
            (.get, "/admin/auth/whoami"),
            (.get, "/admin/auth/credentials"), (.post, "/admin/auth/credentials"),
            (.delete, "/admin/auth/credentials/:credential"),
        ] + peoplePaths

    func mount(on mount: inout ServiceMount) {
        for (method, path) in Self.paths {
            mount.on(method, path) { request, context in
                try await state.system.audit.admin(
                    request, context, route: path, admit: { try admit(request, context, route: path) }
                ) {
                    try await answer(method, path, request, context)
                }
            }
        }
    }

    /// - Throws: `AUTH-0407`, `AUTH-0410`, `SRV-0403`, `SRV-0602`, `SRV-0603`.
    private func admit(
        _ request: Request, _ context: ServiceContext, route: String
    ) throws -> Administrator {
        // The right credential first: whoever shares an address with a guesser is let in. It has 256 random
        // bits, so a guess that is compared and not counted finds nothing.
        if let found = try credential.administrator(of: request) {
            return try AdminCredential.admitted(found, request, route: route)
        }
        let source = AttemptLimiter.Source.admin(
            AttemptLimiter.network(of: request.source(context, trustsProxy: trustsProxy)))
        try limiter.begin(source)
        limiter.end(source, .refused)
        throw AuthGatewayError(
            .adminRefused, AdminCredential.refusal(of: request))
    }

    private func answer(
        _ method: HTTPRequest.Method, _ path: String, _ request: Request, _ context: ServiceContext
    ) async throws -> Response {
        let parts = path.split(separator: "/").dropFirst(2).filter { $0.first != ":" }
        guard let database = context.parameters.get("database").map({ DatabaseID($0) }) else {
            if parts.first == "sealing-key" { return try await sealingKey(method, request) }
            if parts.first == "audit" { return try await audit(method, request) }
            if parts.first == "restore" { return try await restore(method) }
            if parts.first == "whoami" { return try whoami(request) }
            if parts.first == "credentials" { return try await credentials(method, request, context) }
            return method == .get ? listDatabases() : try await createDatabase(request)
        }
        switch (method, parts.last.map(String.init)) {
        case (.delete, "databases"):
            try await state.deleteDatabase(database)
            return try showErasure(database, status: .accepted)
        case (.get, "erasure"): return try showErasure(database, status: .ok)
        default: break
        }
        guard state.system.directory.database(database) != nil else {
            throw AuthGatewayError(.databaseUnknown, "the database does not exist")
        }
        if let answer = try await answerPeople(method, path, request, context, database) { return answer }
        switch (method, parts.last.map(String.init)) {
        case (.get, "databases"): return try showDatabase(database)
        case (.get, "limits"): return showLimits(database)
        case (.put, "limits"): return try await putLimits(request, database)
        case (.get, "providers") where path.hasSuffix("/:provider"):
            return try showProvider(try provider(context), database)
        case (.patch, "providers"): return try await changeProvider(request, try provider(context), database)
        case (.get, "providers"): return try listProviders(database)
        case (.post, "providers"): return try await createProvider(request, database)
        case (.delete, "providers"):
            return try await remove(
                "\(database)/\(context.parameters.require("provider"))", ProviderRecord.self, of: database)
        case (.get, "api-keys"): return listAPIKeys(database)
        case (.post, "api-keys"): return try await createAPIKey(request, database)
        case (.delete, "api-keys"):
            return try await remove(context.parameters.require("key"), APIKeyRecord.self, of: database)
        case (.get, "revocations"): return listRevocations(database)
        case (.post, "revocations"): return try await revoke(request, database)
        case (.delete, "revocations"):
            return try await lift(context.parameters.require("revocation"), database)
        case (.get, "secrets"): return try listSecrets(try provider(context), database)
        case (.post, "secrets"): return try await createSecret(request, try provider(context), database)
        case (.delete, "secrets"):
            let secret = try context.parameters.require("secret")
            return try await removeSecret(secret, try provider(context), database)
        case (.get, "keys"): return listKeys(database)
        case (.post, "explain-access"): return try await explainAccess(request, database)
        default: return try await rotate(request, database)
        }
    }

    func remove<Record: SystemRecord>(
        _ id: String, _ type: Record.Type, of database: DatabaseID
    ) async throws -> Response {
        try await state.system.write { writer in
            guard let record = try writer.get(id, as: type), record.isOf(database) else {
                throw AuthGatewayError(.recordUnknown, "nothing of this name exists in the database")
            }
            try writer.remove(id, type)
        }
        return Response(status: .noContent)
    }
}

// MARK: A restored log

extension AdminRoutes {
    /// Tells what a restore of the log takes back, or accepts it. Where this service has noticed no restore,
    /// another may have: the word is recorded all the same.
    private func restore(_ method: HTTPRequest.Method) async throws -> Response {
        guard method == .post else {
            let notice = state.system.restoreNotice
            let body: Value = [
                "accepted": .bool(notice == nil),
                "takenBack": .array((notice?.takenBack ?? []).map { .string($0) }),
                "others": .int(Int64(notice?.others ?? 0)),
            ]
            return .json(JSONText.print(body).utf8)
        }
        try await state.system.acceptRestore(nowSeconds: nowSeconds())
        return Response(status: .noContent)
    }
}

// MARK: Databases and providers

extension AdminRoutes {
    private func listDatabases() -> Response {
        let databases = state.system.directory.databases.values
            .filter { $0.deletedAtSeconds == nil }.sorted { $0.id < $1.id }
        return Self.list(
            "databases",
            databases.map {
                [
                    "id": .string($0.id), "createdAt": .int($0.createdAtSeconds),
                    "development": .bool($0.sealedDevelopmentToken != nil),
                ]
            })
    }

    /// Shows a database with its development token, which is shown nowhere else after its creation.
    private func showDatabase(_ id: DatabaseID) throws -> Response {
        let token = try state.developmentToken(of: id)
        let body: Value = ["id": .string(id.text), "developmentToken": token.map { .string($0) } ?? .null]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Shows how far the erasure of a deleted database is: the receipts of those who have erased it.
    private func showErasure(_ id: DatabaseID, status: HTTPResponse.Status) throws -> Response {
        let directory = state.system.directory
        guard let record = directory.databases[id], let deletedAt = record.deletedAtSeconds else {
            throw AuthGatewayError(.databaseUnknown, "no database of this id was deleted")
        }
        let receipts = directory.erasures.values.filter { $0.databaseID == id && $0.subject == nil }
            .sorted { ($0.holder, $0.place) < ($1.holder, $1.place) }
        let body: Value = [
            "database": .string(id.text), "deletedAt": .int(deletedAt), "erases": .bool(record.isErased),
            "receipts": .array(
                receipts.map {
                    [
                        "holder": .string($0.holder), "place": .string($0.place),
                        "erasedAt": .int($0.erasedAtSeconds),
                    ]
                }),
        ]
        return .json(JSONText.print(body).utf8, status: status)
    }

    private func createDatabase(_ request: Request) async throws -> Response {
        let body = try await AdminBody(request, known: ["id", "development"])
        let id = DatabaseID(try body.text("id") ?? UUID().uuidString.lowercased())
        guard id.canBeMade else {
            throw AuthGatewayError(.requestMalformed, "id must be \(DatabaseID.form)")
        }
        let token = try await state.createDatabase(
            id, allowsDevelopment: try body.flag("development") ?? true)
        try await registerDatabase(id)
        return Self.made(["id": .string(id.text), "developmentToken": token.map { .string($0) } ?? .null])
    }
}

// MARK: API keys, revocations, signing keys

extension AdminRoutes {
    private func listAPIKeys(_ database: DatabaseID) -> Response {
        let keys = state.system.directory.apiKeys.values
            .filter { $0.isOf(database) && $0.device == nil }
            .sorted { $0.createdAtSeconds < $1.createdAtSeconds }
        return Self.list(
            "apiKeys",
            keys.map {
                [
                    "id": .string($0.id), "name": .string($0.name), "createdAt": .int($0.createdAtSeconds),
                    "expiresAt": .int($0.expiresAtSeconds), "permissions": Self.value(of: $0.permissions),
                    "peers": .array(
                        ($0.peers ?? []).map {
                            ["peerKey": .string($0.peerKey), "lastAt": .int($0.lastAtSeconds)]
                        }),
                ]
            })
    }

    private func createAPIKey(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(request, known: ["name", "permissions", "expiresAt"])
        guard let name = try body.text("name"), !name.isEmpty, name.utf8.count <= Limits.nameBytes else {
            throw AdminBody.missing("name")
        }
        let now = nowSeconds()
        let expires = try body.number("expiresAt") ?? now + Limits.apiKeyLifeSeconds
        guard expires > now, expires <= now + Limits.apiKeyLifeSeconds else {
            throw AuthGatewayError(
                .requestMalformed, "expiresAt must be seconds since 1970, in the future, at most a year away")
        }
        guard let permissions = body.value("permissions") else { throw AdminBody.missing("permissions") }
        let grant: Grant
        do {
            grant = try WebhookAnswer.grant(permissions)
        } catch {
            throw AuthGatewayError(.requestMalformed, error.reason)
        }
        let key = APIKey()
        let record = APIKeyRecord(
            id: key.id, database: database, name: name, secretHash: key.secretHash, permissions: grant,
            createdAtSeconds: now, expiresAtSeconds: expires)
        try await state.system.write { try $0.put(record) }
        // The key is shown here and never again.
        return Self.made([
            "id": .string(key.id), "key": .string(key.text), "expiresAt": .int(expires),
        ])
    }

    private func listRevocations(_ database: DatabaseID) -> Response {
        let revocations = state.system.directory.revocations.values
            .filter { $0.isOf(database) }.sorted { $0.id < $1.id }
        return Self.list(
            "revocations",
            revocations.map {
                [
                    "id": .string($0.id), "kind": .string($0.subject.rawValue), "value": .string($0.value),
                    "since": .int($0.sinceSeconds), "liftedAt": $0.liftedAtSeconds.map { .int($0) } ?? .null,
                ]
            })
    }

    private func revoke(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(request, known: ["kind", "value"])
        guard let kind = try body.text("kind"), let subject = Revocation.Subject(rawValue: kind) else {
            throw AdminBody.missing("kind")
        }
        guard let value = try body.text("value"), !value.isEmpty, value.utf8.count <= Limits.userIDBytes
        else { throw AdminBody.missing("value") }
        if subject == .peer {
            // A key that is cut short would lock nobody out.
            do { try PeerKey.validate(publicKeyString: value) } catch {
                throw AuthGatewayError(.requestMalformed, "value must be a peer's key: \(error.message)")
            }
        }
        let now = nowSeconds()
        let revocation = Revocation(
            database: database, subject: subject, value: value, sinceSeconds: now)
        try await state.system.write { writer in
            // A lifted revocation loses its `liftedAtSeconds` and holds again.
            try writer.replace(revocation)
        }
        return Self.made(["id": .string(revocation.id)])
    }

    private func lift(_ id: String, _ database: DatabaseID) async throws -> Response {
        let now = nowSeconds()
        try await state.system.write { writer in
            guard var revocation = try writer.get(id, as: Revocation.self), revocation.isOf(database) else {
                throw AuthGatewayError(.recordUnknown, "the database has no revocation with this id")
            }
            revocation.liftedAtSeconds = now
            try writer.put(revocation)
        }
        return Response(status: .noContent)
    }

    private func listKeys(_ database: DatabaseID) -> Response {
        Self.list(
            "keys",
            state.keys(of: database).map {
                [
                    "id": .string($0.id), "createdAt": .int($0.createdAtSeconds),
                    "retiresAt": $0.retiresAtSeconds.map { .int($0) } ?? .null,
                ]
            })
    }

    private func rotate(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(request, known: ["overlapSeconds"])
        let overlap = try body.number("overlapSeconds") ?? state.overlapSeconds(in: database)
        guard 0...Int64(UInt32.max) ~= overlap else { throw AdminBody.missing("overlapSeconds") }
        let number = try await state.addKey(to: database, after: overlap)
        return Self.made(["id": .string("\(database).\(number)")])
    }

    static func list(_ name: String, _ items: [Value]) -> Response {
        .json(JSONText.print(.object(ObjectValue([(key: name, value: .array(items))]))).utf8)
    }

    static func made(_ value: Value) -> Response {
        .json(JSONText.print(value).utf8, status: .created, headers: [.cacheControl: "no-store"])
    }
}

/// The members of an admin request; unknown ones are refused.
struct AdminBody {
    private let members: ObjectValue

    /// - Throws: `AUTH-0401`, `SRV-0413`.
    init(_ request: Request, known: [String]) async throws {
        let body = try await request.wholeBody(limitBytes: Limits.adminBodyBytes)
        do {
            members = try RequestObject(body.readableBytesView, known: known, mayBeEmpty: true).members
        } catch {
            throw AuthGatewayError(.requestMalformed, error.message)
        }
    }

    func value(_ name: String) -> Value? { members[name] }

    func text(_ name: String) throws(AuthGatewayError) -> String? {
        guard let value = members[name] else { return nil }
        guard let text = value.stringValue else { throw Self.missing(name) }
        return text
    }

    func flag(_ name: String) throws(AuthGatewayError) -> Bool? {
        guard let value = members[name] else { return nil }
        guard let flag = value.boolValue else { throw Self.missing(name) }
        return flag
    }

    func number(_ name: String) throws(AuthGatewayError) -> Int64? {
        guard let value = members[name] else { return nil }
        guard let number = value.intValue else { throw Self.missing(name) }
        return number
    }

    func without(_ name: String) -> Value {
        .object(ObjectValue(members.entries.filter { !utf8Equal($0.key, name) }))
    }

    /// The error names the member but not its value, which may be a secret.
    static func missing(_ name: String) -> AuthGatewayError {
        AuthGatewayError(.requestMalformed, "\(name) is missing or invalid; see the README of AuthGateway")
    }
}

extension SystemRecord {
    /// Returns whether the record belongs to a database.
    func isOf(_ database: DatabaseID) -> Bool {
        switch self {
        case let record as ProviderRecord: record.databaseID == database
        case let record as APIKeyRecord: record.databaseID == database
        case let record as Revocation: record.databaseID == database
        case let record as PermissionSetRecord: record.databaseID == database
        case let record as AccountLinkRecord: record.databaseID == database
        default: false
        }
    }
}
