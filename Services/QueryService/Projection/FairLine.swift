import CRDT
import Machine

/// Lets one in at a time. The credentials of those who wait have their turns one after the other, so many
/// statements of one credential delay another's by one. The one whose writes have taken least time comes
/// first, while anybody waits, so that a bulk of thousands and a write of one document do not alternate.
struct FairLine {
    /// The end of a wait.
    enum Outcome: Sendable {
        /// It is in.
        case isIn
        /// It has given up.
        case gone
        /// The one who is in did it along with its own.
        case done(Result<ExecuteAnswer, any Error>)
    }

    /// One who waits.
    struct Waiter: Sendable {
        let id: UInt64
        let credential: String
        /// The write, if another may do it.
        let job: WriteLane.Job?
        fileprivate let outcome = PendingAnswer<Outcome>()
    }

    private var isTaken = false

    private var waiting: [(credential: String, waiters: [Waiter])] = []
    private var present: [String: Int] = [:]
    /// The time that each credential's writes have taken since nobody waited: of all who are present, and of
    /// some who have left (`charge`).
    private var used: [String: Duration] = [:]

    /// How many are in or wait.
    var count: Int { present.values.reduce(0, +) }

    /// Returns whether a credential is in or waits.
    func serves(_ credential: String) -> Bool { present[credential] != nil }

    /// Comes to the line. Returns whether it has to `wait`; else it is in.
    mutating func enter(_ credential: String) -> Bool {
        present[credential, default: 0] += 1
        guard !isTaken else {
            // Nobody saves up time before the others' eyes.
            let most = used.values.max() ?? .zero
            used[credential] = max(used[credential] ?? .zero, most - Limits.writeCredit)
            return true
        }
        isTaken = true
        return false
    }

    /// Waits behind the others of its credential. Returns what will tell the end of the wait.
    mutating func wait(
        _ credential: String, _ id: UInt64, _ job: WriteLane.Job?
    ) -> PendingAnswer<Outcome> {
        let waiter = Waiter(id: id, credential: credential, job: job)
        if let place = waiting.firstIndex(where: { utf8Equal($0.credential, credential) }) {
            waiting[place].waiters.append(waiter)
        } else {
            waiting.append((credential, [waiter]))
        }
        return waiter.outcome
    }

    /// Takes those out of the line who would come next and whose writes another may do; each is to be
    /// `answer`ed. The credentials take turns. One whose writes take long does not come along with one whose
    /// do not: everybody in a group waits for the last.
    mutating func take(_ most: Int, with leader: String) -> [Waiter] {
        var taken: [Waiter] = []
        let bound = (used[leader] ?? .zero) + Limits.groupTime
        while taken.count < most,
            let place = lightest(where: { $0.waiters[0].job != nil && used[$0.credential] ?? .zero <= bound })
        {
            var next = waiting.remove(at: place)
            taken.append(next.waiters.removeFirst())
            if !next.waiters.isEmpty { waiting.append(next) }
        }
        return taken
    }

    /// The place of the credential among those who wait that has used least; of equals the first.
    private func lightest(
        where isWanted: ((credential: String, waiters: [Waiter])) -> Bool = { _ in true }
    ) -> Int? {
        waiting.indices.filter { isWanted(waiting[$0]) }.min {
            (used[waiting[$0].credential] ?? .zero, $0) < (used[waiting[$1].credential] ?? .zero, $1)
        }
    }

    /// Charges credentials for a time that their writes took together. A line that is never empty would keep
    /// everybody who ever wrote: those of the absent who used least are forgotten, who gain least by it.
    mutating func charge(_ credentials: [String], _ time: Duration) {
        for credential in credentials { used[credential, default: .zero] += time / credentials.count }
        guard used.count > present.count + 2 * Limits.absentWriters else { return }
        let absent = used.filter { present[$0.key] == nil }.sorted { $0.value < $1.value }
        for (credential, _) in absent.dropLast(Limits.absentWriters) { used[credential] = nil }
    }

    /// How many credentials' times are known.
    var charged: Int { used.count }

    /// The time that a credential's writes have taken, if it is known.
    func used(by credential: String) -> Duration? { used[credential] }

    /// Ends the wait of one that was taken.
    mutating func answer(_ waiter: Waiter, _ result: Result<ExecuteAnswer, any Error>) {
        forget(waiter.credential)
        waiter.outcome.give(.done(result))
    }

    /// Lets one that still waits go.
    mutating func giveUp(_ id: UInt64) {
        for place in waiting.indices {
            guard let index = waiting[place].waiters.firstIndex(where: { $0.id == id }) else { continue }
            let waiter = waiting[place].waiters.remove(at: index)
            let credential = waiting[place].credential
            if waiting[place].waiters.isEmpty { waiting.remove(at: place) }
            forget(credential)
            waiter.outcome.give(.gone)
            return
        }
    }

    /// Leaves, and lets the next one in.
    mutating func leave(_ credential: String) {
        forget(credential)
        guard let place = lightest() else {
            isTaken = false
            used = [:]
            return
        }
        var next = waiting.remove(at: place)
        let waiter = next.waiters.removeFirst()
        if !next.waiters.isEmpty { waiting.append(next) }
        waiter.outcome.give(.isIn)
    }

    private mutating func forget(_ credential: String) {
        let left = (present[credential] ?? 1) - 1
        present[credential] = left == 0 ? nil : left
    }
}
