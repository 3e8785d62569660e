import CRDT
import Hummingbird
import Identity
import Logging
import Machine
import ServiceKit

/// Turns logins into access tokens, publishes the keys that verify them, and keeps the list of databases.
///
/// Its whole state is in the system database on the log (`SystemDatabase`), which the other services follow.
/// Secrets there are sealed under a key in the gateway's folder. On start every database is registered with
/// the operation log.
public struct AuthGateway: ServicePart {
    /// The default port of its own process.
    public static let defaultPort = 4001
    /// `auth-gateway`.
    public let name = "auth-gateway"

    /// Options of a deployment.
    public struct Options: Sendable {
        /// Path of the file of login providers, see `ProvidersFile`. Its databases are created if necessary.
        public var providers: String?
        /// Path of the file with the key that seals the secrets; nil makes one in the folder.
        public var secretsKey: String?
        /// Path of the file with the admin credential; nil makes one in the folder.
        public var adminCredential: String?
        /// True if the last address of `X-Forwarded-For` is trusted; only for use behind a proxy.
        public var trustsProxy = false
        /// True if the listener speaks TLS: links that people get begin with `https` then.
        public var isSecure = false
        /// True if an operator accepts, with this start, that the log was put back.
        public var acceptsRestore = false
        /// True if logins with a development token are accepted where the file of providers says nothing.
        public var allowsDevelopment = true
        /// Lifetime of a token of the development provider.
        public var session: Duration = Limits.developmentSession

        /// The defaults.
        public init() {}
    }

    private let state: GatewayState
    private let legacy: LegacyStateFile
    private let providers: ProvidersFile
    private let registerDatabase: @Sendable (DatabaseID) async throws -> Void
    private let session: Duration
    private let nowSeconds: @Sendable () -> Int64
    private let logger: Logger
    private let limiter: AttemptLimiter
    private let admin: AdminRoutes
    private let tokenFile: SecretFile
    private let trustsProxy: Bool
    private let forwarding: ForwardingWatch
    private let acceptsRestore: Bool
    private let allowsDevelopment: Bool
    private let authenticator: Authenticator
    private let people: PeopleRoutes

    /// Reads the gateway's files, and makes missing secrets.
    /// - Parameters:
    ///   - folder: `DATA/auth`; created with mode 0700.
    ///   - system: must be open before the gateway starts (`SystemDatabasePart`).
    ///   - nowSeconds: seconds since 1970; the system's clock unless a test says otherwise.
    ///   - attemptClock: the clock for the limits of attempts.
    ///   - registerDatabase: registers a database with the operation log; called for each at every start.
    /// - Throws: `AUTH-0501` to `AUTH-0504`.
    public init(
        folder: String, system: SystemDatabase, options: Options = Options(),
        nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds,
        attemptClock: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        logger: Logger = Logger(label: "auth-gateway"),
        registerDatabase: @escaping @Sendable (DatabaseID) async throws -> Void
    ) throws {
        providers = try options.providers.map { try ProvidersFile(path: $0, logger: logger) } ?? .empty
        try SecretFile.makeFolder(folder)
        legacy = LegacyStateFile(folder: folder)
        if let found = try legacy.read() { try GatewayState.validate(found) }
        let key = SealingKey(
            path: options.secretsKey ?? "\(folder)/secrets.key", isOwn: options.secretsKey == nil)
        if key.exists { _ = try key.box(logger: logger) }
        let credential = SecretFile(
            path: options.adminCredential ?? "\(folder)/admin.token", isOwn: options.adminCredential == nil)
        state = GatewayState(system: system, sealingKey: key, logger: logger, nowSeconds: nowSeconds)
        limiter = AttemptLimiter(now: attemptClock)
        authenticator = Authenticator(system: system, nowSeconds: nowSeconds)
        // Made, or refused if others may read it; `AdminCredential` reads it again when it changes.
        _ = try credential.text(logger: logger)
        let book = AccountBook(
            state: state, hashes: HashPool(),
            limiter: AccountLimiter(system: system, digest: state.sealer.digest, nowSeconds: nowSeconds),
            mail: AccountMail(nowSeconds: nowSeconds, logger: logger), nowSeconds: nowSeconds)
        people = PeopleRoutes(
            book: book, links: AccountLinks(book: book, nowSeconds: nowSeconds),
            joins: Joins(state: state, nowSeconds: nowSeconds), configured: providers,
            authenticator: authenticator, limiter: limiter, trustsProxy: options.trustsProxy,
            isSecure: options.isSecure, nowSeconds: nowSeconds)
        admin = AdminRoutes(
            state: state, people: people,
            credential: AdminCredential(path: credential.path, system: system, nowSeconds: nowSeconds),
            limiter: limiter,
            trustsProxy: options.trustsProxy, nowSeconds: nowSeconds, configured: providers,
            registerDatabase: registerDatabase)
        trustsProxy = options.trustsProxy
        forwarding = ForwardingWatch(trustsProxy: options.trustsProxy, logger: logger)
        tokenFile = SecretFile(path: "\(folder)/development.token", isOwn: true)
        acceptsRestore = options.acceptsRestore
        allowsDevelopment = options.allowsDevelopment
        session = options.session
        self.nowSeconds = nowSeconds
        self.logger = logger
        self.registerDatabase = registerDatabase
    }

