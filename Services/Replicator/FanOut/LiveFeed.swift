import CRDT
import Exchange
import Sync
import Synchronization

/// The live stream of one database as its sessions meet it: they ask and wait without a task or an actor's
/// turn, so that one that waits costs a closure, and a write that a thousand wait for costs no thousand
/// tasks.
///
/// `state` guards everything; sessions are told outside of it. One lock covers the operations and the
/// session's queries, so a session is either answered or parked, never both.
final class LiveFeed: Sendable {
    private struct State {
        var stream: LiveStream
        /// Behind which offset each session last asked.
        var offsets: [UInt64: Offset] = [:]
    }

    private let state: Mutex<State>
    private let queries: QueryIndex

    init(_ stream: LiveStream, _ queries: QueryIndex) {
        state = Mutex(State(stream: stream))
        self.queries = queries
    }

    /// Tells a session what is behind an offset, at once or as soon as there is something; nil when it is
    /// let go before.
    func follow(after offset: Offset, for session: UInt64, tell: @escaping LiveStream.Tell) {
        let answer = state.withLock { state -> LiveStream.Answer? in
            state.offsets[session] = offset
            let followed = queries.followed(by: session)
            let answer = state.stream.answer(after: offset, for: session, following: followed)
            if answer == nil { state.stream.park(session, after: offset, shares: followed != nil, tell) }
            return answer
        }
        if let answer { tell(answer) }
    }

    /// Behind which offset a session last asked.
    func offset(of session: UInt64) -> Offset { state.withLock { $0.offsets[session] ?? 0 } }

    /// Lets a parked session go.
    func release(_ session: UInt64) { state.withLock { $0.stream.release(session) }?() }

    /// A session has ended.
    func leave(_ session: UInt64) {
        release(session)
        state.withLock { _ = $0.offsets.removeValue(forKey: session) }
    }

    /// Lets all parked sessions go.
    func releaseAll() { Self.tell(state.withLock { $0.stream.releaseAll() }) }

    /// Tells sessions that wait how far the log has got which none of them was woken by. Returns how far
    /// that is.
    func tellProgress() -> Offset {
        let (wakes, head) = state.withLock { ($0.stream.tellProgress(), $0.stream.head.offset) }
        Self.tell(wakes)
        return head
    }

    /// Tells one session, if it waits.
    func tellProgress(to session: UInt64) { state.withLock { $0.stream.tellProgress(to: session) }?() }

    /// Adds commits; returns who is to be told.
    func append(_ commits: [CommitTail.Commit], waking sessions: Set<UInt64>) -> [LiveStream.Wake] {
        state.withLock { $0.stream.append(commits, waking: sessions) { queries.followed(by: $0) } }
    }

    /// Tells them: some at a time, each run in a task, so that many are served on all processors.
    static func tell(_ wakes: [LiveStream.Wake]) {
        guard wakes.count > Limits.toldAtATime else {
            for wake in wakes { wake() }
            return
        }
        for start in stride(from: 0, to: wakes.count, by: Limits.toldAtATime) {
            let part = wakes[start..<min(wakes.count, start + Limits.toldAtATime)]
            Task { for wake in part { wake() } }
        }
    }
}
