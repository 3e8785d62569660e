import CRDT
import Crypto
import Foundation
import Hummingbird
import Identity
import ServiceKit

/// Admin routes for the sealing key, and for the secrets that sign requests to webhooks.
extension AdminRoutes {
    /// `GET` shows the state of a change, `POST` makes the next key, `DELETE` removes the previous one.
    func sealingKey(_ method: HTTPRequest.Method, _ request: Request) async throws -> Response {
        switch method {
        case .get:
            let (isChanging, outdated) = try state.sealer.status()
            let body: Value = ["changing": .bool(isChanging), "outdated": .int(Int64(outdated))]
            return .json(JSONText.print(body).utf8)
        case .post:
            _ = try await AdminBody(request, known: [])
            return Self.made(["sealed": .int(Int64(try await state.sealer.change()))])
        default:
            try await state.sealer.removePrevious()
            return Response(status: .noContent)
        }
    }

    /// The name of a path's provider.
    func provider(_ context: ServiceContext) throws -> String { try context.parameters.require("provider") }

    /// Lists a webhook's secrets by id and time of validity, without the secrets themselves.
    func listSecrets(_ provider: String, _ database: DatabaseID) throws -> Response {
        let secrets = try configuration(provider, database).secrets
        return Self.list("secrets", secrets.map { Self.shown($0) })
    }

    /// Adds a secret. With `retireOthersAt` the others end at that time, which is a rotation with overlap.
    func createSecret(_ request: Request, _ provider: String, _ database: DatabaseID) async throws -> Response
    {
        let body = try await AdminBody(request, known: ["notBefore", "notAfter", "retireOthersAt"])
        let known = try configuration(provider, database)
        var secrets = known.secrets
        guard secrets.count < Limits.signingSecrets else {
            throw AuthGatewayError(
                .notPossible, "a webhook has at most \(Limits.signingSecrets) secrets; remove one first")
        }
        let begin = max(try body.number("notBefore") ?? nowSeconds(), nowSeconds())
        guard try body.number("notAfter") ?? .max > begin else {
            throw AuthGatewayError(.requestMalformed, "notAfter must be in the future, and after notBefore")
        }
        if let end = try body.number("retireOthersAt") {
            guard end >= begin else {
                throw AuthGatewayError(
                    .requestMalformed, "retireOthersAt must not be before the new secret begins to sign")
            }
            secrets = secrets.map { secret in
                let last = secret["notAfter"]?.intValue ?? .max
                return Self.with(secret, "notAfter", .int(min(last, end)))
            }
        }
        let bytes = SymmetricKey(size: SymmetricKeySize(bitCount: 8 * Limits.madeSigningSecretBytes))
        let text = bytes.withUnsafeBytes { Data($0) }.base64EncodedString()
        var made: Value = ["secret": .string(text)]
        for name in ["notBefore", "notAfter"] {
            if let bound = try body.number(name) { made = Self.with(made, name, .int(bound)) }
        }
        try await state.putProvider(
            provider, of: database,
            configuration: Self.with(known.value, "signingSecrets", .array(secrets + [made])),
            inPlaceOf: known.record)
        // The secret is shown here and never again.
        return Self.made(Self.with(Self.shown(made), "secret", .string(text)))
    }

    func removeSecret(_ id: String, _ provider: String, _ database: DatabaseID) async throws -> Response {
        let known = try configuration(provider, database)
        let rest = known.secrets.filter { Self.id(of: $0) != id }
        guard rest.count < known.secrets.count else {
            throw AuthGatewayError(.recordUnknown, "the provider has no secret with this id")
        }
        try await state.putProvider(
            provider, of: database,
            configuration: Self.with(known.value, "signingSecrets", .array(rest)), inPlaceOf: known.record)
        return Response(status: .noContent)
    }

    /// A webhook's configuration, and the secrets in it.
    /// - Throws: `AUTH-0411` if the admin API has not made it, `AUTH-0412` if it is not a webhook.
    private func configuration(
        _ provider: String, _ database: DatabaseID
    ) throws(AuthGatewayError) -> (value: Value, record: ProviderRecord, secrets: [Value]) {
        guard let known = try state.configuration(of: provider, in: database) else {
            throw AuthGatewayError(
                .recordUnknown, "the provider does not exist, or the file of --providers defines it")
        }
        guard known.value["webhookUrl"] != nil else {
            throw AuthGatewayError(.notPossible, "the provider is no webhook, so it has no signing secrets")
        }
        return (known.value, known.record, known.value["signingSecrets"]?.arrayValue ?? [])
    }

    private static func shown(_ secret: Value) -> Value {
        [
            "id": .string(id(of: secret)), "notBefore": secret["notBefore"] ?? .null,
            "notAfter": secret["notAfter"] ?? .null,
        ]
    }

    /// A name for a secret that does not reveal it: half of its SHA-256.
    private static func id(of secret: Value) -> String { id(ofSecret: secret["secret"]?.stringValue ?? "") }

    /// The same of a secret's base64.
    static func id(ofSecret text: String) -> String {
        Base64URL.encode(SHA256.hash(data: Data(text.utf8)).prefix(16))
    }

    private static func with(_ object: Value, _ name: String, _ value: Value) -> Value {
        let others = (object.objectValue?.entries ?? []).filter { !utf8Equal($0.key, name) }
        return .object(ObjectValue(others.map { ($0.key, $0.value) } + [(name, value)]))
    }
}
