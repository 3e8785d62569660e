import CRDT
import Foundation
import Identity
import Logging
import Machine
import Synchronization

/// Called when a login is needed (`secondsRemaining` is 0), and again before a session ends.
public typealias DittoAuthenticationExpirationHandler =
    (_ ditto: Ditto, _ secondsRemaining: TimeInterval) async -> Void

/// The login status of an instance.
public struct DittoAuthenticationStatus: Equatable, Sendable {
    /// True if there is a session that has not expired.
    public var isAuthenticated: Bool
    /// The provider's name for the user.
    public var userID: String?
}

/// The provider that checks the token of a login.
public struct DittoAuthenticationProvider: Hashable, Sendable, ExpressibleByStringLiteral {
    let name: String

    /// A provider configured on the server, by its name.
    public init(stringLiteral value: String) { name = value }

    /// The provider that accepts the database's development token.
    public static var development: DittoAuthenticationProvider { "development" }
}

/// Logs in to the server, and keeps the session until it ends.
///
/// `state` guards everything that changes. It is never held across a wait or a call of the application. A
/// task that needs a session waits in `token()`, which calls the application's handler until there is a
/// session, with growing pauses.
public final class DittoAuthenticator: Sendable {
    private struct State {
        var handler: Handler<DittoAuthenticationExpirationHandler>?
        var session: StoredSession?
        var loginsUnderWay = 0
        /// A login that began before a logout no longer counts.
        var logouts = 0
        var lastFailure: Failure?
        var renewal: Task<Void, Never>?
        var nextObserver = 0
        var observers: [Int: Handler<(DittoAuthenticationStatus) -> Void>] = [:]
        var told: DittoAuthenticationStatus?
        /// The server's public key, as the last login said. A logout leaves it.
        var serverKey: String?
        /// Called when there is a newer session, for the active connection.
        var whenRenewed: (@Sendable () -> Void)?
    }

    /// The store's public key.
    let peerKey: String
    let owner = Owner()
    private let server: ServerAddresses
    private let databaseID: String
    private let files: IdentityFiles
    private let logger: Logger
    private let state: Mutex<State>
    /// Held while the session and its files change together. Lock order: before `state`.
    private let keeping = Mutex(())
    private let changes = ChangeSignal()

    init(server: ServerAddresses, databaseID: String, files: IdentityFiles, logger: Logger) throws(SDKError) {
        self.server = server
        self.databaseID = databaseID
        self.files = files
        self.logger = logger
        peerKey = try files.peerKey().publicKeyString
        var state = State()
        if let kept = files.session(), kept.databaseID == databaseID, kept.login == server.login {
            state.session = kept
            state.serverKey = files.certificate()?.serverKey
        }
        self.state = Mutex(state)
    }

    /// The application's handler, which logs in. Must be set before sync is started.
    public var expirationHandler: DittoAuthenticationExpirationHandler? {
        get { state.withLock { $0.handler }?.call }
        set {
            let handler = newValue.map(Handler.init)
            state.withLock { $0.handler = handler }
            changes.advance()
        }
    }

    /// The present login status.
    public var status: DittoAuthenticationStatus {
        state.withLock { Self.status($0) }
    }

    /// Calls a handler, on the main queue where it is served, with each new status until the returned
    /// observer is stopped or dropped.
    public func observeStatus(
        _ handler: @escaping (DittoAuthenticationStatus) -> Void
    ) -> DittoObserver {
        let handler = Handler(handler)
        let number = state.withLock { state in
            state.nextObserver += 1
            state.observers[state.nextObserver] = handler
            state.told = state.told ?? Self.status(state)
            return state.nextObserver
        }
        return DittoObserver { [weak self] in
            self?.state.withLock { state in _ = state.observers.removeValue(forKey: number) }
        }
    }

    /// Ends the session: sync stops, the session and the credential of a join are forgotten, documents stay.
    /// - Parameter cleanup: called last; may evict documents that the next user must not see.
    public func logout(cleanup: ((Ditto) -> Void)? = nil) {
        let ditto = owner.ditto
        ditto?.sync.stop()
        state.withLock { $0.logouts += 1 }
        set(nil)
        try? files.save(deviceKey: nil)
        logger.info("logged out")
        if let ditto { cleanup?(ditto) }
    }
}

// MARK: - Logging in

