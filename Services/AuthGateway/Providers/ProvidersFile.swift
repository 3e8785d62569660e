import CRDT
import Foundation
import Identity
import Logging
import ServiceKit

/// The file of `--providers`: databases beside the development database, and the login providers of each.
///
/// ```json
/// {"databases": {"fleet": {
///     "development": false,
///     "providers": {
///         "my-auth": {"webhookUrl": "https://auth.example.org/ditto", "payload": "both",
///                     "signingSecrets": [{"secret": "BASE64", "notBefore": 1800000000}]},
///         "kiosk": {"anonymous": {"sharedToken": "…", "permission": "readOnly",
///                                 "sessionLength": 3600}}}}}}
/// ```
///
/// Members other than `databases` may be missing if the example shows their default. An unknown member is
/// refused by its name, since a misspelt one could give a right that nobody meant.
struct ProvidersFile: Sendable {
    /// Configuration of one database.
    struct Database: Sendable {
        /// True if logins with the development token are accepted; nil where the file does not say.
        var allowsDevelopment: Bool?
        var providers: [String: Provider] = [:]
    }

    /// By the database's id. Ids are ASCII, so equal texts have equal bytes.
    var databases: [DatabaseID: Database] = [:]

    /// A file without databases.
    static let empty = ProvidersFile()

    private init() {}

    /// - Throws: `AUTH-0503`, naming the place.
    init(path: String, logger: Logger) throws(AuthGatewayError) {
        guard let bytes = FileManager.default.contents(atPath: path) else {
            throw AuthGatewayError(.providersUnreadable, "--providers: the file \(path) cannot be read")
        }
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        if let mode = attributes?[.posixPermissions] as? Int, mode & 0o007 != 0 {
            logger.warning("everybody on this machine can read the secrets in \(path)")
        }
        do {
            try self.init(json: Array(bytes), logger: logger)
        } catch {
            throw AuthGatewayError(.providersUnreadable, "\(path): \(error.message)")
        }
    }

    /// - Throws: `AUTH-0503`, naming the place.
    init(json: [UInt8], logger: Logger) throws(AuthGatewayError) {
        let value: Value
        do {
            value = try JSONText.parse(json)
        } catch {
            throw AuthGatewayError(.providersUnreadable, "\(error)")
        }
        let top = try Members(value, "the file", ["databases"])
        guard let databases = top.values["databases"]?.objectValue else { throw top.wrong("databases") }
        for (text, value) in databases.entries {
            let id = DatabaseID(text)
            guard id.canBeMade else {
                throw AuthGatewayError(
                    .providersUnreadable, "databases: '\(id)' is not a database id: \(DatabaseID.form)")
            }
            self.databases[id] = try Self.database(value, "databases.\(id)", logger)
        }
    }

    /// Reads one provider of the admin API, with the same members as in the file.
    /// - Parameter isStored: true for one that was accepted before: what has come to be refused since is
    ///   logged, and shuts nobody out.
    /// - Throws: `AUTH-0401`, naming the place.
    static func provider(
        name: String, json: [UInt8], isStored: Bool = false, logger: Logger
    ) throws(AuthGatewayError) -> Provider {
        do throws(AuthGatewayError) {
            guard let value = try? JSONText.parse(json) else {
                throw AuthGatewayError(.providersUnreadable, "the provider must be JSON")
            }
            guard isName(name, of: value) else {
                throw AuthGatewayError(
                    .providersUnreadable, "'\(name)' cannot be the name of such a provider")
            }
            return try provider(name, value, "provider", isStored: isStored, logger)
        } catch {
            throw AuthGatewayError(.requestMalformed, error.message)
        }
    }

    /// Returns whether a provider may have this name: visible ASCII without '/'. An anonymous provider may
    /// replace `development`, a webhook may not, and no provider may have its old name.
    static func isName(_ name: String, of value: Value) -> Bool {
        !name.isEmpty && name.utf8.count <= Limits.providerNameBytes
            && name.utf8.allSatisfy { 0x21...0x7e ~= $0 && $0 != UInt8(ascii: "/") }
            && (!DevelopmentProvider.names.contains(name)
                || name == DevelopmentProvider.name && value["anonymous"] != nil)
    }

    private static func database(
        _ value: Value, _ place: String, _ logger: Logger
    ) throws(AuthGatewayError) -> Database {
        let members = try Members(value, place, ["development", "providers"])
        var database = Database()
        if let flag = members.values["development"] {
            guard let flag = flag.boolValue else { throw members.wrong("development") }
            database.allowsDevelopment = flag
        }
        guard let providers = members.values["providers"] else { return database }
        guard let providers = providers.objectValue else { throw members.wrong("providers") }
        for (name, value) in providers.entries {
            guard isName(name, of: value) else {
                throw AuthGatewayError(
                    .providersUnreadable,
                    "\(place).providers: '\(name)' cannot be the name of such a provider")
            }
            database.providers[name] = try provider(name, value, "\(place).providers.\(name)", logger)
        }
        return database
    }

    private static func provider(
        _ name: String, _ value: Value, _ place: String, isStored: Bool = false, _ logger: Logger
    ) throws(AuthGatewayError) -> Provider {
        if value["anonymous"] != nil {
            let members = try Members(value, place, ["anonymous"])
            return .anonymous(
                try anonymous(
                    name, members.values["anonymous"] ?? .null, "\(place).anonymous", isStored: isStored,
                    logger))
        }
        if value["accounts"] != nil {
            let members = try Members(value, place, ["accounts"])
            return .accounts(try accounts(name, members.values["accounts"] ?? .null, "\(place).accounts"))
        }
        let members = try Members(value, place, ["webhookUrl", "payload", "signingSecrets"])
        guard let text = members.values["webhookUrl"]?.stringValue, let url = URL(string: text),
            let scheme = url.scheme, ["http", "https"].contains(scheme), url.host?.isEmpty == false
        else { throw members.wrong("webhookUrl") }
        if scheme == "http" {
            logger.warning(
                "the webhook of a provider gets logins in plain text; use https",
                metadata: ["provider": "\(name)"])
        }
        var payload = WebhookProvider.Payload.both
        if let named = members.values["payload"] {
            guard let known = named.stringValue.flatMap({ WebhookProvider.Payload(rawValue: $0) }) else {
                throw members.wrong("payload")
            }
            payload = known
        }
        return .webhook(
            WebhookProvider(
                name: name, url: text, payload: payload, secrets: try secrets(members, place), logger: logger)
        )
    }

