import HTTPTypes
import Hummingbird

/// The places from which the paths under `/admin` can be reached: from everywhere, or over loopback only
/// (`--admin-loopback`). A credential is needed in both cases.
///
/// With a proxy on this machine every address that `X-Forwarded-For` names must be a loopback address too,
/// and without `--behind-proxy` a request that a proxy has touched is refused. A proxy that adds no field, or
/// a tunnel, cannot be told from a local program.
struct AdminReach: Sendable {
    /// True for `--admin-loopback`.
    var isLoopback = false
    /// True for `--behind-proxy`.
    var trustsProxy = false

    /// True for a path that this is about. The health of a service is for everybody, like `/health`.
    static func concerns(_ path: String) -> Bool {
        path.hasPrefix("/admin/") && !path.hasSuffix("/health")
    }

    /// - Throws: `SRV-0402`.
    func check(_ request: Request, _ context: ServiceContext) throws(ServiceError) {
        guard isLoopback, !isLocal(request.headers, from: context.remoteAddress?.ipAddress) else { return }
        Measured.count("mimeo_admin_requests_total", [("role", "none"), ("result", "refused")])
        throw ServiceError(
            .adminElsewhere, "paths under /admin can be reached over loopback only (--admin-loopback)")
    }

    /// True for a request that has not left this machine.
    func isLocal(_ fields: HTTPFields, from address: String?) -> Bool {
        guard let address, Self.isOfThisMachine(address) else { return false }
        let touched = fields.filter { ProxyFields.all.contains($0.name.canonicalName) }
        let named = touched.filter { $0.name.canonicalName == ProxyFields.forwardedFor }
        if touched.isEmpty { return true }
        return trustsProxy && !named.isEmpty
            && named.allSatisfy { field in
                field.value.split(separator: ",", omittingEmptySubsequences: false)
                    .allSatisfy { Self.isOfThisMachine(String($0.filter { $0 != " " })) }
            }
    }

    /// True for an address of `127.0.0.0/8` and for `::1`, also written as an IPv6 address.
    static func isOfThisMachine(_ address: String) -> Bool {
        let mapped = "::ffff:"
        let plain =
            address.lowercased().hasPrefix(mapped) ? String(address.dropFirst(mapped.count)) : address
        if plain == "::1" { return true }
        let parts = plain.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}

/// Fields that a proxy sets on what it passes on.
public enum ProxyFields {
    /// `X-Forwarded-For`: the addresses from the client on, each added by the proxy that saw it.
    public static let forwardedFor = "x-forwarded-for"
    /// All of them, in lower case.
    public static let all = [forwardedFor, "x-forwarded-proto", "forwarded", "via", "x-real-ip"]
}