    /// The system database, for services of the same process.
    public var systemDatabase: SystemDatabase { state.system }

    /// The database of the first start; the same after every restart. Only valid after the start.
    public var development: DevelopmentDatabase {
        guard let first = state.first, let token = try? state.developmentToken(of: first.databaseID) else {
            preconditionFailure("a gateway that has started has its first database")
        }
        let isAccepted = providers.databases[first.databaseID]?.allowsDevelopment ?? allowsDevelopment
        return DevelopmentDatabase(
            id: first.id, token: token, tokenFile: tokenFile.path, isAccepted: isAccepted)
    }

    /// Imports the state of an earlier version, makes the first database, and registers all with the log.
    public func start() async throws {
        // First tries the key on every sealed secret: with a wrong key nothing may be changed.
        try await systemDatabase.waitingForLog { try await self.state.sealer.begin() }
        let found = try legacy.read()
        let configured = providers.databases.keys.sorted()
        try await systemDatabase.waitingForLog {
            try await self.state.prepare(found, configured: configured)
        }
        if let found {
            // Checked against the log, since the file is the only other copy.
            guard state.hasTakenOver(found) else {
                throw AuthGatewayError(
                    .stateUnusable, "state.json was not imported completely, so it is kept; start again")
            }
            try legacy.remove()
        }
        if acceptsRestore, systemDatabase.restoreNotice != nil {
            try await systemDatabase.acceptRestore(nowSeconds: nowSeconds())
        }
        try await systemDatabase.waitingForLog {
            for id in self.state.databaseIDs { try await self.registerDatabase(id) }
        }
        // For scripts: a token on a command line or in a stored output can be seen by others.
        let token = development.token
        if (try? tokenFile.read(logger: logger)) != token { try tokenFile.replace(with: token) }
    }

    /// `POST /_ditto/auth/login` and `/_ditto/auth/cert`, `GET /_ditto/auth/jwks.json`, `/admin/auth/…`.
    public func mount(on mount: inout ServiceMount) {
        let audit = systemDatabase.audit
        mount.on(.post, "/_ditto/auth/login") { request, context in
            forwarding.expected(of: request, context)
            var entry = audit.entry("login", .ok, request, context)
            do {
                // Nobody may get a credential that somebody revoked meanwhile.
                try systemDatabase.requireTrust()
                let login = try await login(of: request, context)
                (entry.database, entry.provider) = (login.databaseID.text, login.provider)
                entry.peer = login.peerKey
                let response = try await answer(
                    login, from: request.source(context, trustsProxy: trustsProxy), &entry)
                audit.note(entry)
                Measured.count("mimeo_auth_logins_total", [("result", entry.result.rawValue)])
                return response
            } catch {
                let isFailure = ErrorAnswer.reportable(error).httpStatus.code >= 500
                let result: AuditEntry.Result = isFailure ? .failed : .refused
                Measured.count("mimeo_auth_logins_total", [("result", result.rawValue)])
                audit.note(entry, error)
                throw error
            }
        }
        mount.on(.get, "/_ditto/auth/jwks.json") { _, _ in
            .json(state.keySet(nowSeconds: nowSeconds()).json())
        }
        mount.on(.post, "/_ditto/auth/cert") { request, context in
            var entry = audit.entry("certificate", .ok, request, context)
            do {
                let identity = try await authenticator.identity(for: request)
                (entry.user, entry.peer) = (identity.userID, identity.peerKey)
                entry.database = identity.databaseID.text
                let body = try await AdminBody(request, known: ["request"])
                guard let text = try body.text("request") else { throw AdminBody.missing("request") }
                let response = try await certify(identity, text)
                audit.note(entry)
                return response
            } catch {
                audit.note(entry, error)
                throw error
            }
        }
        people.mount(on: &mount)
        mount.on(.post, "/_ditto/auth/attachment-urls") { request, _ in
            try await AttachmentURLs(state: state, authenticator: authenticator, nowSeconds: nowSeconds)
                .respond(to: request)
        }
        admin.mount(on: &mount)
    }

