import CRDT
import Exchange

/// Everything that one machine of a session tells another, in the order of a session's life. Machines see
/// nothing else of each other, so this list is the drawing of the session.
///
/// A machine returns its messages; `Session` delivers them one after the other, each with those that it
/// brings about, before the next. A message of a machine to itself keeps the order of what it sends.
///
/// Besides frames, answers and what the application asks, `Session` itself tells a machine:
/// - reader: `chunk`, a part of a large message has come; `credited`; `storeChanged`, an own operation is
///   new;
/// - writer: `greet`, its hello may leave; `credited`; `eventHandled`, nothing is left to do for an event;
/// - publisher: `greeted`, the session is open; `credited`; `otherSideHas`, documents in a frame of a link;
/// - admitter: `greeted`.
enum Message: Sendable {
    // Writer to reader:
    /// Peer and server are in line: subscriptions are asked for. Staged pages are named unless the log has
    /// lost its end.
    case exchangeBegins(resumesStaged: Bool)
    /// The server has everything that this side wrote before the reader asked for this (`askWhenReached`).
    case barrierReached(Reader.Ask)
    /// The next request for states may leave.
    case askNext
    /// Own operations are durable in the server's log, none of them after the offset.
    case acknowledged([Acknowledgement], offset: Offset)
    /// Refused subscriptions may be asked for again.
    case rightsChanged
    /// Nothing more is stored until the repair has ended.
    case repairIsDue
    /// Is nothing being stored? Then `readerIsIdle` is the answer.
    case mayRepair
    /// Will the stream come to a position without anything being stored before? If not,
    /// `streamWillNotFollow` is the answer.
    case mayFollow(to: LogPosition?)
    /// The repair stores the stream up to a position: `streamLent` is the answer.
    case lendStream(to: LogPosition?)
    /// The repair needs the states of these documents; the stream was not stored.
    case fetchForRepair([DocumentKey])
    /// `isFollowed`: the stream that was lent is stored.
    case repairEnded(isFollowed: Bool, isAnotherDue: Bool)

    // Reader to writer:
    /// Tell when the server has everything that was written before this.
    case askWhenReached(Reader.Ask)
    /// Documents were purged at the server while own writes to them are not there: these have to be moved.
    case purged([DocumentKey])
    case readerIsIdle
    /// States that a repair needs; `isComplete` if none is missing.
    case repairStates([(key: DocumentKey, state: EncodedState?)], at: LogPosition?, isComplete: Bool)
    case streamWillNotFollow
    case streamLent(Reception?)

    // Reader to itself, writer to itself:
    /// Asks for a subscription, one after the other.
    case announce(key: [UInt8])
    /// Uploads go on, and barriers may be reached.
    case resume
    /// The exchange begins, or goes on.
    case beginExchange

    // Admitter to publisher:
    /// An upload of the receiver is being appended: a position waits for its acknowledgement.
    case appendBegan
    /// The upload is answered; its operations are in the log, none of them after the offset.
    case appendEnded(through: Offset)

    // Admitter to itself:
    /// The publisher has told how far the stream is: the credit of the upload goes back.
    case progressTold(size: Int)

    // Publisher to admitter:
    /// The stream passed operations over up to the offset, with answers to the receiver's own writes.
    case answersSkipped(through: Offset)
}

/// The answers that a machine waits for. A driver may give no other: the machine traps.
enum Answer: Sendable, Equatable {
    case ownActors, frontier, meeting
    case page(UInt64)
    case comparison(UInt64)
    /// A page or a comparison, whichever was asked for.
    case refusal(UInt64)
    case stream, states
    case append, token, holdingsComparison, admission
    case historyComparison, seen, ownOperations, holdings, bases, repair, repairStaging
    case storing, outdated, vectors, held

    /// The subscription that it is for.
    var id: UInt64? {
        switch self {
        case .page(let id), .comparison(let id), .refusal(let id): id
        default: nil
        }
    }
}

extension Event {
    /// The answer that it is; nil for an event that comes by itself.
    var answer: Answer? {
        switch self {
        case .opened, .frame, .subscribe, .unsubscribe, .ownOperationAdded, .linksBrought, .wanted, .renew,
            .tell, .took, .renewCertificate, .grantChanged, .failed, .finish, .disconnected:
            nil
        case .ownActors: .ownActors
        case .met: .meeting
        case .historyCompared: .historyComparison
        case .repairNeeds, .repaired: .repair
        case .repairStaged: .repairStaging
        case .seenNoted: .seen
        case .holdings: .holdings
        case .held: .held
        case .basesGiven: .bases
        case .ownOperations: .ownOperations
        case .stored, .returning, .wanting: .storing
        case .outdated: .outdated
        case .vectors: .vectors
        case .frontier: .frontier
        case .lacking: .holdingsComparison
        case .statesAdmitted: .admission
        case .page(let id, _), .unknownPlace(let id): .page(id)
        case .compared(let id, _): .comparison(id)
        case .tooCostly(let id): .refusal(id)
        case .renewed: .token
        case .operations, .lagging: .stream
        case .appended, .refused, .deferred: .append
        case .states: .states
        }
    }
}
