import CRDT
import Exchange

extension Reader {
    /// Everything that the reader is told: by the other side, by the driver, by the other machines.
    enum Event: Sendable {
        // Frames:
        case catchUp(Frame.CatchUp, size: Int)
        case operations(Frame.Operations, size: Int)
        case progress(LogPosition)
        case skipped(LogPosition, size: Int)
        case states(
            [(key: DocumentKey, state: EncodedState?)], at: LogPosition?, isPart: Bool,
            gone: [DocumentVersion],
            size: Int)
        case subscriptionRefused(id: UInt64, SyncError, hides: Bool)
        case list(id: UInt64, after: DocumentID?)
        case chunk
        case credited
        // The application and the store:
        case subscribe(SubscriptionRequest)
        case unsubscribe(key: [UInt8])
        case storeChanged
        case wanted([DocumentKey])
        // Answers of the driver:
        case stored
        case returning([DocumentKey])
        case wanting([DocumentKey])
        case outdated([DocumentKey])
        case vectors([DocumentVersion])
        case held(key: [UInt8], [DocumentVersion], isLast: Bool)
        // Messages:
        case exchangeBegins(resumesStaged: Bool)
        case announce(key: [UInt8])
        case barrierReached(Ask)
        case askNext
        case acknowledged([Acknowledgement], offset: Offset)
        case rightsChanged
        case repairIsDue
        case mayRepair
        case mayFollow(to: LogPosition?)
        case lendStream(to: LogPosition?)
        case fetchForRepair([DocumentKey])
        case repairEnded(isFollowed: Bool, isAnotherDue: Bool)
    }

    /// A request that may leave only when the server has this side's earlier writes: own writes are not
    /// echoed, so a state without them would be taken for the last word by a store that has evicted it.
    enum Ask: Sendable {
        case documents([DocumentKey])
        case subscription(key: [UInt8])
    }
}
