import Hummingbird

/// The places from which the paths under `/admin` can be reached: from everywhere, or only from the machine
/// that the server runs on (`--admin-loopback`). A credential is needed in both cases.
///
/// With a proxy in front, the client's address is the one that the proxy has told. Without one, a request
/// that names another client in a forwarding field is refused: it has come through a proxy that nobody has
/// vouched for.
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
        guard isLoopback else { return }
        let isForwarded = request.headers.contains { Self.forwardingFields.contains($0.name.canonicalName) }
        let source = request.source(context, trustsProxy: trustsProxy)
        guard Self.isOfThisMachine(source), trustsProxy || !isForwarded else {
            throw ServiceError(
                .adminElsewhere,
                "paths under /admin can be reached only from the server's own machine (--admin-loopback)")
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

    private static let forwardingFields = ["x-forwarded-for", "forwarded", "x-real-ip", "via"]
}
