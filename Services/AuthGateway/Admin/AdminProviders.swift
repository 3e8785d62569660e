import CRDT
import Foundation
import Hummingbird
import Identity
import ServiceKit

/// Admin routes for login providers. No answer has a shared token, a signing secret, or the part of a URL
/// that may be one.
extension AdminRoutes {
    /// Lists the providers of the admin API and of the file, which overrides it.
    func listProviders(_ database: DatabaseID) throws -> Response {
        var names = Set(state.system.directory.providers.values.filter { $0.isOf(database) }.map(\.name))
        names.formUnion(configured.databases[database].map { Array($0.providers.keys) } ?? [])
        return Self.list("providers", try names.sorted().compactMap { try view(of: $0, database) })
    }

    func createProvider(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(request, known: ["name"] + Self.settings)
        guard let name = try body.text("name") else { throw AdminBody.missing("name") }
        try await state.putProvider(name, of: database, configuration: body.without("name"))
        return Self.made(["name": .string(name)])
    }

    func showProvider(_ name: String, _ database: DatabaseID) throws -> Response {
        guard let view = try view(of: name, database) else { throw Self.providerUnknown }
        return .json(JSONText.print(view).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Merges members into a provider's configuration (RFC 7396): null removes one, the members of
    /// `anonymous` are merged too. Everything that the request does not name stays, secrets above all.
    func changeProvider(_ request: Request, _ name: String, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(request, known: Self.settings)
        guard configured.databases[database]?.providers[name] == nil else {
            throw AuthGatewayError(
                .notPossible, "the file of --providers defines this provider; change it there")
        }
        guard let known = try state.configuration(of: name, in: database) else { throw Self.providerUnknown }
        try await state.putProvider(
            name, of: database, configuration: Self.merged(body.without(""), into: known.value),
            inPlaceOf: known.record)
        return try showProvider(name, database)
    }

    private static let settings = ["webhookUrl", "payload", "signingSecrets", "anonymous", "accounts"]

    private static var providerUnknown: AuthGatewayError {
        AuthGatewayError(.recordUnknown, "the database has no provider of this name")
    }

    /// A provider as an operator sees it; nil if there is none.
    private func view(of name: String, _ database: DatabaseID) throws -> Value? {
        let ofFile = configured.databases[database]?.providers[name]
        guard let provider = try ofFile ?? state.provider(name, of: database) else { return nil }
        let (kind, summary) = provider.summary
        var members: [(key: String, value: Value)] = [
            ("name", .string(name)), ("kind", .string(kind)), ("summary", .string(summary)),
            ("source", .string(ofFile == nil ? "admin" : "file")),
        ]
        switch provider {
        case .anonymous(let anonymous):
            members.append(
                (
                    "anonymous",
                    [
                        "permissions": Self.value(of: anonymous.grant),
                        "sessionLength": .int(anonymous.seconds),
                    ]
                ))
        case .webhook(let webhook):
            members.append(("webhookUrl", .string(webhook.shownURL)))
            members.append(("payload", .string(webhook.payload.rawValue)))
            members.append(("signingSecrets", .array(webhook.secrets.map { Self.view(of: $0) })))
        case .accounts(let accounts):
            members.append(
                (
                    "accounts",
                    [
                        "sessionLength": .int(accounts.seconds),
                        "mailWebhook": accounts.mailURL.map { .string(WebhookClient.shown($0)) } ?? .null,
                        "origin": accounts.origin.map { .string($0) } ?? .null,
                    ]
                ))
        case .apiKeys: break
        }
        return .object(ObjectValue(members))
    }

    /// A signing secret by its id and time of validity.
    private static func view(of secret: SigningSecret) -> Value {
        [
            "id": .string(id(ofSecret: Data(secret.key).base64EncodedString())),
            "notBefore": secret.notBefore == .min ? .null : .int(secret.notBefore),
            "notAfter": secret.notAfter == .max ? .null : .int(secret.notAfter),
        ]
    }

    /// A grant as the permissions object.
    static func value(of grant: Grant) -> Value {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        guard let bytes = try? encoder.encode(grant), let value = try? JSONText.parse(Array(bytes)) else {
            preconditionFailure("a grant is an object of texts and flags")
        }
        return value
    }

    private static func merged(_ change: Value, into value: Value) -> Value {
        guard let members = change.objectValue else { return change }
        var entries = value.objectValue?.entries.map { (key: $0.key, value: $0.value) } ?? []
        for (name, value) in members.entries {
            let old = entries.first { utf8Equal($0.key, name) }?.value
            entries.removeAll { entry in
                // One right replaces the other, in whichever form it is given.
                utf8Equal(entry.key, name)
                    || ["permission", "permissions"].contains(name)
                        && ["permission", "permissions"].contains(entry.key)
            }
            guard value != .null else { continue }
            // Rights are not merged with those before: a removed query must not stay.
            let isWhole = !["anonymous", "accounts"].contains(name)
            entries.append((name, isWhole ? value : merged(value, into: old ?? [:])))
        }
        return .object(ObjectValue(entries))
    }
}
