import CRDT
import Exchange

extension Writer {
    /// Everything that the writer is told: by the other side, by the driver, by the other machines.
    enum Event: Sendable {
        // The handshake:
        /// The store has named this side's actors: its hello, to which the writer adds them.
        case greet(OwnHistory, Frame.Hello)
        // Frames:
        case hello(Frame.Hello)
        case acknowledged([Acknowledgement], offset: Offset)
        case refused(Refusal)
        case deferred(Deferral)
        case granted
        case want([DocumentKey])
        case reconciled(LogPosition, declined: [UInt8]?)
        case credited
        // The application and the store:
        case ownOperationAdded(ActorID)
        case linksBrought
        case basesGiven(areHeld: Bool)
        case renew(token: String)
        // Answers of the driver:
        case historyCompared([HistoryComparison])
        case seenNoted
        case ownOperations(ActorID, [(sequence: SequenceNumber, bytes: [UInt8])])
        case holdings([DocumentVersion], isLast: Bool)
        case states([(key: DocumentKey, state: EncodedState?)], at: LogPosition?)
        case repairNeeds([DocumentKey])
        case repairStaged
        case repaired(RepairOutcome.Repaired)
        // Messages:
        case askWhenReached(Reader.Ask)
        case resume
        case beginExchange
        case eventHandled
        case readerIsIdle
        case purged([DocumentKey])
        case repairStates([(key: DocumentKey, state: EncodedState?)], at: LogPosition?, isComplete: Bool)
        case streamWillNotFollow
        case streamLent(Reception?)
    }
}
