import Hummingbird
import Identity
import Logging
import ServiceKit

/// Turns logins into access tokens, and publishes the keys that verify them.
///
/// Keeps databases, development tokens and signing keys in its folder (`StateFile`). On start it registers
/// every database with the operation log, which is where the other services learn that it exists.
public struct AuthGateway: ServicePart {
    /// The default port of a process of its own.
    public static let defaultPort = 4001
    /// `auth-gateway`.
    public let name = "auth-gateway"
    /// The database of the first start; the same after every restart.
    public let development: DevelopmentDatabase

    private let registry: DatabaseRegistry
    private let registerDatabase: @Sendable (String) async throws -> Void
    private let session: Duration
    private let nowSeconds: @Sendable () -> Int64
    private let logger: Logger

    /// Opens the state, and makes the development database on the very first start.
    /// - Parameters:
    ///   - folder: `DATA/auth`; made with mode 0700.
    ///   - session: how long a token of the development provider lasts.
    ///   - nowSeconds: seconds since 1970; the system's clock unless a test says otherwise.
    ///   - registerDatabase: makes a database known to the operation log; called for each on every start.
    /// - Throws: `AUTH-0501`, `AUTH-0502`.
    public init(
        folder: String, session: Duration = Limits.developmentSession,
        nowSeconds: @escaping @Sendable () -> Int64 = Authenticator.systemSeconds,
        logger: Logger = Logger(label: "auth-gateway"),
        registerDatabase: @escaping @Sendable (String) async throws -> Void
    ) throws {
        registry = try DatabaseRegistry(folder: folder)
        development = try registry.loadOrCreateDevelopment()
        self.session = session
        self.nowSeconds = nowSeconds
        self.logger = logger
        self.registerDatabase = registerDatabase
    }

    /// The keys that verify this gateway's tokens, for services in the same process.
    public var keySource: InMemoryKeySource { registry.publicKeys }

    /// Registers every database with the log.
    public func start() async throws {
        for id in registry.databaseIDs { try await registerDatabase(id) }
    }

    /// `POST /_ditto/auth/login` and `GET /_ditto/auth/jwks.json`.
    public func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/_ditto/auth/login") { request, _ in
            let body = try await request.wholeBody(limitBytes: Limits.loginBodyBytes)
            return .json(
                try login(LoginRequest(json: body.readableBytesView)).json(),
                headers: [.cacheControl: "no-store"])
        }
        mount.on(.get, "/_ditto/auth/jwks.json") { _, _ in
            .json(registry.publicKeys.current.json())
        }
    }

    private func login(_ request: LoginRequest) throws -> LoginAnswer {
        guard let secret = registry.developmentToken(of: request.databaseID) else {
            throw AuthGatewayError(.databaseUnknown, "there is no such database")
        }
        guard DevelopmentProvider.names.contains(request.provider) else {
            throw AuthGatewayError(.providerUnknown, "the database has no provider of this name")
        }
        guard DevelopmentProvider.accepts(request.token, secret: secret) else {
            logger.info(
                "login refused", metadata: ["database": "\(request.databaseID)", "provider": "development"])
            throw AuthGatewayError(.loginRefused, "the provider did not accept the token")
        }
        let now = nowSeconds()
        let seconds = session.components.seconds
        let identity = Identity(
            userID: DevelopmentProvider.userID, databaseID: request.databaseID, peerKey: request.peerKey,
            grant: .everything, expiresAtSeconds: now + seconds)
        let key = try registry.signingKey(of: request.databaseID)
        return LoginAnswer(
            accessToken: AccessToken.issue(identity, with: key, nowSeconds: now), expiresIn: seconds,
            userID: identity.userID)
    }
}
