import CRDT
import Synchronization

/// The subscribers in this process that wait for appends, by database.
///
/// The writer of this process announces a head right after its commit, and the watcher announces heads of
/// other processes. Announcing the last announced head again wakes nobody, so the two may overlap. A lower
/// head wakes: either the log was restored, or a hint was late, which costs one look.
///
/// `state` guards everything. A stream buffers one wake-up, which coalesces them: a wake-up that replaces
/// another says only that something has changed, because announcements may overtake each other.
package final class ChangeHub: Sendable {
    private struct Topic {
        var announced: Offset = 0
        var subscribers: [UInt64: AsyncStream<LogChange>.Continuation] = [:]
    }

    private struct State {
        var topics: [DatabaseID: Topic] = [:]
        var lastSubscriber: UInt64 = 0
        var isFinished = false
    }

    private let state = Mutex(State())

    /// A hub without subscribers.
    package init() {}

    /// True if nobody waits.
    package var isEmpty: Bool { state.withLock { $0.topics.isEmpty } }

    /// A stream of wake-ups; the first comes at once.
    package func subscribe(to database: DatabaseID) -> AsyncStream<LogChange> {
        let (stream, continuation) = AsyncStream<LogChange>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state -> UInt64? in
            guard !state.isFinished else { return nil }
            state.lastSubscriber += 1
            state.topics[database, default: Topic()].subscribers[state.lastSubscriber] = continuation
            return state.lastSubscriber
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in self?.unsubscribe(id, from: database) }
        continuation.yield(LogChange())
        return stream
    }

    /// Wakes the subscribers of a database, if this head is new. `entries` are the last ones up to the
    /// head, if they are at hand.
    package func announce(_ database: DatabaseID, head: Offset, entries: [LogEntry] = []) {
        let subscribers = state.withLock { state -> [AsyncStream<LogChange>.Continuation] in
            guard var topic = state.topics[database], head != topic.announced else { return [] }
            topic.announced = head
            state.topics[database] = topic
            return Array(topic.subscribers.values)
        }
        for subscriber in subscribers { subscriber.wake(LogChange(entries: entries)) }
    }

    /// Ends all streams, present and future.
    package func finish() {
        let topics = state.withLock { state in
            state.isFinished = true
            defer { state.topics = [:] }
            return state.topics
        }
        for topic in topics.values { topic.subscribers.values.forEach { $0.finish() } }
    }

    private func unsubscribe(_ id: UInt64, from database: DatabaseID) {
        state.withLock { state in
            state.topics[database]?.subscribers[id] = nil
            if state.topics[database]?.subscribers.isEmpty == true { state.topics[database] = nil }
        }
    }
}
