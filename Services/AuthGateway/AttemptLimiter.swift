import CRDT
import Foundation
import Synchronization

/// Limits failed logins per address and per provider. Guessing becomes slow, and nobody's failures hinder
/// others who log in with correct credentials (decision 0029).
///
/// An address with too many failures has to wait. While too many logins fail at a provider, an address there
/// may fail only once. An address without failures is still admitted, so nobody can lock out a provider's
/// users by failing there.
///
/// Failures are counted in windows of fixed length; a source without failures takes no memory. Each kind of
/// source has its own table of at most `Limits.countedSources` entries, and drops the oldest first, so many
/// addresses cannot push out a provider's count. The lock guards the tables.
final class AttemptLimiter: Sendable {
    /// The subject of a count.
    enum Source: Hashable, Sendable {
        /// The network a login comes from, see `network`.
        case address(String)
        case provider(database: DatabaseID, name: String)
        /// The network an admin request comes from.
        case admin(String)
        /// The network that logins come from which nobody can read.
        case malformed(String)

        fileprivate enum Kind: CaseIterable { case address, provider, admin, malformed }

        fileprivate var kind: Kind {
            switch self {
            case .address: .address
            case .provider: .provider
            case .admin: .admin
            case .malformed: .malformed
            }
        }
    }

    /// The end of an attempt.
    enum Outcome: Sendable {
        /// The attempt succeeded, or failed through no fault of the client.
        case uncounted
        /// The credentials are wrong: counts for the address and the provider.
        case refused
        /// The database or provider is unknown. Names are guessed too, so it counts for the address only.
        case unknown
    }

    private struct Window {
        var began: ContinuousClock.Instant
        var failures = 0
        /// Attempts in flight; each may become a failure.
        var underWay = 0
    }

    private let tables = Mutex<[Source.Kind: [Source: Window]]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// The network that an address counts for. It is the first 64 bits of an IPv6 address, which belong to
    /// one household or machine, or a whole IPv4 address, also if written as IPv6. Some proxies name the port
    /// too, which each connection chooses.
    static func network(of address: String) -> String {
        let bracketed = address.hasPrefix("[") ? address.dropFirst().prefix { $0 != "]" } : address[...]
        let colons = bracketed.utf8.count { $0 == UInt8(ascii: ":") }
        let text = String(bracketed.prefix { $0 != "%" && (colons != 1 || $0 != ":") })
        var bytes = [UInt8](repeating: 0, count: 16)
        guard inet_pton(AF_INET6, text, &bytes) == 1 else { return text }
        let mapped = [UInt8](repeating: 0, count: 10) + [0xff, 0xff]
        guard bytes.prefix(12) != mapped[...] else {
            return bytes.suffix(4).map(String.init).joined(separator: ".")
        }
        return bytes.prefix(8).map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined() + "::/64"
    }

    /// The network around a network that one owner may have many of: the first 48 bits of an IPv6 address, 16
    /// of an IPv4 address.
    static func wideNetwork(of address: String) -> String {
        let network = network(of: address)
        guard !network.hasSuffix("::/64") else { return "\(network.prefix(12))::/48" }
        return network.split(separator: ".").prefix(2).joined(separator: ".")
    }

    /// Admits an attempt; the caller must report its end with `end`.
    /// - Throws: `AUTH-0410` if the source has to wait.
    func begin(_ source: Source, at provider: Source? = nil) throws(AuthGatewayError) {
        let now = now()
        let wait = tables.withLock { tables -> Duration? in
            let window = Self.window(source, tables, now)
            let known = window ?? Window(began: now)
            var limit =
                source.kind == .malformed ? Limits.malformedPerAddress : Limits.failuresPerAddress
            if let provider, let crowd = Self.window(provider, tables, now),
                crowd.failures >= Limits.failuresPerProvider
            {
                limit = 1
            }
            // Without failures many attempts may be in flight: one address may serve a whole office.
            let isAdmitted =
                known.failures == 0 || source.kind == .malformed && known.failures < limit
                ? known.underWay < Limits.attemptsUnderWay : known.failures + known.underWay < limit
            guard isAdmitted else {
                // Without failures it waits for its own logins, which end soon.
                return known.failures == 0 ? .zero : Limits.attemptWindow - (now - known.began)
            }
            var next = known
            next.underWay += 1
            Self.set(next, source, &tables, now)
            return nil
        }
        guard let wait else { return }
        throw AuthGatewayError(
            .tooManyAttempts,
            wait == .zero
                ? "too many logins from this address are in flight; wait for the time in Retry-After"
                : "too many logins from this address have failed; wait for the time in Retry-After",
            retryAfterSeconds: wait.components.seconds + 1)
    }

    /// Records the end of an attempt.
    func end(_ source: Source, at provider: Source? = nil, _ outcome: Outcome) {
        let now = now()
        tables.withLock { tables in
            if var window = tables[source.kind]?[source] {
                window.underWay = max(0, window.underWay - 1)
                let isEmpty = window.underWay == 0 && window.failures == 0
                tables[source.kind]?[source] = isEmpty ? nil : window
            }
            guard outcome != .uncounted else { return }
            Self.count(source, &tables, now)
            if outcome == .refused, let provider { Self.count(provider, &tables, now) }
        }
    }

    private typealias Tables = [Source.Kind: [Source: Window]]

    /// A source's window; nil if there is none. After its end it starts again without failures, but keeps the
    /// attempts in flight.
    private static func window(
        _ source: Source, _ tables: Tables, _ now: ContinuousClock.Instant
    ) -> Window? {
        guard var window = tables[source.kind]?[source] else { return nil }
        guard now - window.began >= Limits.attemptWindow else { return window }
        window.failures = 0
        window.began = now
        return window
    }

    private static func count(_ source: Source, _ tables: inout Tables, _ now: ContinuousClock.Instant) {
        var window = window(source, tables, now) ?? Window(began: now)
        if window.failures == 0 { window.began = now }
        window.failures += 1
        set(window, source, &tables, now)
    }

    private static func set(
        _ window: Window, _ source: Source, _ tables: inout Tables, _ now: ContinuousClock.Instant
    ) {
        if tables[source.kind]?[source] == nil, tables[source.kind]?.count ?? 0 >= Limits.countedSources {
            forget(source.kind, &tables, now)
        }
        tables[source.kind, default: [:]][source] = window
    }

    /// Makes room in a table: drops windows that are over, and if that is not enough the older half.
    private static func forget(
        _ kind: Source.Kind, _ tables: inout Tables, _ now: ContinuousClock.Instant
    ) {
        let left = (tables[kind] ?? [:]).filter { now - $0.value.began < Limits.attemptWindow }
        guard left.count >= Limits.countedSources else {
            tables[kind] = left
            return
        }
        let kept = left.sorted { $0.value.began > $1.value.began }.prefix(Limits.countedSources / 2)
        tables[kind] = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }
}
