import AsyncHTTPClient
import Identity
import Logging
import NIOCore

/// Fetches the keys from `ISSUER/_ditto/auth/jwks.json`.
///
/// The first token triggers the first fetch. Fetches are at least `Limits.keyRefreshInterval` apart, and
/// further apart after failures, however many tokens arrive meanwhile. Requests that need the same fetch
/// share it. The actor guards all state.
public actor JWKSKeySource: KeySource {
    /// Path of the key set at an origin.
    public static let path = "/_ditto/auth/jwks.json"

    private let url: String
    private let client: HTTPClient
    private let logger: Logger
    private let interval: Duration
    private var keys: KeySet?
    private var running: Task<KeySet, any Error>?
    private var notBefore: ContinuousClock.Instant?
    private var failures = 0

    /// - Parameters:
    ///   - issuer: the auth-gateway's origin.
    ///   - interval: the shortest time between two fetches.
    public init(
        issuer: Origin, client: HTTPClient = .shared, interval: Duration = Limits.keyRefreshInterval,
        logger: Logger = Logger(label: "keys")
    ) {
        url = "\(issuer)\(Self.path)"
        self.client = client
        self.interval = interval
        self.logger = logger
    }

    /// The issuer's keys, fetched again unless the last fetch is less than `interval` ago.
    /// - Throws: `SRV-0601` when the last fetch failed.
    public func refreshedKeys() async throws -> KeySet {
        if let running { return try await running.value }
        if let notBefore, ContinuousClock.now < notBefore {
            guard let keys, failures == 0 else { throw unreachable }
            return keys
        }
        let task = Task { try await fetch() }
        running = task
        defer { running = nil }
        do {
            let fetched = try await task.value
            keys = fetched
            failures = 0
            notBefore = .now + interval
            return fetched
        } catch {
            failures += 1
            let wait = min(interval * (1 << min(failures - 1, 8)), Limits.keyRefreshBackoff)
            notBefore = .now + wait
            logger.warning(
                "the issuer's keys cannot be fetched", metadata: ["url": "\(url)", "error": "\(error)"])
            throw unreachable
        }
    }

    private func fetch() async throws -> KeySet {
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "Accept", value: "application/json")
        let response = try await client.execute(request, timeout: TimeAmount(Limits.keyFetchTimeout))
        guard response.status == .ok else {
            throw ServiceError(.issuerUnreachable, "the issuer answered \(response.status.code)")
        }
        let body = try await response.body.collect(upTo: Limits.keySetBytes)
        return try KeySet(json: body.readableBytesView)
    }

    private var unreachable: ServiceError {
        ServiceError(
            .issuerUnreachable,
            "the issuer's keys cannot be fetched, so access tokens cannot be checked; try again shortly")
    }
}
