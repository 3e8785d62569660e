import CRDT
import Exchange

extension Publisher {
    /// Everything that the publisher is told: by the other side, by the driver, by the other machines.
    enum Event: Sendable {
        // Frames:
        case subscribe(Frame.Subscribe, size: Int)
        case unsubscribe(id: UInt64)
        case held(id: UInt64, HoldingsPage, size: Int)
        case want([DocumentKey], held: [DocumentVersion])
        // Answers of the driver:
        case page(id: UInt64, CatchUpPage)
        case unknownPlace(id: UInt64)
        case compared(id: UInt64, HoldingsAnswer)
        case tooCostly(id: UInt64)
        case operations([FoldedOperation], through: LogPosition)
        case lagging(LogPosition)
        case states([(key: DocumentKey, state: EncodedState?)], at: LogPosition?, gone: [DocumentVersion])
        // The driver:
        case grantChanged(ReadAccess)
        // Messages:
        case greeted(head: LogPosition)
        /// Documents that the receiver has sent, and so has.
        case otherSideHas([DocumentUpdate])
        case credited
        case appendBegan
        case appendEnded(through: Offset)
    }
}
