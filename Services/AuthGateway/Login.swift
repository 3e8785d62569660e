import Foundation
import Identity

/// `POST /_ditto/auth/login`.
struct LoginRequest: Sendable {
    var databaseID: String
    var provider: String
    var token: String
    var peerKey: String?

    private struct Body: Decodable {
        var databaseID: String?
        var appID: String?
        var provider: String
        var token: String
        var peerKey: String?
    }

    /// Reads `{databaseID|appID, provider, token, peerKey?}`; further members are ignored.
    /// - Throws: `AUTH-0401`.
    init(json: some Sequence<UInt8>) throws(AuthGatewayError) {
        guard let body = try? JSONDecoder().decode(Body.self, from: Data(json)) else {
            throw Self.malformed("a login is JSON with the texts databaseID, provider and token")
        }
        guard let databaseID = body.databaseID ?? body.appID, body.appID ?? databaseID == databaseID else {
            throw Self.malformed("a login names one database, as databaseID or appID")
        }
        if let peerKey = body.peerKey {
            do {
                try PeerKey.validate(publicKeyString: peerKey)
            } catch {
                throw Self.malformed(error.message)
            }
        }
        self.databaseID = databaseID
        provider = body.provider
        token = body.token
        peerKey = body.peerKey
    }

    private static func malformed(_ message: String) -> AuthGatewayError {
        AuthGatewayError(.requestMalformed, message)
    }
}

/// The answer to a login that succeeded. `clientInfo` is what a provider has for the application; the
/// development provider has nothing, an empty object.
struct LoginAnswer: Encodable {
    var accessToken: String
    var expiresIn: Int64
    var userID: String
    var clientInfo: [String: String] = [:]

    func json() -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts and integers always encode.
        return [UInt8]((try? encoder.encode(self)) ?? Data())
    }
}

/// The provider for development: whoever has the database's development token may do everything.
enum DevelopmentProvider {
    /// The name of 5.x and the one of 4.x on the wire.
    static let names: Set<String> = ["development", "__playgroundProvider"]
    /// One user: the token says nothing about who holds it.
    static let userID = "development"

    /// Compares in a time that depends on the length of what was sent and on nothing else.
    static func accepts(_ token: String, secret: String) -> Bool {
        let sent = Array(token.utf8)
        let kept = Array(secret.utf8)
        var difference = UInt64(truncatingIfNeeded: sent.count ^ kept.count)
        for index in sent.indices { difference |= UInt64(sent[index] ^ kept[index % kept.count]) }
        return difference == 0 && !kept.isEmpty
    }
}
