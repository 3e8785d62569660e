import CRDT
import Sync

/// The events that wait for a session.
///
/// Bounds: a frame waits alone, since its reader waits until it is handled; answers are as many as the
/// session has asked for. The store's commits wait as one item, "there is something", however many there are:
/// the actors that have written, and the documents that are wanted, each once, the latter at most
/// `Limits.wantedDocuments`; further ones stay noted in the store, for a later session. The application
/// itself bounds its subscriptions and their ends (the server takes `Sync.Limits.subscriptions`).
///
/// Commits that were put together are told at the place of the first: writes before wanted documents, since a
/// document may be asked for only when the server has the writes before it.
struct Inbox {
    /// A waiting item: its events, and the closure that tells the socket's reader when the session has
    /// handled them.
    struct Item {
        var events: [Event]
        var handled: (@Sendable () -> Void)?
        /// True if its events are those that `commits` holds by then.
        fileprivate var isCommits = false
    }

    private struct Commits {
        /// Each once, in the order in which they began to write: writes of a later one may rest on an earlier
        /// one's.
        var actors: [ActorID] = []
        var wanted: [DocumentKey] = []
        var isWanted: Set<DocumentKey> = []
        var linksBrought = false
    }

    private var items: [Item] = []
    /// The index of the first waiting item.
    private var first = 0
    /// Nil while no item of them waits.
    private var commits: Commits?

    /// True if nothing waits.
    var isEmpty: Bool { first == items.count }

    /// Puts an event behind those that wait.
    mutating func put(_ event: Event) {
        switch event {
        case .ownOperationAdded(let actor):
            note { if !$0.actors.contains(actor) { $0.actors.append(actor) } }
        case .wanted(let keys):
            note { commits in
                for key in keys where commits.wanted.count < Limits.wantedDocuments {
                    if commits.isWanted.insert(key).inserted { commits.wanted.append(key) }
                }
            }
        case .linksBrought: note { $0.linksBrought = true }
        default: items.append(Item(events: [event]))
        }
    }

    private mutating func note(_ change: (inout Commits) -> Void) {
        var noted = commits ?? Commits()
        if commits == nil { items.append(Item(events: [], isCommits: true)) }
        commits = nil
        change(&noted)
        commits = noted
    }

    /// Puts a frame behind the events that wait; `handled` is called when it was handled, or never will be.
    mutating func put(frame: [UInt8], handled: @escaping @Sendable () -> Void) {
        items.append(Item(events: [.frame(frame)], handled: handled))
    }

    /// Takes the next item, with its events as of now: later events wait for the next call.
    mutating func next() -> Item? {
        guard first < items.count else { return nil }
        var item = items[first]
        first += 1
        if first == items.count {
            // An idle session keeps no room for what came before.
            items = []
            first = 0
        } else {
            items[first - 1] = Item(events: [])
            // Taken items are removed when they are the larger part, so each item is moved once at most.
            if first > items.count / 2 {
                items.removeFirst(first)
                first = 0
            }
        }
        if item.isCommits, let told = commits {
            commits = nil
            // Documents that own operations may rest on go first.
            item.events = told.linksBrought ? [.linksBrought] : []
            item.events += told.actors.map { .ownOperationAdded($0) }
            if !told.wanted.isEmpty { item.events.append(.wanted(told.wanted)) }
        }
        return item
    }
}
