import CRDT
import Sync
import Synchronization

/// The events that wait for a session.
///
/// Bounds: a frame waits alone, since its reader waits until it is handled; answers are as many as the
/// session has asked for. What the store tells of its own commits waits as one item, "there is something",
/// however many there are: which actors have written, and which documents are wanted, each once, the latter
/// at most `Limits.wantedDocuments`; what is beyond stays noted in the store, for a later session. What the
/// application subscribes to and cancels is its own to bound (the server takes
/// `Sync.Limits.subscriptions`).
///
/// What is put together is told at the place of the first: writes before what is wanted, since a document
/// may be asked for only when the server has what was written before.
final class Inbox: Sendable {
    /// What waits.
    enum Item: Sendable {
        /// An event, and who is resumed when the session has handled it: the socket's reader.
        case event(Event, handled: CheckedContinuation<Void, Never>?)
        /// Something of the store's own commits.
        case commits
    }

    private struct Commits {
        var isWaiting = false
        /// Each once, in the order in which they began to write: what a later one wrote may rest on that.
        var actors: [ActorID] = []
        var wanted: [DocumentKey] = []
        var isWanted: Set<DocumentKey> = []
    }

    /// The items in order.
    let items: AsyncStream<Item>
    private let input: AsyncStream<Item>.Continuation
    private let commits = Mutex(Commits())

    init() { (items, input) = AsyncStream.makeStream(of: Item.self) }

    /// Puts an event behind those that wait.
    func put(_ event: Event) {
        switch event {
        case .ownOperationAdded(let actor):
            note { if !$0.actors.contains(actor) { $0.actors.append(actor) } }
        case .wanted(let keys):
            note { commits in
                for key in keys where commits.wanted.count < Limits.wantedDocuments {
                    if commits.isWanted.insert(key).inserted { commits.wanted.append(key) }
                }
            }
        default: input.yield(.event(event, handled: nil))
        }
    }

    private func note<Ignored>(_ change: (inout Commits) -> Ignored) {
        let isFirst = commits.withLock { commits in
            _ = change(&commits)
            defer { commits.isWaiting = true }
            return !commits.isWaiting
        }
        if isFirst { input.yield(.commits) }
    }

    /// Puts a frame behind the events that wait, and returns when it was handled, or never will be.
    func put(frame: [UInt8]) async {
        await withCheckedContinuation { handled in
            let result = input.yield(.event(.frame(frame), handled: handled))
            if case .terminated = result { handled.resume() }
        }
    }

    /// The events of an item, now: what is put from here on waits anew.
    func events(of item: Item) -> [Event] {
        guard case .commits = item else {
            guard case .event(let event, _) = item else { return [] }
            return [event]
        }
        let told = commits.withLock { commits in
            defer { commits = Commits() }
            return commits
        }
        let added = told.actors.map { Event.ownOperationAdded($0) }
        return told.wanted.isEmpty ? added : added + [.wanted(told.wanted)]
    }

    /// Takes nothing more, and lets go of everyone who still waits for an event to be handled.
    func close() {
        input.finish()
        let items = items
        Task.detached { for await item in items { item.release() } }
    }
}

extension Inbox.Item {
    /// The event was handled, or never will be.
    func release() {
        if case .event(_, let handled) = self { handled?.resume() }
    }
}
