import CRDT
import Hummingbird
import Identity
import ServiceKit

/// The body of `POST /_ditto/auth/login`.
struct LoginRequest: Sendable {
    var databaseID: DatabaseID
    var provider: String
    var token: String
    var peerKey: String?

    /// Reads `{databaseID|appID, provider, token, peerKey?}`; no other member is taken.
    /// - Throws: `AUTH-0401`.
    init(json: some Sequence<UInt8>) throws(AuthGatewayError) {
        let members: ObjectValue
        do {
            members = try RequestObject(
                json, known: ["databaseID", "appID", "provider", "token", "peerKey"],
                values: Limits.loginValues
            ).members
        } catch {
            throw Self.malformed(error.message)
        }
        func text(_ name: String) throws(AuthGatewayError) -> String? {
            guard let value = members[name], value != .null else { return nil }
            guard let text = value.stringValue else { throw Self.malformed("\(name) must be a string") }
            return text
        }
        let (named, appID) = (try text("databaseID"), try text("appID"))
        guard let databaseID = named ?? appID, appID ?? databaseID == databaseID else {
            throw Self.malformed("the login must name one database, as databaseID or appID")
        }
        guard let provider = try text("provider"), let token = try text("token") else {
            throw Self.malformed("the login must have the strings provider and token")
        }
        let peerKey = try text("peerKey")
        if let peerKey {
            do {
                try PeerKey.validate(publicKeyString: peerKey)
            } catch {
                throw Self.malformed(error.message)
            }
        }
        self.databaseID = DatabaseID(databaseID)
        self.provider = provider
        self.token = token
        self.peerKey = peerKey
    }

    private static func malformed(_ message: String) -> AuthGatewayError {
        AuthGatewayError(.requestMalformed, message)
    }
}

/// The answer to a successful login: 200. `clientInfo` is the provider's data for the application; an empty
/// object if there is none.
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

/// The answer to a login that the provider refused: 401, with the provider's data for the application.
struct LoginRefusal {
    var clientInfo: Value?
    let error = AuthGatewayError(.loginRefused, "the provider did not accept the token")

    var response: Response {
        var members: [(key: String, value: Value)] = [
            ("error", ["code": .string(error.publicCode), "message": .string(error.publicMessage)])
        ]
        if let clientInfo { members.append(("clientInfo", clientInfo)) }
        return .json(
            JSONText.print(.object(ObjectValue(members))).utf8, status: error.httpStatus,
            headers: [.cacheControl: "no-store"])
    }
}

/// The provider for development: a login with the database's development token may do everything.
enum DevelopmentProvider {
    /// The names on the wire, in 5.x and in 4.x.
    static let names: Set<String> = ["development", "__playgroundProvider"]
    /// The name in configurations.
    static let name = "development"
    /// One user for all logins: the token does not identify its holder.
    static let userID = "development"
}
