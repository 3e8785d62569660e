import Machine
import ServiceKit
import Synchronization

/// Bounds how many folds of the past are moved at a time, since each has files as large as its database: one
/// of each account, and `Limits.movedFolds` of all. An account's further ones wait for its own first, so that
/// the line of all has each account once.
///
/// `lines` guards the accounts that move a fold or wait.
final class FoldPlaces: Sendable {
    private struct Line {
        let turns = BoundedTurns(1, waiting: Limits.waitingFolds, for: nil)
        var users = 0
    }

    private let lines = Mutex<[Account: Line]>([:])
    private let all: BoundedTurns

    init(_ count: Int = Limits.movedFolds) {
        all = BoundedTurns(count, waiting: Limits.waitingFolds, for: nil)
    }

    /// How many folds of an account are moved, or wait.
    func users(of account: Account) -> Int { lines.withLock { $0[account]?.users ?? 0 } }

    /// Returns true when the account has its place, which it gives back by `end`; false if too many wait, or
    /// the task is cancelled.
    func begin(_ account: Account) async -> Bool {
        let own = lines.withLock { lines in
            lines[account, default: Line()].users += 1
            return lines[account]?.turns
        }
        guard let own, await own.begin() else {
            leave(account)
            return false
        }
        guard await all.begin() else {
            own.end()
            leave(account)
            return false
        }
        return true
    }

    /// Gives a place back.
    func end(_ account: Account) {
        all.end()
        lines.withLock { $0[account]?.turns }?.end()
        leave(account)
    }

    private func leave(_ account: Account) {
        lines.withLock { lines in
            lines[account]?.users -= 1
            if lines[account]?.users == 0 { lines[account] = nil }
        }
    }
}
