import CRDT
import Exchange

/// Brings a peer whose writes the server did not take, or does not know, back in line (rules 9, 20 and 21):
/// a part of the writer.
///
/// Flow: the writer waits until nothing is being stored and nothing is on its way to the server: it would
/// be in no state that the server sends, and be acknowledged before the states are here. Then it asks the
/// server for the states of all documents concerned. One transaction of the store replaces these documents,
/// sets the refused operations aside, and moves operations that the server cannot take as they are to a new
/// actor (decision 0009). Everything else is uploaded as it was written. `Example.md`, section 4, is a repair
/// that a test replays.
///
/// | step | begins with | the writer tells the reader | goes on with |
/// |---|---|---|---|
/// | `due` | a refusal, a fork, a purge | `repairIsDue`; after each event `mayRepair` | `readerIsIdle` |
/// | `borrowing` | `borrow` | `lendStream`: what has come of the stream is stored with it | `streamLent` |
/// | `deciding` | `request` | nothing: the store has `Action.repair` | `.repairNeeds` or `.repaired` |
/// | `fetching` | `fetch` | `fetchForRepair`: the states of documents | `repairStates`, `.repairStaged` |
/// | `following` | the last `staged` | after each event `mayFollow` | `streamWillNotFollow`, to `borrowing` |
/// | `none` | `ended` | `repairEnded` | |
///
/// Invariants: from the moment a repair is due nothing is uploaded and nothing of the stream is stored, so
/// the states that are fetched hold everything that cursors here stand for.
struct RepairCase: Sendable {
    enum Step: Sendable {
        case none
        /// It waits until nothing is being stored and everything that was sent is answered.
        case due
        /// The reader is asked for what has come of the stream.
        case borrowing
        /// The store decides what it needs, or repairs.
        case deciding
        /// States were asked for; `staging` frames of them are being staged.
        case fetching(staging: Int, isComplete: Bool)
        /// All states are staged; the stream is on its way to where they stand.
        case following

        /// The step's name, for logs and traps.
        var name: String {
            switch self {
            case .none: "none"
            case .due: "due"
            case .borrowing: "borrowing the stream"
            case .deciding: "deciding"
            case .fetching(staging: 0, _): "fetching states"
            case .fetching: "staging states"
            case .following: "following the stream"
            }
        }
    }

    private(set) var step = Step.none
    /// Refusals since the last repair.
    private var refused: [Refusal] = []
    /// Documents purged at the server with own writes that it does not have: these are moved, onto nothing
    /// (rule 14).
    private var purged: Set<DocumentKey> = []
    /// The position of the server's log that the latest states stand for.
    private(set) var seen: LogPosition?
    /// True if operations were moved because of the clock and none was admitted since: moving them again
    /// would go on for ever.
    private var hasMovedForClock = false
    /// Repairs in a row for a base that the server lacks, with no operation admitted since.
    private var roundsForBase = 0

    /// True from the moment when something must be repaired to its end.
    var isDue: Bool { if case .none = step { false } else { true } }

    // MARK: Reasons

    /// A history is forked or closed.
    mutating func becomeDue() { if case .none = step { step = .due } }

    /// Own writes to documents that were purged.
    mutating func note(purged keys: [DocumentKey]) {
        purged.formUnion(keys)
        becomeDue()
    }

    /// Writes that the own grant forbids.
    mutating func note(refused refusals: [Refusal]) {
        refused += refusals
        becomeDue()
    }

    /// The server refused an operation; `isFirst` of its actor. A further one that comes too late for the
    /// repair is told once more, when it comes again under its new name.
    mutating func note(_ refusal: Refusal, isFirst: Bool) throws(SyncError) {
        guard isFirst else {
            let isFurther = refused.last.map {
                $0.actor == refusal.actor && $0.sequence < refusal.sequence
            }
            if isFurther ?? false, !refusal.error.isOfClock { refused.append(refusal) }
            return
        }
        if refusal.error.isOfClock {
            guard !hasMovedForClock else { throw refusal.error }
            hasMovedForClock = true
        }
        note(refused: [refusal])
    }

    /// The server has admitted something.
    mutating func admitted() {
        hasMovedForClock = false
        roundsForBase = 0
    }

    // MARK: Steps

    /// The store can decide, or repair, as soon as the reader has lent the stream.
    mutating func borrow() {
        switch step {
        case .due, .following: step = .borrowing
        case .none, .borrowing, .deciding, .fetching:
            preconditionFailure("nothing waits to be repaired; the repair is \(step.name)")
        }
    }

    /// The store's request, after the reader has lent the stream; the writer adds its actors.
    mutating func request(
        admitted: [ActorID: SequenceNumber], closed: Set<ActorID>, diverged: Set<ActorID>, seen: LogPosition?,
        following: Reception?
    ) -> RepairRequest {
        guard case .borrowing = step else {
            preconditionFailure("the stream was not borrowed; the repair is \(step.name)")
        }
        step = .deciding
        var request = RepairRequest(
            admitted: admitted, closed: closed, diverged: diverged,
            refused: refused.filter { !$0.error.isOfClock },
            isForClock: refused.contains { $0.error.isOfClock }, gone: purged, seen: seen)
        request.isFinal = roundsForBase >= Limits.roundsForBase
        request.following = following
        return request
    }

    /// The store needs the server's states of documents.
    mutating func fetch() {
        guard case .deciding = step else {
            preconditionFailure("nothing was decided; the repair is \(step.name)")
        }
        step = .fetching(staging: 0, isComplete: false)
    }

    /// States have come.
    /// - Returns: whether there are any to be staged.
    mutating func fetched(isAny: Bool, at position: LogPosition?, isComplete: Bool) -> Bool {
        guard case .fetching(let staging, _) = step else {
            preconditionFailure("no states were asked for; the repair is \(step.name)")
        }
        seen = position ?? seen
        step = .fetching(staging: staging + (isAny ? 1 : 0), isComplete: isComplete)
        return isAny
    }

    /// A frame of states is staged.
    mutating func staged() {
        guard case .fetching(let staging, let isComplete) = step, staging > 0 else {
            preconditionFailure("nothing was being staged; the repair is \(step.name)")
        }
        step =
            staging == 1 && isComplete ? .following : .fetching(staging: staging - 1, isComplete: isComplete)
    }

    /// The store is repaired.
    mutating func ended(_ outcome: RepairOutcome.Repaired) {
        guard case .deciding = step else {
            preconditionFailure("nothing was repaired; the repair is \(step.name)")
        }
        var next = RepairCase()
        next.hasMovedForClock = hasMovedForClock
        next.roundsForBase = roundsForBase + (refused.contains(where: \.error.isOfBase) ? 1 : 0)
        if !outcome.returning.isEmpty { next.note(purged: outcome.returning) }
        self = next
    }
}