extension DittoAuthenticator {
    /// Logs in. Returns JSON text: the provider's information for the application.
    /// - Throws: `authenticationError(.failedToAuthenticate)`; `CancellationError` when the task is
    ///   cancelled before the server has answered, or on a logout meanwhile.
    @discardableResult
    public func login(token: String, provider: DittoAuthenticationProvider) async throws -> String? {
        do {
            return try await logIn(token, provider.name, after: state.withLock { $0.logouts })
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// As above, but reports the outcome to a closure, on the main queue where it is served: the provider's
    /// information, and the error of a failed login. A provider may send information with a refusal too.
    public func login(
        token: String, provider: DittoAuthenticationProvider,
        completion: @escaping (String?, DittoSwiftError?) -> Void
    ) {
        let completion = Handler(completion)
        // Counted here and not in the task, so that no other login is requested in between.
        let logouts = state.withLock { state in
            state.loginsUnderWay += 1
            return state.logouts
        }
        Task {
            defer { ended() }
            do {
                let clientInfo = try await logIn(token, provider.name, after: logouts)
                DefaultDelivery.shared.async { completion.call(clientInfo, nil) }
            } catch {
                let (clientInfo, failure) = ((error as? SDKError)?.clientInfo, Failure(error).publicError)
                DefaultDelivery.shared.async { completion.call(clientInfo, failure) }
            }
        }
    }

    /// As above, with the provider's name. `__playgroundProvider` is the development provider's name in 4.x.
    public func login(
        token: String, provider: String, completion: @escaping (String?, DittoSwiftError?) -> Void
    ) {
        login(
            token: token, provider: DittoAuthenticationProvider(stringLiteral: provider),
            completion: completion)
    }

    /// - Parameter logouts: the number of logouts when the login was requested.
    /// - Throws: `CancellationError` also on a logout meanwhile.
    private func logIn(_ token: String, _ provider: String, after logouts: Int) async throws -> String? {
        state.withLock { $0.loginsUnderWay += 1 }
        defer { ended() }
        let request = LoginRequest(databaseID: databaseID, provider: provider, token: token, peerKey: peerKey)
        logger.debug("logging in", metadata: ["provider": "\(provider)"])
        do {
            let answer = try await request.send(to: server.login)
            let now = SystemClock.exactSeconds()
            let session = StoredSession(
                databaseID: databaseID, login: server.login, accessToken: answer.accessToken,
                userID: answer.userID, startedAt: now, expiresAt: now + answer.lifetimeSeconds)
            guard set(session, where: { $0.logouts == logouts }) else { throw CancellationError() }
            state.withLock { $0.lastFailure = nil }
            logger.info(
                "logged in", metadata: ["provider": "\(provider)", "seconds": "\(answer.lifetimeSeconds)"])
            await certify(session)
            return answer.clientInfo
        } catch let error as CancellationError {
            // Sync was stopped or the instance closed. This is not a failure and must not replace the last
            // one.
            throw error
        } catch {
            state.withLock { $0.lastFailure = Failure(error) }
            logger.warning("login failed", metadata: ["provider": "\(provider)", "error": "\(error)"])
            throw error
        }
    }

    /// As the public one; the handler is called at once.
    /// - Throws: the server's codes; `SDK-0302` to `SDK-0304`, `SDK-0307`, `SDK-0401`; `CancellationError`.
    package func join(
        _ deviceName: String, onCode: @escaping @Sendable (DittoJoinCode) -> Void
    ) async throws {
        let logouts = state.withLock { $0.logouts }
        let provider = DittoAuthenticationProvider.apiKey.name
        if let key = files.deviceKey() {
            do {
                _ = try await logIn(key, provider, after: logouts)
                return
            } catch let error as SDKError where error.code == "AUTH-0404" {
                // Somebody has removed the device.
                try files.save(deviceKey: nil)
            }
        }
        do {
            let request = JoinRequest(databaseID: databaseID, name: deviceName, peerKey: peerKey)
            let codes = try await request.begin(besides: server.login)
            onCode(codes.shown)
            try files.save(deviceKey: try await JoinRequest.key(for: codes, besides: server.login))
        } catch let error as SDKError {
            state.withLock { $0.lastFailure = Failure(error) }
            throw error
        }
        guard let key = files.deviceKey() else { return }
        _ = try await logIn(key, provider, after: logouts)
    }

    /// Requests the certificate for a session. Without it the session works, but not with other peers while
    /// the server cannot be reached.
    private func certify(_ session: StoredSession) async {
        do {
            let request = CertificateRequest(accessToken: session.accessToken, key: try files.peerKey())
            let certificate = try await request.send(besides: session.login)
            try keeping.withLock { _ in
                // Skip the certificate if there was a logout or another login meanwhile.
                guard state.withLock({ $0.session == session }) else { return }
                try files.save(certificate)
                let serverKey = certificate.serverKey
                state.withLock { $0.serverKey = serverKey ?? $0.serverKey }
            }
        } catch {
            logger.notice("no certificate for this login", metadata: ["error": "\(error)"])
        }
    }

    private func ended() {
        state.withLock { $0.loginsUnderWay -= 1 }
        changes.advance()
    }

    /// Stores or clears the session if `isMeant`; returns whether it did.
    @discardableResult
    private func set(_ session: StoredSession?, where isMeant: (State) -> Bool = { _ in true }) -> Bool {
        let isCurrent = keeping.withLock { _ in
            guard state.withLock({ isMeant($0) }) else { return false }
            do {
                try files.save(session)
                if session == nil { files.removeCertificate() }
            } catch {
                // The session works, but not after a restart.
                logger.warning("the session cannot be stored", metadata: ["error": "\(error)"])
            }
            state.withLock { $0.session = session }
            return true
        }
        guard isCurrent else { return false }
        if session != nil { state.withLock { $0.whenRenewed }?() }
        tell()
        changes.advance()
        return true
    }

    /// Calls the observers for which the status has changed.
    private func tell() {
        state.withLock { state in
            let status = Self.status(state)
            guard status != state.told, !state.observers.isEmpty else { return }
            state.told = status
            for number in state.observers.keys {
                DefaultDelivery.shared.async { [weak self] in
                    // Looked up again: the observer may have been stopped meanwhile.
                    self?.state.withLock { $0.observers[number] }?.call(status)
                }
            }
        }
    }

    private static func status(_ state: State) -> DittoAuthenticationStatus {
        guard let session = state.session, session.expiresAt > SystemClock.exactSeconds() else {
            return DittoAuthenticationStatus(isAuthenticated: false, userID: nil)
        }
        return DittoAuthenticationStatus(isAuthenticated: true, userID: session.userID)
    }
}

// MARK: - For sync

extension DittoAuthenticator {
    var hasHandler: Bool { state.withLock { $0.handler != nil } }

    /// The error of the last login; nil if it succeeded.
    package var lastFailure: Failure? { state.withLock { $0.lastFailure } }

    /// The server's public key, `pk…`: that of the authority which signs the database's tokens and
    /// certificates. Nil before the first login.
    var serverKey: String? { state.withLock { $0.serverKey } }

    /// The token of a session that has not expired. Waits for one, and requests a login meanwhile.
    func token() async throws -> String {
        var pause = Limits.firstLoginPause
        while true {
            try Task.checkCancellation()
            if let token = validToken() { return token }
            await askForLogin(secondsRemaining: 0, pause: pause)
            pause = min(pause * 2, Limits.longestLoginPause)
        }
    }

    /// The newest token; nil if its session has expired.
    var newestToken: String? {
        state.withLock { state in
            guard let session = state.session, session.expiresAt > SystemClock.exactSeconds() else {
                return nil
            }
            return session.accessToken
        }
    }

    /// The proof for a server that this store holds the key that its token names; nil for a malformed
    /// challenge.
    func proof(of challenge: String, _ token: String) -> [UInt8]? {
        guard let challenge = PeerChallenge(challenge), let key = try? files.peerKey() else { return nil }
        return challenge.answer(with: key, databaseID: DatabaseID(databaseID), token: token)
    }

    /// Calls `body` after each later login, so that the connection continues under the new token.
    func whenRenewed(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.whenRenewed = body } }

    /// The server does not accept a token, or no longer does.
    func tokenWasRefused(_ token: String, _ reason: String) {
        guard set(nil, where: { $0.session?.accessToken == token }) else { return }
        logger.notice("the session has ended", metadata: ["reason": "\(reason)"])
    }

    /// Requests a new session before the present one ends, until `endRenewing`.
    func beginRenewing() {
        state.withLock { state in
            state.renewal = state.renewal ?? Task { [weak self] in await self?.renew() }
        }
    }

    func endRenewing() {
        state.withLock { state in
            state.renewal?.cancel()
            state.renewal = nil
        }
    }

    private func validToken() -> String? {
        tell()
        return newestToken
    }

    /// Calls the handler. Returns when there is a new session, or after `pause` when no login is in flight.
    private func askForLogin(secondsRemaining: TimeInterval, pause: Duration) async {
        let (handler, before) = state.withLock { ($0.handler, $0.session) }
        logger.debug(
            "the application is asked to log in", metadata: ["secondsRemaining": "\(secondsRemaining)"])
        if let handler, let ditto = owner.ditto { await handler.call(ditto, secondsRemaining) }
        let earliest = ContinuousClock.now + pause
        while !Task.isCancelled {
            let version = changes.version
            let (session, isBusy) = state.withLock { ($0.session, $0.loginsUnderWay > 0) }
            if session != before, session != nil { return }
            let left = earliest - ContinuousClock.now
            if left <= .zero, !isBusy { return }
            await changes.wait(after: version, atMost: max(left, Limits.firstLoginPause))
        }
    }

    private func renew() async {
        var pause = Limits.firstLoginPause
        while !Task.isCancelled {
            let version = changes.version
            guard let session = state.withLock({ $0.session }) else {
                // `token()` requests the first login.
                await changes.wait(after: version, atMost: .seconds(3_600))
                continue
            }
            let remaining = session.expiresAt - SystemClock.exactSeconds()
            let lead = Self.lead(of: session)
            guard remaining > 0 else {
                tell()
                await changes.wait(after: version, atMost: .seconds(3_600))
                continue
            }
            guard remaining <= lead else {
                pause = Limits.firstLoginPause
                // Short enough to notice that the clock was set.
                await changes.wait(after: version, atMost: .seconds(min(remaining - lead + 0.01, 60)))
                continue
            }
            await askForLogin(secondsRemaining: remaining, pause: min(pause, .seconds(remaining)))
            pause = min(pause * 2, Limits.longestLoginPause)
        }
    }

    /// The time before a session's end at which it is renewed, in seconds.
    static func lead(of session: StoredSession) -> TimeInterval {
        let life = session.expiresAt - session.startedAt
        let least = min(Double(Limits.renewalLead.components.seconds), life / 2)
        return max(life * Limits.renewalFraction, least)
    }
}
