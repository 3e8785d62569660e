import CRDT
import Foundation
import Synchronization

/// Counts failed logins by where they come from and whom they ask, and keeps guessers away for a while:
/// guessing takes long, and who logs in with what is right is not hindered by others' mistakes (decision
/// 0029).
///
/// An address that failed too often waits. At a provider where logins fail too often an address has one
/// mistake instead of many; one that has made none is let through, so that nobody locks a provider's users
/// out by failing there.
///
/// Windows of fixed length; a source that is not known costs nothing. Each kind of source has a table of its
/// own, of which at most `Limits.countedSources` are known, the oldest forgotten first: many addresses do not
/// make a provider's count forgotten. The lock guards the tables.
final class AttemptLimiter: Sendable {
    /// Who is counted.
    enum Source: Hashable, Sendable {
        /// Where a login comes from, see `network`.
        case address(String)
        case provider(database: DatabaseID, name: String)
        /// Where an admin request comes from.
        case admin(String)

        fileprivate enum Kind: CaseIterable { case address, provider, admin }

        fileprivate var kind: Kind {
            switch self {
            case .address: .address
            case .provider: .provider
            case .admin: .admin
            }
        }
    }

    /// How an attempt has ended.
    enum Outcome: Sendable {
        /// It succeeded, or failed through no fault of whoever asked.
        case uncounted
        /// What was sent is wrong: counts for the address, and for the provider.
        case refused
        /// There is no such database or provider, and names are guessed too: counts for the address alone.
        case unknown
    }

    private struct Window {
        var began: ContinuousClock.Instant
        var failures = 0
        /// Attempts that have not ended: each may be a failure.
        var underWay = 0
    }

    private let tables = Mutex<[Source.Kind: [Source: Window]]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// The network that an address counts for: of IPv6 its first 64 bits, which one household or machine has
    /// to itself; of IPv4, also written as IPv6, the address.
    static func network(of address: String) -> String {
        let text = String(address.prefix { $0 != "%" })
        var bytes = [UInt8](repeating: 0, count: 16)
        guard inet_pton(AF_INET6, text, &bytes) == 1 else { return text }
        let mapped = [UInt8](repeating: 0, count: 10) + [0xff, 0xff]
        guard bytes.prefix(12) != mapped[...] else {
            return bytes.suffix(4).map(String.init).joined(separator: ".")
        }
        return bytes.prefix(8).map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined() + "::/64"
    }

    /// An attempt begins; who is admitted says how it ended.
    /// - Throws: `AUTH-0410`.
    func begin(_ source: Source, at provider: Source? = nil) throws(AuthGatewayError) {
        let now = now()
        let wait = tables.withLock { tables -> Duration? in
            let window = Self.window(source, tables, now)
            let known = window ?? Window(began: now)
            var limit = Limits.failuresPerAddress
            if let provider, let crowd = Self.window(provider, tables, now),
                crowd.failures >= Limits.failuresPerProvider
            {
                limit = 1
            }
            // Without a mistake many may be under way at once: an address may be a whole office's.
            let isAdmitted =
                known.failures == 0
                ? known.underWay < Limits.attemptsUnderWay : known.failures + known.underWay < limit
            guard isAdmitted else { return Limits.attemptWindow - (now - known.began) }
            var next = known
            next.underWay += 1
            Self.set(next, source, &tables, now)
            return nil
        }
        guard let wait else { return }
        throw AuthGatewayError(
            .tooManyAttempts, "too many logins have failed; wait before the next one",
            retryAfterSeconds: wait.components.seconds + 1)
    }

    /// An attempt has ended.
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

    /// A source's window, if it is not over. What is under way does not end with it.
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

    /// Makes room: those whose time is over, or the older half.
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