    private static func secrets(
        _ members: Members, _ place: String
    ) throws(AuthGatewayError) -> [SigningSecret] {
        guard let listed = members.values["signingSecrets"] else { return [] }
        guard let listed = listed.arrayValue else { throw members.wrong("signingSecrets") }
        var secrets: [SigningSecret] = []
        for (index, value) in listed.enumerated() {
            secrets.append(try secret(value, "\(place).signingSecrets[\(index)]"))
        }
        return secrets
    }

    private static func accounts(
        _ name: String, _ value: Value, _ place: String
    ) throws(AuthGatewayError) -> AccountsProvider {
        let members = try Members(value, place, ["sessionLength", "mailWebhook", "origin", "signingSecrets"])
        var provider = AccountsProvider(name: name)
        if let length = members.values["sessionLength"] {
            guard let seconds = length.intValue, 1...Int64(UInt32.max) ~= seconds else {
                throw members.wrong("sessionLength")
            }
            provider.seconds = seconds
        }
        func address(_ member: String) throws(AuthGatewayError) -> String? {
            guard let value = members.values[member] else { return nil }
            guard let text = value.stringValue, let url = URL(string: text), url.host?.isEmpty == false,
                ["http", "https"].contains(url.scheme ?? "")
            else { throw members.wrong(member) }
            return text
        }
        provider.mailURL = try address("mailWebhook")
        provider.origin = try address("origin").map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        // A link that a stranger has sent to somebody must not lead where the stranger's request says.
        guard provider.mailURL == nil || provider.origin != nil else { throw members.wrong("origin") }
        provider.secrets = try secrets(members, place)
        return provider
    }

    private static func anonymous(
        _ name: String, _ value: Value, _ place: String, isStored: Bool, _ logger: Logger
    ) throws(AuthGatewayError) -> AnonymousProvider {
        let members = try Members(
            value, place, ["sharedToken", "permission", "permissions", "sessionLength"])
        guard let token = members.values["sharedToken"]?.stringValue,
            token.utf8.count >= Limits.sharedTokenBytes
        else { throw members.wrong("sharedToken") }
        let length = members.values["sessionLength"] ?? .int(Limits.developmentSession.components.seconds)
        guard let seconds = length.intValue, 1...Int64(UInt32.max) ~= seconds else {
            throw members.wrong("sessionLength")
        }
        let grant: Grant
        switch (members.values["permission"]?.stringValue, members.values["permissions"]) {
        case ("readOnly"?, nil): grant = .readOnly
        case ("readWrite"?, nil): grant = .everything
        case (nil, let permissions?) where members.values["permission"] == nil:
            do {
                grant = try WebhookAnswer.grant(permissions, isStored: isStored)
                if isStored { warn(of: permissions, name, logger) }
            } catch {
                throw AuthGatewayError(.providersUnreadable, "\(place): \(error.reason)")
            }
        default: throw members.wrong("permission")
        }
        return AnonymousProvider(sharedToken: token, grant: grant, seconds: seconds, userID: name)
    }

    private static func warn(of permissions: Value, _ name: String, _ logger: Logger) {
        do {
            try Grant.requireKnownMembers(of: permissions)
        } catch {
            logger.warning(
                "a stored provider grants nothing for a member of its permissions; change them",
                metadata: ["provider": "\(name)", "reason": "\(error)"])
        }
    }

    private static func secret(_ value: Value, _ place: String) throws(AuthGatewayError) -> SigningSecret {
        let members = try Members(value, place, ["secret", "notBefore", "notAfter"])
        guard let text = members.values["secret"]?.stringValue, let key = Data(base64Encoded: text),
            key.count >= Limits.signingSecretBytes
        else { throw members.wrong("secret") }
        var secret = SigningSecret(key: Array(key))
        if let bound = members.values["notBefore"] {
            guard let seconds = bound.intValue else { throw members.wrong("notBefore") }
            secret.notBefore = seconds
        }
        if let bound = members.values["notAfter"] {
            guard let seconds = bound.intValue else { throw members.wrong("notAfter") }
            guard seconds > secret.notBefore else { throw members.wrong("notAfter") }
            secret.notAfter = seconds
        }
        return secret
    }

    /// The members of an object; unknown ones are refused.
    private struct Members {
        let values: ObjectValue
        private let place: String

        init(_ value: Value, _ place: String, _ known: Set<String>) throws(AuthGatewayError) {
            guard let values = value.objectValue else {
                throw AuthGatewayError(.providersUnreadable, "\(place) must be a JSON object")
            }
            if let unknown = values.entries.first(where: { !known.contains($0.key) }) {
                throw AuthGatewayError(.providersUnreadable, "\(place): unknown member '\(unknown.key)'")
            }
            self.values = values
            self.place = place
        }

        /// The error names the place but not the value, which may be a secret.
        func wrong(_ member: String) -> AuthGatewayError {
            AuthGatewayError(
                .providersUnreadable,
                "\(place).\(member) is missing or invalid; see the README of AuthGateway")
        }
    }
}
