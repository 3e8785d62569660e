import Sync
import Synchronization

/// The presence of one link's session. Actions of a session are performed side by side, so news may come
/// before the presence is open: they wait for it. Thrown away they would come again by digests only, half a
/// minute later.
///
/// `state` guards everything, and is not held while the presence is called.
final class LinkPresence: Sendable {
    private struct State {
        /// The session's number at the presence, once it is open.
        var number: UInt64?
        var early: [PresenceNews] = []
        var isOver = false
    }

    private let presence: PresenceSync?
    private let state = Mutex(State())

    init(_ presence: PresenceSync?) { self.presence = presence }

    /// The other side takes news from now on.
    func open(_ neighbour: PresenceGossip.Neighbour, record: SignedRecord?, _ port: PresenceSync.Port) {
        guard let presence else { return }
        let number = presence.open(neighbour, record: record, port)
        let (early, isOver) = state.withLock { state in
            defer { state.early = [] }
            state.number = number
            return (state.early, state.isOver)
        }
        if isOver { return presence.close(number) }
        for news in early { presence.received(news, over: number) }
    }

    /// The other side tells news.
    func received(_ news: PresenceNews) {
        let number = state.withLock { state in
            if state.number == nil, state.early.count < Limits.earlyNews { state.early.append(news) }
            return state.number
        }
        if let number { presence?.received(news, over: number) }
    }

    /// The session has ended.
    func close() {
        let number = state.withLock { state in
            state.isOver = true
            return state.number
        }
        if let number { presence?.close(number) }
    }
}
