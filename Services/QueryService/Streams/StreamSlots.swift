import Identity
import Synchronization

/// Counts the open streams: `state` guards the counts.
final class StreamSlots: Sendable {
    private struct State {
        var all = 0
        var byCredential: [String: Int] = [:]
    }

    private let most: Int
    private let mostOfCredential: Int
    private let state = Mutex(State())

    init(most: Int, ofCredential: Int) { (self.most, mostOfCredential) = (most, ofCredential) }

    /// A stream's place, for as long as it lives.
    final class Slot: Sendable {
        private let slots: StreamSlots
        private let credential: String
        fileprivate init(_ slots: StreamSlots, _ credential: String) {
            (self.slots, self.credential) = (slots, credential)
        }
        deinit { slots.leave(credential) }
    }

    /// Takes a place.
    /// - Throws: `QUERY-0504`.
    func take(_ identity: Identity) throws(QueryError) -> Slot {
        let credential = "\(identity.databaseID)/\(identity.author)"
        let isFree = state.withLock { state in
            let own = state.byCredential[credential] ?? 0
            guard state.all < most, own < mostOfCredential else { return false }
            state.all += 1
            state.byCredential[credential] = own + 1
            return true
        }
        guard isFree else { throw QueryError(.tooManyStreams) }
        return Slot(self, credential)
    }

    /// The number of open streams.
    var count: Int { state.withLock { $0.all } }

    private func leave(_ credential: String) {
        state.withLock { state in
            state.all -= 1
            let own = (state.byCredential[credential] ?? 1) - 1
            state.byCredential[credential] = own > 0 ? own : nil
        }
    }
}
