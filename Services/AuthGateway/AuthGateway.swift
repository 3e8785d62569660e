import CRDT
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
    private let providers: ProvidersFile
    private let registerDatabase: @Sendable (String) async throws -> Void
    private let session: Duration
    private let nowSeconds: @Sendable () -> Int64
    private let logger: Logger

    /// Opens the state, and makes the development database on the very first start.
    /// - Parameters:
    ///   - folder: `DATA/auth`; made with mode 0700.
    ///   - providers: path of the file that says who may log in to which databases beside the development
    ///     provider's users, see `ProvidersFile`; its databases are made if need be.
    ///   - session: how long a token of the development provider lasts.
    ///   - nowSeconds: seconds since 1970; the system's clock unless a test says otherwise.
    ///   - registerDatabase: makes a database known to the operation log; called for each on every start.
    /// - Throws: `AUTH-0501` to `AUTH-0503`.
    public init(
        folder: String, providers: String? = nil, session: Duration = Limits.developmentSession,
        nowSeconds: @escaping @Sendable () -> Int64 = Authenticator.systemSeconds,
        logger: Logger = Logger(label: "auth-gateway"),
        registerDatabase: @escaping @Sendable (String) async throws -> Void
    ) throws {
        self.providers = try providers.map { try ProvidersFile(path: $0, logger: logger) } ?? .empty
        registry = try DatabaseRegistry(folder: folder)
        development = try registry.loadOrCreateDevelopment()
        try registry.ensure(self.providers.databases.keys.sorted())
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
            return try await login(LoginRequest(json: body.readableBytesView))
        }
        mount.on(.get, "/_ditto/auth/jwks.json") { _, _ in
            .json(registry.publicKeys.current.json())
        }
    }

    private func login(_ request: LoginRequest) async throws -> Response {
        let provider = try provider(for: request)
        let now = nowSeconds()
        switch try await provider.answer(request, nowSeconds: now) {
        case .refused(let clientInfo):
            logger.info(
                "login refused",
                metadata: ["database": "\(request.databaseID)", "provider": "\(request.provider)"])
            return LoginRefusal(clientInfo: clientInfo).response
        case .accepted(let login):
            let identity = Identity(
                userID: login.userID, databaseID: request.databaseID, peerKey: request.peerKey,
                grant: login.grant, expiresAtSeconds: now + login.seconds)
            let key = try registry.signingKey(of: request.databaseID)
            let token = AccessToken.issue(identity, with: key, nowSeconds: now)
            return LoginAnswer(
                accessToken: token, expiresIn: login.seconds, userID: login.userID,
                clientInfo: login.clientInfo
            ).response
        }
    }

    /// - Throws: `AUTH-0402`, `AUTH-0403`.
    private func provider(for request: LoginRequest) throws(AuthGatewayError) -> Provider {
        guard let secret = registry.developmentToken(of: request.databaseID) else {
            throw AuthGatewayError(.databaseUnknown, "there is no such database")
        }
        let configured = providers.databases[request.databaseID]
        if DevelopmentProvider.names.contains(request.provider), configured?.allowsDevelopment ?? true {
            return .anonymous(
                AnonymousProvider(
                    sharedToken: secret, grant: .everything, seconds: session.components.seconds,
                    userID: DevelopmentProvider.userID))
        }
        // Names are ASCII: whatever else would be equal to one in Swift is another name.
        guard request.provider.utf8.allSatisfy({ $0 < 0x80 }),
            let provider = configured?.providers[request.provider]
        else { throw AuthGatewayError(.providerUnknown, "the database has no provider of this name") }
        return provider
    }
}
