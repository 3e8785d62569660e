import Foundation
import Hummingbird
import Identity
import Machine
import Synchronization

/// The credential for a service's admin endpoints, read from `DATA/auth/admin.token`, which the auth-gateway
/// makes, or from the file that `--admin-token` names.
///
/// The file is read again when it changes; one that is missing or too short opens nothing. A service may
/// start before the gateway has made it. The credential has 256 random bits, so attempts need not be limited.
/// `known` guards the cached credential.
public struct AdminCredential: Sendable {
    private let path: String
    private let contact: LogContact?
    private let known = Cached()

    private final class Cached: Sendable {
        let content = Mutex<Content?>(nil)
    }

    /// The credential of a file, nil for one that is no credential.
    private struct Content {
        var stamp: Stamp
        var text: String?
    }

    /// Differs after a change of the file, unless it happened within a tick of the file system's clock.
    private struct Stamp: Equatable {
        var device: UInt
        var node: UInt
        var size: Int
        var seconds: Int
        var nanoseconds: Int
    }

    /// The credential in this file.
    /// - Parameter contact: without contact with the log the credential is refused, as all others are.
    public init(path: String, contact: LogContact? = nil) {
        self.path = path
        self.contact = contact
    }

    /// The credential of a service's process.
    public init(_ configuration: ServiceConfiguration, system: SystemDatabase) {
        self.init(path: configuration.adminCredentialFile, contact: system.contact)
    }

    /// Accepts a request whose bearer token is the credential.
    /// - Throws: `SRV-0401` for any other request; `SRV-0602` without contact with the log.
    public func admit(_ request: Request) throws(ServiceError) {
        guard try isCarried(by: request) else {
            throw ServiceError(
                .adminRefused, "this path needs the admin credential: send it as Authorization: Bearer …")
        }
    }

    /// Returns whether a request's bearer token is the credential.
    /// - Throws: `SRV-0602` if it is, and there is no contact with the log.
    public func isCarried(by request: Request) throws(ServiceError) -> Bool {
        let parts = (request.headers[.authorization] ?? "").split(separator: " ")
        guard parts.count == 2, parts[0].lowercased() == "bearer", let text,
            ConstantTime.equal(String(parts[1]), text)
        else { return false }
        try contact?.require()
        return true
    }

    /// The credential itself; nil while its file has none.
    var text: String? {
        known.content.withLock { known in
            guard let stamp = Self.stamp(of: path) else {
                known = nil
                return nil
            }
            if let known, known.stamp == stamp { return known.text }
            let text = Self.read(path)
            let isSettled = SystemClock.seconds() - Int64(stamp.seconds) > Limits.settledSeconds
            known = isSettled ? Content(stamp: stamp, text: text) : nil
            return text
        }
    }

    private static func read(_ path: String) -> String? {
        guard let content = FileManager.default.contents(atPath: path) else { return nil }
        let text = String(decoding: content, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        // A shorter text is a file that is still being written.
        return text.utf8.count >= Limits.adminCredentialCharacters ? text : nil
    }

    private static func stamp(of path: String) -> Stamp? {
        var found = stat()
        guard stat(path, &found) == 0 else { return nil }
        return Stamp(
            device: UInt(found.st_dev), node: UInt(found.st_ino), size: Int(found.st_size),
            seconds: found.st_mtim.tv_sec, nanoseconds: found.st_mtim.tv_nsec)
    }
}
