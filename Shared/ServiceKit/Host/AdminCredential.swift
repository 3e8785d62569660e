import Foundation
import Hummingbird
import Identity
import Synchronization

/// The credential for a service's admin endpoints, read from `DATA/auth/admin.token`, which the auth-gateway
/// makes, or from the file that `--admin-token` names.
///
/// A service may start before the gateway has made the file; until then every request is refused. The
/// credential has 256 random bits, so attempts need not be limited. `text` guards the cached credential.
public struct AdminCredential: Sendable {
    private let path: String
    private let known = Cached()

    private final class Cached: Sendable {
        let text = Mutex<String?>(nil)
    }

    /// The credential in this file.
    public init(path: String) { self.path = path }

    /// Accepts a request whose bearer token is the credential.
    /// - Throws: `SRV-0401` for any other request.
    public func admit(_ request: Request) throws(ServiceError) {
        let parts = (request.headers[.authorization] ?? "").split(separator: " ")
        guard parts.count == 2, parts[0].lowercased() == "bearer", let text = text(),
            ConstantTime.equal(String(parts[1]), text)
        else {
            throw ServiceError(
                .adminRefused, "this path needs the admin credential: send it as Authorization: Bearer …")
        }
    }

    private func text() -> String? {
        known.text.withLock { known in
            if let known { return known }
            guard let content = FileManager.default.contents(atPath: path) else { return nil }
            let text = String(decoding: content, as: UTF8.self)
                .trimmingCharacters(in: .whitespacesAndNewlines)
            // A shorter text is a file that is still being written.
            guard text.utf8.count >= Limits.adminCredentialCharacters else { return nil }
            known = text
            return text
        }
    }
}
