import CRDT
import DQL
import Exchange

/// A subscription of the other side.
struct ServedSubscription: Sendable {
    enum State: Sendable {
        /// The live stream speaks for it after this offset.
        case live(from: Offset)
        /// Its next page begins here.
        case due(PageStart)
        /// A page of it is being read.
        case reading
        /// The receiver lists its holdings.
        case listing(Listing)
    }

    /// Its number on the wire.
    let id: UInt64
    let query: SubscriptionQuery
    /// The bytes of the frame that asked for it.
    let size: Int
    /// A document that changed after this offset and does not match is named to the subscriber.
    var namesAfter: Offset
    var state: State
    /// The query as all sessions know it; nil in a session that shares nothing.
    let followed: (any FollowedQuery)?

    /// The offset after which the live stream speaks for it; nil while it is catching up.
    var liveFrom: Offset? { if case .live(let offset) = state { offset } else { nil } }

    /// Gives back the credit of pages of holdings that wait.
    func returnCredit(_ flow: inout FlowControl) {
        if case .listing(let listing) = state { listing.returnCredit(&flow) }
    }

    /// A page of the subscriber's holdings has come.
    mutating func listed(_ page: HoldingsPage, _ size: Int) throws(SyncError) {
        guard case .listing(var listing) = state, !listing.isListed else { throw .unexpected("held") }
        // In place: as many pages wait as the other side has had credit for.
        state = .reading
        defer { state = .listing(listing) }
        try listing.take(page, size, of: query.collection)
    }

    /// Returns whether a document matches in this state; nil if that was interrupted.
    func matches(
        _ key: DocumentKey, _ state: EncodedState?, _ interruption: (@Sendable () -> Interruption?)?
    ) throws(SyncError) -> Bool? {
        guard let state else { return false }
        if interruption?() != nil { return nil }
        do {
            return try state.withUnsafeBytes { bytes in
                let document = try DocumentReader(bytes)
                let record = DocumentRecord(id: key.id, document: document)
                return try document.isLive && query.matches(record, interruption: interruption)
            }
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            return nil
        } catch {
            throw SyncError(.unavailable, "a stored document does not decode: \(error)")
        }
    }
}
