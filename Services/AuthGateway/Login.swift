import CRDT
import Foundation
import Hummingbird
import Identity
import ServiceKit

/// `POST /_ditto/auth/login`.
struct LoginRequest: Sendable {
    var databaseID: DatabaseID
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
        self.databaseID = DatabaseID(databaseID)
        provider = body.provider
        token = body.token
        peerKey = body.peerKey
    }

    private static func malformed(_ message: String) -> AuthGatewayError {
        AuthGatewayError(.requestMalformed, message)
    }
}

/// The answer to a login that succeeded: 200. `clientInfo` is what a provider has for the application, an
/// empty object where it has nothing.
struct LoginAnswer {
    var accessToken: String
    var expiresIn: Int64
    var userID: String
    var clientInfo: Value?

    var response: Response {
        let body: Value = [
            "accessToken": .string(accessToken), "clientInfo": clientInfo ?? [:],
            "expiresIn": .int(expiresIn), "userID": .string(userID),
        ]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }
}

/// The answer to a login that the provider has refused: 401, with what it has for the application.
struct LoginRefusal {
    var clientInfo: Value?

    var response: Response {
        let error = AuthGatewayError(.loginRefused, "the provider did not accept the token")
        var members: [(key: String, value: Value)] = [
            ("error", ["code": .string(error.publicCode), "message": .string(error.publicMessage)])
        ]
        if let clientInfo { members.append(("clientInfo", clientInfo)) }
        return .json(
            JSONText.print(.object(ObjectValue(members))).utf8, status: error.httpStatus,
            headers: [.cacheControl: "no-store"])
    }
}

/// The provider for development: whoever has the database's development token may do everything.
enum DevelopmentProvider {
    /// The name of 5.x and the one of 4.x on the wire.
    static let names: Set<String> = ["development", "__playgroundProvider"]
    /// What it is called where it is configured.
    static let name = "development"
    /// One user: the token says nothing about who holds it.
    static let userID = "development"
}
