import Foundation
import Hummingbird
import Identity
import NIOHTTP1
import Synchronization

/// Turns the bearer token of a request into an identity. Shared by all requests of a process; the lock
/// guards the verifier with its memory of accepted tokens and is never held across a wait.
public final class Authenticator: Sendable {
    private let source: any KeySource
    private let verifier: Mutex<TokenVerifier>
    private let nowSeconds: @Sendable () -> Int64

    /// - Parameters:
    ///   - source: where keys come from.
    ///   - nowSeconds: seconds since 1970; the system's clock unless a test says otherwise.
    public init(
        source: any KeySource, nowSeconds: @escaping @Sendable () -> Int64 = Authenticator.systemSeconds
    ) {
        self.source = source
        self.nowSeconds = nowSeconds
        verifier = Mutex(TokenVerifier())
    }

    /// Seconds since 1970 by the system's clock.
    public static let systemSeconds: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// The identity behind an HTTP request.
    /// - Throws: `AUTH-0109` without a token, `AUTH-0101` to `AUTH-0110`, `AUTH-0201`; `SRV-0601`.
    public func identity(for request: Request, databaseID: String? = nil) async throws -> Identity {
        try await identity(authorization: request.headers[.authorization], databaseID: databaseID)
    }

    /// The identity behind a WebSocket upgrade.
    /// - Throws: as above.
    public func identity(for request: WebSocketRequest, databaseID: String? = nil) async throws -> Identity {
        let fields = request.headers["authorization"]
        return try await identity(authorization: fields.count == 1 ? fields[0] : nil, databaseID: databaseID)
    }

    /// The identity a token stands for.
    /// - Throws: as above.
    public func identity(token: String, databaseID: String? = nil) async throws -> Identity {
        if verifier.withLock({ $0.knowsKey(of: token) }) == false {
            let keys = try await source.refreshedKeys()
            verifier.withLock { verifier in
                if verifier.keys != keys { verifier.replaceKeys(keys) }
            }
        }
        let now = nowSeconds()
        return try verifier.withLock { verifier throws(IdentityError) in
            try verifier.verify(token, databaseID: databaseID, nowSeconds: now)
        }
    }

    private func identity(authorization: String?, databaseID: String?) async throws -> Identity {
        guard let authorization else { throw IdentityError.missingToken }
        let parts = authorization.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { throw IdentityError.missingToken }
        return try await identity(token: String(parts[1]), databaseID: databaseID)
    }
}
