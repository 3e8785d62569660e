import Synchronization

/// Limits failed logins per account, without letting strangers lock its person out.
///
/// Failures count for the account and the network together: a network that failed
/// `Limits.failuresPerAccount` times has to wait for this account, every other network does not. While many
/// networks fail at one account, a network that was never the person's may fail once. A name that no account
/// has is counted in the same way, so a lock says nothing about accounts.
///
/// Windows have a fixed length; the table has at most `Limits.countedAccounts` entries, the oldest are
/// forgotten first. The lock guards the table.
final class AccountLimiter: Sendable {
    private struct Subject: Hashable {
        let account: String
        /// Nil for all networks together.
        let network: String?
    }

    private struct Window {
        var began: ContinuousClock.Instant
        var failures = 0
        var underWay = 0
    }

    private let table = Mutex<[Subject: Window]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    init(now: @escaping @Sendable () -> ContinuousClock.Instant) { self.now = now }

    /// Admits an attempt, whose end the caller must report.
    /// - Parameter isKnown: true for a network from which the person has signed in.
    /// - Throws: `AUTH-0414`.
    func begin(_ account: String, from network: String, isKnown: Bool) throws(AuthGatewayError) {
        let now = now()
        let wait = table.withLock { table -> Duration? in
            let subject = Subject(account: account, network: network)
            var own = Self.window(table[subject], now)
            let all = Self.window(table[Subject(account: account, network: nil)], now)
            let isCrowded = all.failures >= Limits.failuresOfStrangers && !isKnown
            let limit = isCrowded ? 1 : Limits.failuresPerAccount
            let isAdmitted =
                own.failures == 0
                ? own.underWay < Limits.failuresPerAccount : own.failures + own.underWay < limit
            guard isAdmitted else { return Limits.accountWindow - (now - own.began) }
            own.underWay += 1
            Self.set(own, subject, &table, now)
            return nil
        }
        guard let wait else { return }
        throw AuthGatewayError(
            .accountLocked, "too many logins of this name have failed here; wait for the time in Retry-After",
            retryAfterSeconds: wait.components.seconds + 1)
    }

    /// Records the end of an attempt.
    /// - Parameter failed: nil if the credentials were not compared.
    func end(_ account: String, from network: String, failed: Bool?) {
        let now = now()
        table.withLock { table in
            let subject = Subject(account: account, network: network)
            var own = Self.window(table[subject], now)
            own.underWay = max(0, own.underWay - 1)
            switch failed {
            case true?:
                if own.failures == 0 { own.began = now }
                own.failures += 1
                let all = Subject(account: account, network: nil)
                var window = Self.window(table[all], now)
                window.failures += 1
                Self.set(window, all, &table, now)
            case false?: own.failures = 0
            case nil: break
            }
            if own.failures == 0 && own.underWay == 0 {
                table[subject] = nil
            } else {
                Self.set(own, subject, &table, now)
            }
        }
    }

    /// A window that is over starts again without failures, and keeps the attempts under way.
    private static func window(_ kept: Window?, _ now: ContinuousClock.Instant) -> Window {
        guard var window = kept else { return Window(began: now) }
        guard now - window.began >= Limits.accountWindow else { return window }
        (window.began, window.failures) = (now, 0)
        return window
    }

    private static func set(
        _ window: Window, _ subject: Subject, _ table: inout [Subject: Window], _ now: ContinuousClock.Instant
    ) {
        if table[subject] == nil, table.count >= Limits.countedAccounts {
            let left = table.filter { now - $0.value.began < Limits.accountWindow }
            let kept = left.sorted { $0.value.began > $1.value.began }.prefix(Limits.countedAccounts / 2)
            table = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
        }
        table[subject] = window
    }
}
