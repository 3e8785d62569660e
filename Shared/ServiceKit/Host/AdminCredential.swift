import Foundation
import Hummingbird
import Identity
import Synchronization

/// The credential that opens a service's admin endpoints: the one that the auth-gateway keeps in
/// `DATA/auth/admin.token`, or the file that `--admin-token` names.
///
/// A service that only reads it may start before the gateway has made it; without the file nobody gets in.
/// It has 256 random bits, so attempts need no counting. `text` guards what was read.
public struct AdminCredential: Sendable {
    private let path: String
    private let known = Cached()

    private final class Cached: Sendable {
        let text = Mutex<String?>(nil)
    }

    /// The credential in this file.
    public init(path: String) { self.path = path }

    /// Lets a request through that has it as its bearer token.
    /// - Throws: `SRV-0401`.
    public func admit(_ request: Request) throws(ServiceError) {
        let parts = (request.headers[.authorization] ?? "").split(separator: " ")
        guard parts.count == 2, parts[0].lowercased() == "bearer", let text = text(),
            ConstantTime.equal(String(parts[1]), text)
        else {
            throw ServiceError(
                .adminRefused, "this needs the admin credential (Authorization: Bearer …)")
        }
    }

    private func text() -> String? {
        known.text.withLock { known in
            if let known { return known }
            guard let content = FileManager.default.contents(atPath: path) else { return nil }
            let text = String(decoding: content, as: UTF8.self)
                .trimmingCharacters(in: .whitespacesAndNewlines)
            // One that is being written is no credential yet.
            guard text.utf8.count >= Limits.adminCredentialCharacters else { return nil }
            known = text
            return text
        }
    }
}
