import CRDT
import Foundation
import Identity
import ServiceKit
import Synchronization

/// Limits failed logins per account, without letting strangers lock its person out.
///
/// Failures count for the account and the network together: a network that failed
/// `Limits.failuresPerAccount` times has to wait for this account, every other network does not. While many
/// networks fail at one account, a network that was never the person's may fail once. A name that no account
/// has is counted in the same way, so a lock says nothing about accounts.
///
/// The counts are in the system database, so several gateways share them and a restart forgets none. Each
/// gateway writes its new failures at most once in `Limits.failuresPause`, all in one write, and counts those
/// not written yet by itself: a flood of failures is no flood of writes. While the log cannot be reached,
/// they wait here. Windows have a fixed length. The lock guards the table of what is not written.
final class AccountLimiter: Sendable {
    typealias Digest = @Sendable (String) -> [UInt8]

    private struct Subject: Hashable {
        /// The id of the record.
        let place: String
        /// The key of the count in it.
        let key: String

        /// - Parameter network: nil for all networks together.
        init(_ account: String, _ network: String?, _ digest: Digest) {
            let digest = digest("failures/\(account)/\(network ?? "")")
            let number = (Int(digest[0]) << 8 | Int(digest[1])) % Limits.failurePlaces
            (place, key) = ("\(number)", Base64URL.encode(digest[2..<14]))
        }
    }

    /// The part of a count that the system database does not have.
    private struct Own {
        var failures: Int64 = 0
        var sinceSeconds: Int64 = 0
        /// True if the count in the system database is to be forgotten.
        var isReset = false
        var underWay = 0
        /// The failures that are being written, and the count that they are added to.
        var written: (failures: Int64, to: Int64)?

        var isOpen: Bool { failures > 0 || isReset }
        var isEmpty: Bool { !isOpen && underWay == 0 && written == nil }
    }

    private struct State {
        var table: [Subject: Own] = [:]
        var isWriting = false
    }

    private let system: SystemDatabase
    private let digest: Digest
    private let nowSeconds: @Sendable () -> Int64
    private let state = Mutex(State())

    /// - Parameter digest: decides about places, and is a secret of the gateways: otherwise strangers could
    ///   fill the place of a name that they guess at, so that its count finds no room.
    init(
        system: SystemDatabase, digest: @escaping Digest, nowSeconds: @escaping @Sendable () -> Int64
    ) {
        (self.system, self.digest, self.nowSeconds) = (system, digest, nowSeconds)
    }

    /// The record that has the count of a network, or of all networks together, at an account.
    func place(_ account: String, _ network: String?) -> String { subject(account, network).place }

    private func subject(_ account: String, _ network: String?) -> Subject {
        Subject(account, network, digest)
    }

    /// Admits an attempt, whose end the caller must report.
    /// - Parameter isKnown: true for a network from which the person has signed in.
    /// - Throws: `AUTH-0414`.
    func begin(_ account: String, from network: String, isKnown: Bool) throws(AuthGatewayError) {
        let (subject, all, now) = (subject(account, network), subject(account, nil), nowSeconds())
        let wait = state.withLock { state -> Int64? in
            let own = count(subject, state.table[subject], now)
            let isCrowded =
                count(all, state.table[all], now).failures >= Limits.failuresOfStrangers && !isKnown
            let limit = isCrowded ? 1 : Limits.failuresPerAccount
            let underWay = state.table[subject]?.underWay ?? 0
            let isAdmitted =
                own.failures == 0
                ? underWay < Limits.failuresPerAccount : Int(own.failures) + underWay < limit
            guard isAdmitted else {
                // Attempts that are under way end soon.
                guard own.failures >= limit else { return 0 }
                return max(0, own.sinceSeconds + Limits.accountWindowSeconds - now)
            }
            Self.change(subject, &state.table) { $0.underWay += 1 }
            return nil
        }
        guard let wait else { return }
        throw AuthGatewayError(
            .accountLocked, "too many logins of this name have failed here; wait for the time in Retry-After",
            retryAfterSeconds: wait + 1)
    }

    /// Records the end of an attempt.
    /// - Parameter failed: nil if the credentials were not compared.
    func end(_ account: String, from network: String, failed: Bool?) {
        let (subject, all, now) = (subject(account, network), subject(account, nil), nowSeconds())
        let hasChanged = state.withLock { state -> Bool in
            Self.change(subject, &state.table) { own in
                own.underWay = max(0, own.underWay - 1)
                switch failed {
                case true?: Self.add(1, to: &own, now)
                case false?:
                    own.failures = 0
                    own.isReset = own.written != nil || shared(subject, now) != nil
                case nil: break
                }
            }
            if failed == true { Self.change(all, &state.table) { Self.add(1, to: &$0, now) } }
            guard !state.isWriting, failed == true || state.table[subject]?.isReset == true else {
                return false
            }
            state.isWriting = true
            return true
        }
        if hasChanged { Task { await write() } }
    }

