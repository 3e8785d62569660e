import CRDT
import Hummingbird
import Identity
import Logging
import Machine
import NIOHTTP1
import Synchronization
import WebSocket

/// Turns the bearer text of a request, an access token or an API key, into an identity. Shared by all
/// requests of a process. The lock guards the verifier with its cache of accepted tokens and is never held
/// across a wait.
///
/// With a system database every identity is checked against it at each use. A revocation, a deleted database
/// or a retired signing key takes effect as soon as this process has read it from the log.
public final class Authenticator: Sendable {
    private let source: any KeySource
    /// The source of revocations, API keys and deletions; nil if there is none.
    public let system: SystemDatabase?
    private let verifier: Mutex<TokenVerifier>
    private let nowSeconds: @Sendable () -> Int64

    /// - Parameters:
    ///   - source: the source of public keys.
    ///   - system: the source of revocations and API keys; with nil there are none of either.
    ///   - nowSeconds: seconds since 1970; the system's clock unless a test says otherwise.
    public init(
        source: any KeySource, system: SystemDatabase? = nil,
        nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds
    ) {
        self.source = source
        self.system = system
        self.nowSeconds = nowSeconds
        verifier = Mutex(TokenVerifier())
    }

    /// An authenticator that takes keys, API keys and revocations from the system database.
    public convenience init(
        system: SystemDatabase, nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds
    ) {
        self.init(source: system, system: system, nowSeconds: nowSeconds)
    }

    /// The authenticator of a service in its own process. Keys come from `--issuer` if it is set, else from
    /// the log; API keys and revocations always come from the log.
    public convenience init(_ configuration: ServiceConfiguration, system: SystemDatabase, logger: Logger) {
        let issuer = configuration.issuer.map { JWKSKeySource(issuer: $0, logger: logger) as any KeySource }
        self.init(source: issuer ?? system, system: system)
    }

    /// The identity that an HTTP request carries. Counts the request for its database and user.
    /// - Throws: `AUTH-0109` without a token, `AUTH-0101` to `AUTH-0112`, `AUTH-0201`; `SRV-0432`,
    ///   `SRV-0601`, `SRV-0602`.
    public func identity(for request: Request, databaseID: DatabaseID? = nil) async throws -> Identity {
        let identity = try await identity(
            authorization: request.headers[.authorization], databaseID: databaseID)
        try checkHost(request.head.authority, of: identity)
        try count(identity)
        return identity
    }

    /// Counts a request, and lets its user pay for its bytes.
    private func count(_ identity: Identity) throws(LimitReached) {
        guard let system, let limits = system.directory.limits(of: identity.databaseID) else { return }
        try system.usage.admit(identity, under: limits)
        UsageCharge.current?.name(
            UsageCharge.Payer(meter: system.usage, identity: identity, limits: limits))
    }

    /// Counts a session that begins.
    /// - Throws: `SRV-0432`.
    public func sessionPlace(of identity: Identity) throws(LimitReached) -> UsageMeter.Place? {
        try system?.usage.begin(identity, under: system?.directory.limits(of: identity.databaseID))
    }

    /// Pays for a frame of a session.
    /// - Parameter longest: the longest time that a frame waits, and that the frames of all may owe.
    /// - Returns: the time until the limits of its database and user have taken it.
    public func pay(
        _ bytes: Int, inSessionOf identity: Identity, owingAtMost longest: Duration
    ) -> Duration {
        guard UsageCharge.isNeeded.load(ordering: .relaxed), let system,
            let limits = system.directory.limits(of: identity.databaseID)
        else { return .zero }
        return system.usage.pay(bytes, by: identity, under: limits, owingAtMost: longest)
    }

    /// The identity that signed a URL for an attachment, as far as it reads now: its user, peer, token or API
    /// key may have been revoked since, and its key retired.
    /// - Throws: `AUTH-0101` to `AUTH-0113`, with a message about a URL; `SRV-0601` to `SRV-0603`.
    public func identity(
        signedURL token: String, attachment: String, for request: Request
    ) async throws -> Identity {
        try requireTrust()
        if !knowsKey(of: token) { replaceKeys(try await source.refreshedKeys()) }
        let now = nowSeconds()
        let identity: Identity
        do throws(IdentityError) {
            identity = try verifier.withLock { verifier throws(IdentityError) in
                try verifier.verifyURL(token, attachment: attachment, nowSeconds: now)
            }
            if let refusal = revocation(of: identity) { throw refusal }
            try checkHost(request.head.authority, of: identity)
        } catch {
            throw error.ofURL
        }
        try count(identity)
        return identity
    }

    /// Refuses a token of another database when the host's first label is a database's id, as in
    /// `fleet.example.org`. Host names are compared without case.
    private func checkHost(_ host: String?, of identity: Identity) throws(IdentityError) {
        guard let host, let system, let end = host.firstIndex(of: ".") else { return }
        let label = String(host[..<end])
        guard label.lowercased() != identity.databaseID.text.lowercased() else { return }
        let directory = system.directory
        guard directory.database(DatabaseID(label)) == nil,
            directory.database(DatabaseID(label.lowercased())) == nil
        else {
            throw .databaseGone
        }
    }

    /// The identity that a WebSocket upgrade carries, and the token or API key it was read from.
    /// - Throws: as above.
    public func identity(
        for request: WebSocketRequest, databaseID: DatabaseID? = nil
    ) async throws -> (identity: Identity, token: String) {
        let fields = request.headers["authorization"]
        guard fields.count == 1, let token = Self.bearer(fields[0]) else { throw IdentityError.missingToken }
        let identity = try await identity(token: token, databaseID: databaseID)
        try checkHost(request.headers["host"].first, of: identity)
        return (identity, token)
    }

