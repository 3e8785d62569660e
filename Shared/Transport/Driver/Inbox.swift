import CRDT
import Sync

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
struct Inbox {
    /// What waits: its events, and who is told when the session has handled them (the socket's reader).
    struct Item {
        var events: [Event]
        var handled: (@Sendable () -> Void)?
        /// Whether its events are what `commits` holds by then.
        fileprivate var isCommits = false
    }

    private struct Commits {
        /// Each once, in the order in which they began to write: what a later one wrote may rest on that.
        var actors: [ActorID] = []
        var wanted: [DocumentKey] = []
        var isWanted: Set<DocumentKey> = []
        var linksBrought = false
    }

    private var items: [Item] = []
    /// What waits begins here.
    private var first = 0
    /// Nil while no item of them waits.
    private var commits: Commits?

    /// Whether nothing waits.
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
            // What was taken is moved away when it is the larger part, so each item is moved once at most.
            if first > items.count / 2 {
                items.removeFirst(first)
                first = 0
            }
        }
        if item.isCommits, let told = commits {
            commits = nil
            // What own operations may rest on goes first.
            item.events = told.linksBrought ? [.linksBrought] : []
            item.events += told.actors.map { .ownOperationAdded($0) }
            if !told.wanted.isEmpty { item.events.append(.wanted(told.wanted)) }
        }
        return item
    }
}
