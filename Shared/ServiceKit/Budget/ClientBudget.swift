import CRDT
import Synchronization

/// Bounds the bytes that all clients of the process hold together: bodies, values made of them, rows, answers
/// that wait, in memory or on disk. Whoever is about to hold something large takes it from here before
/// (`ClientHold`); a few kilobytes are not counted, so that a point read costs nothing.
///
/// Fairness: an account has at most half of the budget. The last quarter is for accounts that hold little, so
/// no few of them can keep another one out.
///
/// `state` guards the sums. Invariant: `used` is the sum of `byAccount`, and no entry there is 0.
public final class ClientBudget: Sendable {
    private struct State {
        var used = 0
        var byAccount: [Account: Int] = [:]
    }

    /// The memory of this process: a share of the machine's, or of its container's.
    public static let memory = ClientBudget(bytes: MachineMemory.clientBytes, of: "memory")
    /// The files of this process for answers that wait for slow clients.
    public static let disk = ClientBudget(bytes: Limits.spooledBytes, of: "disk")

    /// The whole budget.
    public let bytes: Int
    private let kind: String
    private let state = Mutex(State())

    /// A budget of so many bytes; `kind` names it in errors and metrics.
    public init(bytes: Int, of kind: String) {
        self.bytes = bytes
        self.kind = kind
    }

    /// The most for one account.
    public var accountBytes: Int { bytes / 2 }

    /// The bytes that are held now.
    public var used: Int { state.withLock { $0.used } }

    /// - Throws: `SRV-0430` if the account holds too much, `SRV-0503` if all accounts together do.
    fileprivate func take(_ count: Int, for account: Account) throws(ServiceError) {
        let refusal = state.withLock { state -> ServiceErrorCode? in
            let own = state.byAccount[account, default: 0] + count
            guard own <= accountBytes else { return .tooMuchHeld }
            let used = state.used + count
            let isSmall = own <= bytes / Limits.smallAccountShare
            guard used <= (isSmall ? bytes : bytes / 4 * 3) else { return .budgetSpent }
            state.used = used
            state.byAccount[account] = own
            return nil
        }
        guard let refusal else { return }
        Measured.count("mimeo_budget_refused_total", [("kind", kind)])
        throw ServiceError(
            refusal,
            refusal == .tooMuchHeld
                ? "this credential's requests and answers hold as much \(kind) as they may: read answers, "
                    + "ask for less at a time, or try again"
                : "the requests and answers of all clients hold as much \(kind) as they may; try again"
        )
    }

    fileprivate func give(_ count: Int, of account: Account) {
        guard count > 0 else { return }
        state.withLock { state in
            state.used -= count
            let own = (state.byAccount[account] ?? count) - count
            state.byAccount[account] = own > 0 ? own : nil
        }
    }
}

/// The bytes that one request, answer or stream holds of a budget, until it ends.
///
/// `grow` and `shrink` are called by one task or thread at a time; several may keep it alive.
public final class ClientHold: Sendable {
    private let budget: ClientBudget
    private let account: Account
    private let held = Atomic<Int>(0)

    /// Holds nothing yet.
    public init(_ account: Account, of budget: ClientBudget = .memory) {
        self.account = account
        self.budget = budget
    }

    deinit {
        let count = held.load(ordering: .relaxed)
        budget.give(count, of: account)
        if count > 0 { FreeMemory.giveBack(after: count) }
    }

    /// The bytes that it holds.
    public var bytes: Int { held.load(ordering: .relaxed) }

    /// Holds so many bytes more.
    /// - Throws: `SRV-0430`, `SRV-0503`; then it holds what it held before.
    public func grow(by count: Int) throws(ServiceError) {
        guard count > 0 else { return }
        try budget.take(count, for: account)
        held.add(count, ordering: .relaxed)
    }

    /// Holds at least so many bytes. Throws as `grow`.
    public func grow(to count: Int) throws(ServiceError) { try grow(by: count - bytes) }

    /// Holds so many bytes, more or fewer than before; false if there are not as many, and nothing changes.
    public func set(_ count: Int) -> Bool {
        if count < bytes { shrink(by: bytes - count) }
        do {
            try grow(to: count)
            return true
        } catch {
            return false
        }
    }

    /// Gives some back before its end.
    public func shrink(by count: Int) {
        let count = min(count, bytes)
        held.subtract(count, ordering: .relaxed)
        budget.give(count, of: account)
    }
}
