import Foundation
import Hummingbird
import Identity
import Machine
import Synchronization

/// The credentials for a service's admin endpoints. The first, with all rights, is read from
/// `DATA/auth/admin.token`, which the auth-gateway makes, or from the file that `--admin-token` names.
///
/// Beside it the named credentials of the system database open the routes that their role suffices for; each
/// route says in `Surface` which role it needs.
///
/// The file is read again when it changes; one that is missing or too short opens nothing. A service may
/// start before the gateway has made it. The credential has 256 random bits, so attempts need not be limited.
/// `known` guards the cached credential.
public struct AdminCredential: Sendable {
    private let path: String
    private let contact: LogContact?
    /// Has the named credentials; nil where only the file's counts.
    private let system: SystemDatabase?
    private let nowSeconds: @Sendable () -> Int64
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

    /// The credential in this file, and the named ones of a system database.
    /// - Parameter contact: without contact with the log every credential is refused, as all others are.
    public init(
        path: String, contact: LogContact? = nil, system: SystemDatabase? = nil,
        nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds
    ) {
        (self.path, self.contact, self.system) = (path, contact ?? system?.contact, system)
        self.nowSeconds = nowSeconds
    }

    /// The credentials of a service's process.
    public init(_ configuration: ServiceConfiguration, system: SystemDatabase) {
        self.init(path: configuration.adminCredentialFile, system: system)
    }

    /// The words for a request without a right credential: one that has another was mistaken about it.
    public static func refusal(of request: Request) -> String {
        request.headers[.authorization] == nil
            ? "this path needs the admin credential: send it as Authorization: Bearer …"
            : "the admin credential was not accepted: it is another one, ended, or was taken back"
    }

    /// Accepts a request whose bearer token is a credential with the role that its route needs.
    /// - Parameter route: the route's path, with the names of its parameters.
    /// - Throws: `SRV-0401` without a credential, `SRV-0403` for a role that does not suffice; `SRV-0602`
    ///   without contact with the log, `SRV-0603` for a named one while a restore of it is not accepted.
    @discardableResult
    public func admit(_ request: Request, route: String) throws(ServiceError) -> Administrator {
        guard let found = try administrator(of: request) else {
            Self.count(nil, "refused")
            throw ServiceError(
                .adminRefused, AdminCredential.refusal(of: request))
        }
        return try Self.admitted(found, request, route: route)
    }

    /// Accepts an administrator whose role suffices for a route.
    /// - Throws: `SRV-0403`.
    public static func admitted(
        _ found: Administrator, _ request: Request, route: String
    ) throws(ServiceError) -> Administrator {
        let needed = Surface.role(request.method, route)
        guard found.role >= needed else {
            count(found, "refused")
            throw ServiceError(
                .roleTooLow,
                "this path needs an admin credential with the role \(needed.rawValue); this one has "
                    + found.role.rawValue)
        }
        count(found, "ok")
        return found
    }

    private static func count(_ found: Administrator?, _ result: String) {
        let labels = [("role", found?.role.rawValue ?? "none"), ("result", result)]
        Measured.count("mimeo_admin_requests_total", labels)
    }

    /// The holder of the credential that a request's bearer token is; nil if it is none.
    /// - Throws: `SRV-0602`, `SRV-0603` if it is one that cannot be trusted now.
    public func administrator(of request: Request) throws(ServiceError) -> Administrator? {
        let parts = (request.headers[.authorization] ?? "").split(separator: " ")
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return try administrator(bearer: String(parts[1]))
    }

    /// The holder of a credential; nil if the text is none.
    /// - Throws: `SRV-0602`, `SRV-0603` if it is one that cannot be trusted now.
    public func administrator(bearer: String) throws(ServiceError) -> Administrator? {
        if let text, ConstantTime.equal(bearer, text) {
            try contact?.require()
            return .root
        }
        guard let system, let found = system.directory.administrator(bearer, nowSeconds: nowSeconds()) else {
            return nil
        }
        // A log that was put back may have brought a deleted credential back.
        try system.requireTrust()
        return found
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