    /// The identity of a token or an API key.
    /// - Throws: as above; `SRV-0602` without contact with the log, `SRV-0603` while a restore of it is not
    ///   accepted.
    public func identity(token: String, databaseID: DatabaseID? = nil) async throws -> Identity {
        try requireTrust()
        if APIKey.isOne(token) { return try await identity(apiKey: token, databaseID: databaseID) }
        if !knowsKey(of: token) { replaceKeys(try await source.refreshedKeys()) }
        return try verified(token, databaseID)
    }

    /// The identity that a request's `Authorization` and `Host` carry, if it can be told at once: of a token
    /// that was verified before, or of an API key that is known. Nil otherwise, and for any refusal.
    public func identityNow(authorization: String, host: String?) -> Identity? {
        guard let token = Self.bearer(authorization), (try? requireTrust()) != nil,
            let identity = APIKey.isOne(token) ? known(apiKey: token) : remembered(token),
            (try? checkHost(host, of: identity)) != nil,
            // A request that is counted takes the long way.
            system?.directory.limits(of: identity.databaseID) == nil
        else { return nil }
        return identity
    }

    private func remembered(_ token: String) -> Identity? {
        let now = nowSeconds()
        let found = verifier.withLock { $0.remembered(token, nowSeconds: now) }
        guard let found, let system else { return found }
        return (try? system.directory.check(found, nowSeconds: now)) == nil ? nil : found
    }

    private func known(apiKey text: String) -> Identity? {
        guard let key = APIKey(text), let system else { return nil }
        return try? system.directory.identity(of: key, nowSeconds: nowSeconds())
    }

    // The optimizer of Swift 6.3 crashes where a typed error is thrown before a suspension. So this is no
    // part of the asynchronous caller.
    @inline(never)
    private func requireTrust() throws { try system?.requireTrust() }

    private func knowsKey(of token: String) -> Bool {
        verifier.withLock { $0.knowsKey(of: token) } != false
    }

    private func replaceKeys(_ keys: KeySet) {
        verifier.withLock { verifier in
            if verifier.keys != keys { verifier.replaceKeys(keys) }
        }
    }

    private func verified(_ token: String, _ databaseID: DatabaseID?) throws(IdentityError) -> Identity {
        let now = nowSeconds()
        let identity = try verifier.withLock { verifier throws(IdentityError) in
            try verifier.verify(token, databaseID: databaseID, nowSeconds: now)
        }
        try system?.directory.check(identity, nowSeconds: now)
        return identity
    }

    /// The reason why an identity that was accepted before is no longer valid; nil while it is.
    public func refusal(of identity: Identity) -> IdentityError? {
        guard nowSeconds() < identity.expiresAtSeconds else { return .expired }
        return revocation(of: identity)
    }

    /// Checks an identity that was accepted before, for work of it that goes on, such as a transfer. The
    /// end of its token does not end work that has begun.
    /// - Throws: `SRV-0602`, `SRV-0603` as above, else the reason why the identity is revoked.
    public func requireStanding(of identity: Identity) throws {
        try system?.requireTrust()
        if let refusal = revocation(of: identity) { throw refusal }
    }

    /// The reason why no credential can be checked, however good it was; nil while they can.
    public var distrust: ServiceError? {
        do {
            try system?.requireTrust()
            return nil
        } catch {
            return error
        }
    }

    /// The audit of this process; nil without a system database.
    public var audit: AuditLog? { system?.audit }

    private func revocation(of identity: Identity) -> IdentityError? {
        do throws(IdentityError) {
            try system?.directory.check(identity, nowSeconds: nowSeconds())
            if let id = identity.tokenID, identity.signedBy == nil, let system,
                system.directory.apiKeys[id] == nil
            {
                return .apiKeyRefused
            }
            return nil
        } catch {
            return error
        }
    }

    /// Wakes when the result of `refusal` may have changed; nil without a system database.
    public var changes: AsyncStream<Void>? { system?.changes }

    private func identity(apiKey text: String, databaseID: DatabaseID?) async throws -> Identity {
        guard let key = APIKey(text), let system else { throw IdentityError.apiKeyRefused }
        var found = try system.directory.identity(of: key, nowSeconds: nowSeconds())
        if found == nil {
            // The key may have been made a moment ago.
            try await system.refresh()
            found = try system.directory.identity(of: key, nowSeconds: nowSeconds())
        }
        guard let found, databaseID ?? found.databaseID == found.databaseID else {
            throw IdentityError.apiKeyRefused
        }
        return found
    }

    private func identity(authorization: String?, databaseID: DatabaseID?) async throws -> Identity {
        guard let token = Self.bearer(authorization) else { throw IdentityError.missingToken }
        return try await identity(token: token, databaseID: databaseID)
    }

    /// The token of an `Authorization` field; nil if the field has none. By bytes: a request brings one.
    static func bearer(_ authorization: String?) -> String? {
        guard var authorization else { return nil }
        return authorization.withUTF8 { field in
            let space = UInt8(ascii: " ")
            let rest = field.drop { $0 == space }
            guard rest.count > scheme.count, rest[rest.startIndex + scheme.count] == space,
                zip(rest, scheme).allSatisfy({ $0 | 0x20 == $1 })
            else { return nil }
            let token = rest.dropFirst(scheme.count).drop { $0 == space }
            let end = token.firstIndex(of: space) ?? token.endIndex
            guard end > token.startIndex, token[end...].allSatisfy({ $0 == space }) else { return nil }
            return String(decoding: token[..<end], as: UTF8.self)
        }
    }

    /// The scheme of `Authorization`, in the lower case; clients write it in any.
    private static let scheme = Array("bearer".utf8)
}
