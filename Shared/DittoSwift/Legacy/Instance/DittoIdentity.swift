import CRDT
import Foundation

/// The server or peers that an instance of the 4.x API syncs with, and its way to log in.
@available(*, deprecated, message: "Use DittoConfig with Ditto.open(config:)")
public enum DittoIdentity {
    /// No server; as `DittoConfigConnect.smallPeersOnly()`. Any text is an application's id.
    case offlinePlayground(appID: String? = nil, siteID: UInt64? = nil)
    /// A server, with the login of its development token. `enableDittoCloudSync` has no meaning: an instance
    /// needs the server's URL, here or in the environment, whether it is true or false.
    case onlinePlayground(
        appID: String, token: String, enableDittoCloudSync: Bool = true, customAuthURL: URL? = nil)
    /// A server, with logins by the delegate, which is held as long as the instance.
    case onlineWithAuthentication(
        appID: String, authenticationDelegate: any DittoAuthenticationDelegate,
        enableDittoCloudSync: Bool = true, customAuthURL: URL? = nil)
    /// No server; as `DittoConfigConnect.smallPeersOnly(privateKey:)`.
    case sharedKey(appID: String, sharedKey: String, siteID: UInt64? = nil)
    /// Certificates of the original's portal. An instance with it does not open.
    case manual(certificateConfig: String)

    /// As `offlinePlayground`, its name in 1.0.
    public static func development(appID: String) -> DittoIdentity { .offlinePlayground(appID: appID) }

    /// As `offlinePlayground`, its name before 1.0.
    public static func development(appName: String) -> DittoIdentity { .offlinePlayground(appID: appName) }
}

@available(*, deprecated, message: "Use DittoConfig with Ditto.open(config:)")
extension DittoIdentity {
    /// The variable with the server's URL, for identities that name none.
    static let serverVariable = "MIMEO_SERVER_URL"
    /// The folder of an instance that names none, as in 4.x.
    static let folder = "ditto"

    /// The id as the application gave it.
    var appID: String {
        switch self {
        case .offlinePlayground(let id, _): id ?? DittoConfig.default.databaseID
        case .onlinePlayground(let id, _, _, _), .onlineWithAuthentication(let id, _, _, _),
            .sharedKey(let id, _, _):
            id
        case .manual: ""
        }
    }

    /// The same as a configuration.
    /// - Throws: `SDK-0102` without a server's URL, `SDK-0108` for `manual`.
    func configuration(
        _ directory: URL, environment: [String: String]
    ) throws(SDKError) -> DittoConfig {
        func config(_ connect: DittoConfigConnect, _ id: String) -> DittoConfig {
            DittoConfig(databaseID: id, connect: connect, persistenceDirectory: directory)
        }
        switch self {
        case .offlinePlayground: return config(.smallPeersOnly(), Self.databaseID(appID))
        case .sharedKey(_, let key, _):
            return config(.smallPeersOnly(privateKey: key), Self.databaseID(appID))
        case .onlinePlayground(_, _, _, let url), .onlineWithAuthentication(_, _, _, let url):
            let known = environment[Self.serverVariable].flatMap { URL(string: $0) }
            if let url = url ?? known { return config(.server(url: url), appID) }
            // Also without cloud sync: a peer without a server would link in the clear and trust everybody.
            throw SDKError(
                .serverURLInvalid,
                "the identity names no server: pass customAuthURL, or set \(Self.serverVariable);"
                    + " webSocketURLs of a transport configuration name no server to log in to")
        case .manual:
            throw SDKError(
                .identityUnsupported,
                "a manual identity holds certificates of another server; use onlineWithAuthentication, or"
                    + " sharedKey without a server")
        }
    }

    /// Connects the login.
    func attach(to ditto: Ditto) {
        switch self {
        case .onlinePlayground(_, let token, _, _):
            ditto.auth?.expirationHandler = { ditto, _ in
                // A failure is in the log; sync asks again.
                _ = try? await ditto.auth?.login(token: token, provider: .development)
            }
        case .onlineWithAuthentication(_, let delegate, _, _):
            ditto.auth?.expirationHandler = { ditto, secondsRemaining in
                guard let authenticator = ditto.auth else { return }
                if secondsRemaining > 0 {
                    delegate.authenticationExpiringSoon(
                        authenticator: authenticator, secondsRemaining: Int64(secondsRemaining.rounded(.up)))
                } else {
                    delegate.authenticationRequired(authenticator: authenticator)
                }
            }
        case .offlinePlayground, .sharedKey, .manual: break
        }
    }

    /// A database's id for an application's: the same where it can be one, else made of it.
    private static func databaseID(_ text: String) -> String {
        guard !DatabaseID(text).isValid else { return text }
        let bytes = Array(text.utf8)
        return "app-" + String(hash64(bytes), radix: 16) + String(hash64(bytes, seed: 1), radix: 16)
    }
}