    // MARK: Counting

    /// Failures of a subject in its window, those not written yet included.
    private func count(_ subject: Subject, _ own: Own?, _ now: Int64) -> (
        failures: Int64, sinceSeconds: Int64
    ) {
        let kept = own?.isReset == true ? nil : shared(subject, now)
        // The directory may have what is being written, and may not.
        let written = own?.written.map { own?.isReset == true ? 0 : $0.to + $0.failures } ?? 0
        let fresh = own.flatMap { Self.isOver($0.sinceSeconds, now) ? nil : $0.failures } ?? 0
        return (max(kept?.failures ?? 0, written) + fresh, kept?.sinceSeconds ?? own?.sinceSeconds ?? now)
    }

    private func shared(_ subject: Subject, _ now: Int64) -> FailureCount? {
        system.directory.loginFailures[subject.place]?.counts.first { utf8Equal($0.subject, subject.key) }
            .flatMap { Self.isOver($0.sinceSeconds, now) ? nil : $0 }
    }

    /// A window of the future is over too: the clock was set back.
    private static func isOver(_ sinceSeconds: Int64, _ now: Int64) -> Bool {
        abs(now - sinceSeconds) >= Limits.accountWindowSeconds
    }

    private static func add(_ failures: Int64, to own: inout Own, _ now: Int64) {
        if own.failures == 0 || isOver(own.sinceSeconds, now) { (own.failures, own.sinceSeconds) = (0, now) }
        own.failures += failures
    }

    private static func change(
        _ subject: Subject, _ table: inout [Subject: Own], _ body: (inout Own) -> Void
    ) {
        if table[subject] == nil, table.count >= Limits.countedAccounts {
            // The log is away: what is counted here only is forgotten.
            table = table.filter { $0.value.underWay > 0 || $0.value.written != nil }
        }
        var own = table[subject] ?? Own()
        body(&own)
        table[subject] = own.isEmpty ? nil : own
    }

    // MARK: Writing

    /// Writes what is not written, until there is no more.
    private func write() async {
        while let part = next() {
            let now = nowSeconds()
            do {
                try await system.write { writer in
                    for (place, changes) in Dictionary(grouping: part, by: \.key.place) {
                        var record = try writer.get(place, as: LoginFailures.self) ?? LoginFailures(id: place)
                        for (subject, own) in changes { Self.apply(own, subject.key, &record.counts, now) }
                        try writer.put(record)
                    }
                }
            } catch {
                // The next failure tries again.
                end(part, isWritten: false)
                return state.withLock { $0.isWriting = false }
            }
            end(part, isWritten: true)
            try? await Task.sleep(for: Limits.failuresPause)
        }
    }

    private func next() -> [(key: Subject, value: Own)]? {
        let now = nowSeconds()
        return state.withLock { state in
            let part = Array(state.table.filter { $0.value.isOpen }.prefix(Limits.recordsPerWrite))
            for (subject, own) in part {
                let to = own.isReset ? 0 : shared(subject, now)?.failures ?? 0
                Self.change(subject, &state.table) { now in
                    now.written = (own.failures, to)
                    (now.failures, now.isReset) = (0, false)
                }
            }
            if part.isEmpty { state.isWriting = false }
            return part.isEmpty ? nil : part
        }
    }

    private func end(_ part: [(key: Subject, value: Own)], isWritten: Bool) {
        state.withLock { state in
            for (subject, own) in part {
                Self.change(subject, &state.table) { now in
                    now.written = nil
                    // A success meanwhile forgets these too.
                    guard !isWritten, !now.isReset else { return }
                    (now.isReset, now.sinceSeconds) = (own.isReset, own.sinceSeconds)
                    now.failures += own.failures
                }
            }
        }
    }

    /// Adds to a count, or begins one. Where there is no room, the count of the fewest failures goes: whoever
    /// fails under other names pushes out no count of a name that is guessed at.
    private static func apply(_ own: Own, _ key: String, _ counts: inout [FailureCount], _ now: Int64) {
        counts.removeAll { isOver($0.sinceSeconds, now) || own.isReset && utf8Equal($0.subject, key) }
        guard own.failures > 0, !isOver(own.sinceSeconds, now) else { return }
        if let index = counts.firstIndex(where: { utf8Equal($0.subject, key) }) {
            counts[index].failures += own.failures
        } else {
            counts.append(FailureCount(subject: key, failures: own.failures, sinceSeconds: own.sinceSeconds))
        }
        guard counts.count > Limits.failuresPerPlace else { return }
        counts.sort { ($0.failures, $0.sinceSeconds) > ($1.failures, $1.sinceSeconds) }
        counts.removeLast(counts.count - Limits.failuresPerPlace)
    }
}
