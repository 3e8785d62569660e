import CRDT
import Hummingbird
import Identity
import ServiceKit

/// Named admin credentials (decision 0097): `GET /admin/auth/whoami`, and `/admin/auth/credentials`.
extension AdminRoutes {
    /// Tells the sender's own name and role.
    func whoami(_ request: Request) throws -> Response {
        guard let found = try credential.administrator(of: request) else {
            throw AuthGatewayError(.adminRefused, "the credential ended a moment ago")
        }
        let body: Value = [
            "name": found.name.map { .string($0) } ?? .null, "role": .string(found.role.rawValue),
            "expiresAt": found.expiresAtSeconds.map { .int($0) } ?? .null,
        ]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Lists them, makes one, or deletes one, which ends it at once in every service.
    func credentials(
        _ method: HTTPRequest.Method, _ request: Request, _ context: ServiceContext
    ) async throws -> Response {
        switch method {
        case .get: return listCredentials()
        case .post: return try await createCredential(request)
        default:
            let id = try context.parameters.require("credential")
            try await state.system.write { writer in
                guard try writer.get(id, as: AdminCredentialRecord.self) != nil else {
                    throw AuthGatewayError(.recordUnknown, "there is no admin credential with this id")
                }
                try writer.remove(id, AdminCredentialRecord.self)
            }
            return Response(status: .noContent)
        }
    }

    private func listCredentials() -> Response {
        let all = state.system.directory.adminCredentials.values.sorted {
            ($0.createdAtSeconds, $0.id) < ($1.createdAtSeconds, $1.id)
        }
        return Self.list(
            "credentials",
            all.map {
                [
                    "id": .string($0.id), "name": .string($0.name), "role": .string($0.role.rawValue),
                    "createdAt": .int($0.createdAtSeconds), "expiresAt": .int($0.expiresAtSeconds),
                ]
            })
    }

    private func createCredential(_ request: Request) async throws -> Response {
        let body = try await AdminBody(request, known: ["name", "role", "expiresAt"])
        guard let name = try body.text("name"), !name.isEmpty, name.utf8.count <= Limits.nameBytes else {
            throw AdminBody.missing("name")
        }
        guard let role = try body.text("role").flatMap({ AdminRole(rawValue: $0) }) else {
            throw AuthGatewayError(.requestMalformed, "role must be read, operate or own")
        }
        let now = nowSeconds()
        let expires = try body.number("expiresAt") ?? now + ServiceKit.Limits.adminCredentialSeconds
        guard expires > now, expires <= now + ServiceKit.Limits.longestAdminCredentialSeconds else {
            throw AuthGatewayError(
                .requestMalformed, "expiresAt must be seconds since 1970, in the future, at most a year away")
        }
        let key = APIKey()
        let record = AdminCredentialRecord(
            id: key.id, name: name, role: role, secretHash: key.secretHash, createdAtSeconds: now,
            expiresAtSeconds: expires)
        let most = Limits.adminCredentials
        try await state.system.write { [state] writer in
            guard state.system.directory.adminCredentials.count < most else {
                throw AuthGatewayError(
                    .notPossible, "there are \(most) admin credentials; delete some that nobody uses")
            }
            try writer.put(record)
        }
        // The secret is shown here and never again.
        return Self.made([
            "id": .string(key.id), "credential": .string(key.text), "role": .string(role.rawValue),
            "expiresAt": .int(expires),
        ])
    }
}