    /// Reads a login. An address that sends many which nobody can read has to wait before its next one is
    /// read: there is no credential yet to which they could belong.
    private func login(of request: Request, _ context: ServiceContext) async throws -> LoginRequest {
        let address = request.source(context, trustsProxy: trustsProxy)
        let source = AttemptLimiter.Source.malformed(AttemptLimiter.network(of: address))
        try limiter.begin(source)
        // A slow body keeps nobody from logging in, so it does not count as in flight.
        limiter.end(source, .uncounted)
        do {
            let body = try await request.wholeBody(limitBytes: Limits.loginBodyBytes)
            return try LoginRequest(json: body.readableBytesView)
        } catch {
            limiter.end(source, ErrorAnswer.reportable(error).httpStatus.code < 500 ? .unknown : .uncounted)
            throw error
        }
    }

    /// Not ready while its key file is away: nothing can be sealed, and the next start would fail.
    public func readiness() async -> [Unreadiness] {
        guard !state.sealer.isKeyThere else { return [] }
        return [
            Unreadiness(
                part: name, code: ServiceErrorCode.keyFileUnusable.rawValue,
                message: "the file of the key that seals secrets is missing: restore it")
        ]
    }

    /// Issues the peer's certificate, and returns it with those of the currently valid authorities.
    private func certify(_ identity: Identity, _ request: String) async throws -> Response {
        let key = try await state.signingKey(of: identity.databaseID)
        let now = nowSeconds()
        let certificate = try PeerCertificate.issue(
            to: identity, request: request, with: key, nowSeconds: now)
        let authorities = try state.authorities(of: identity.databaseID, nowSeconds: now)
        let body: Value = [
            "certificate": .string(certificate.pem), "authorities": .array(authorities.map { .string($0) }),
        ]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Runs one attempt: counted as in flight at its beginning, and by its outcome at its end. Completes its
    /// entry of the audit.
    private func answer(
        _ request: LoginRequest, from address: String, _ entry: inout AuditEntry
    ) async throws -> Response {
        let from = AttemptLimiter.Source.address(AttemptLimiter.network(of: address))
        let to = AttemptLimiter.Source.provider(database: request.databaseID, name: request.provider)
        try limiter.begin(from, at: to)
        do {
            let (response, outcome) = try await answer(request, address, &entry)
            limiter.end(from, at: to, outcome)
            return response
        } catch {
            // An unreachable webhook or log is not the client's fault.
            let code = (error as? AuthGatewayError)?.code
            let isGuess = code == .databaseUnknown || code == .providerUnknown
            limiter.end(from, at: to, isGuess ? .unknown : .uncounted)
            throw error
        }
    }

    private func answer(
        _ request: LoginRequest, _ address: String, _ entry: inout AuditEntry
    ) async throws -> (Response, AttemptLimiter.Outcome) {
        let provider = try await knownProvider(for: request)
        let now = nowSeconds()
        switch try await provider.answer(request, from: address, people.book, nowSeconds: now) {
        case .refused(let clientInfo, let userID):
            let refusal = LoginRefusal(clientInfo: clientInfo)
            (entry.user, entry.result, entry.code) = (userID, .refused, refusal.error.publicCode)
            return (refusal.response, .refused)
        case .accepted(let login):
            entry.user = login.userID
            return (try await accept(login, of: request, now), .uncounted)
        }
    }

    private func accept(_ login: AcceptedLogin, of request: LoginRequest, _ now: Int64) async throws
        -> Response
    {
        let lifted = try checkRevocations(of: request, login.userID)
        // A token issued in the second of a lift must not look older than the lift.
        let issued = max(now, lifted + 1)
        let identity = Identity(
            userID: login.userID, databaseID: request.databaseID, peerKey: request.peerKey,
            grant: login.grant, expiresAtSeconds: now + login.seconds, issuedAtSeconds: issued,
            tokenID: login.tokenID ?? AccessToken.newID(), metadata: login.metadata)
        let key = try await state.signingKey(of: request.databaseID)
        let token = AccessToken.issue(identity, with: key, nowSeconds: issued)
        guard token.utf8.count <= AccessToken.maximumBytes else {
            logger.warning(
                "a provider grants more permissions than fit into a token",
                metadata: ["database": "\(request.databaseID)", "provider": "\(request.provider)"])
            throw AuthGatewayError(
                .providerAnswerInvalid,
                "the provider's answer is invalid; see the server's log for the reason")
        }
        state.noteEnd(now + login.seconds, in: request.databaseID)
        return LoginAnswer(
            accessToken: token, expiresIn: login.seconds, userID: login.userID,
            clientInfo: login.clientInfo
        ).response
    }

    /// As `provider(for:)`, but reads the log first if the provider is unknown: another gateway may have made
    /// the database or the provider a moment ago.
    private func knownProvider(for request: LoginRequest) async throws -> Provider {
        if let provider = try? provider(for: request) { return provider }
        try? await state.system.refresh()
        return try provider(for: request)
    }

    /// The time when the latest revocation of the user or peer was lifted; 0 if there was none.
    /// - Throws: `AUTH-0408` while a revocation holds.
    private func checkRevocations(
        of request: LoginRequest, _ userID: String
    ) throws(AuthGatewayError) -> Int64 {
        let directory = state.system.directory
        let names: [(Revocation.Subject, String?)] = [(.user, userID), (.peer, request.peerKey)]
        var latest: Int64 = 0
        for case (let subject, let name?) in names {
            guard let found = directory.revocation(of: subject, name, in: request.databaseID) else {
                continue
            }
            guard let lifted = found.liftedAtSeconds else {
                throw AuthGatewayError(
                    .loginRevoked, "this \(subject.rawValue) was revoked; an administrator may lift that")
            }
            latest = max(latest, lifted)
        }
        return latest
    }

    /// - Throws: `AUTH-0402`, `AUTH-0403`, `AUTH-0424`, `AUTH-0505`.
    private func provider(for request: LoginRequest) throws(AuthGatewayError) -> Provider {
        let secret = try state.developmentToken(of: request.databaseID)
        let configured = providers.databases[request.databaseID]
        let isDevelopment = DevelopmentProvider.names.contains(request.provider)
        let name = isDevelopment ? DevelopmentProvider.name : request.provider
        // Names are ASCII. Other texts that Swift considers equal to one are other names.
        if name.utf8.allSatisfy({ $0 < 0x80 }) {
            if let provider = configured?.providers[name] { return provider }
            if let provider = try state.provider(name, of: request.databaseID) { return provider }
        }
        if isDevelopment, let secret, configured?.allowsDevelopment ?? true {
            guard configured?.allowsDevelopment ?? allowsDevelopment else {
                throw AuthGatewayError(.developmentOff, Self.developmentOff)
            }
            return .anonymous(
                AnonymousProvider(
                    sharedToken: secret, grant: .everything, seconds: session.components.seconds,
                    userID: DevelopmentProvider.userID))
        }
        if utf8Equal(request.provider, KeyLogin.provider) { return .apiKeys }
        throw AuthGatewayError(.providerUnknown, "the database has no login provider of this name")
    }

    /// For whoever logs in, and for the log of a start.
    static let developmentOff =
        "the server listens beyond loopback or behind a proxy, so nobody logs in with a development token; "
        + "make accounts, or turn it on: --development-login, or MIMEO_DEVELOPMENT_LOGIN=true"
}
