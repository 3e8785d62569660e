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
    /// The memory of a long one; 0 for others.
    let memory: Int
    /// A document that changed after this offset and does not match is named to the subscriber.
    private(set) var namesAfter: Offset
    private(set) var state = State.reading
    /// The query as all sessions know it; nil in a session that shares nothing.
    let followed: (any FollowedQuery)?

    /// A subscription that `catchUp` or `list` begins.
    init(
        id: UInt64, query: SubscriptionQuery, size: Int, memory: Int, namesAfter: Offset,
        followed: (any FollowedQuery)?
    ) {
        self.id = id
        self.query = query
        self.size = size
        self.memory = memory
        self.namesAfter = namesAfter
        self.followed = followed
    }

    /// The offset after which the live stream speaks for it; nil while it is catching up.
    var liveFrom: Offset? { if case .live(let offset) = state { offset } else { nil } }

    // MARK: Pages

    /// Its next page begins here. `namesAfter`: see there; nil leaves it.
    mutating func catchUp(from start: PageStart, namesAfter: Offset? = nil) {
        self.namesAfter = namesAfter ?? self.namesAfter
        state = .due(start)
    }

    /// A page of it is being read.
    mutating func pageBegan() { state = .reading }

    /// The live stream speaks for it after this offset.
    mutating func goLive(from offset: Offset) { state = .live(from: offset) }

    // MARK: Holdings

    /// Goes on with a list of the subscriber's holdings, after the last document that was compared.
    mutating func list(from start: LogPosition, after last: DocumentID, _ flow: inout FlowControl) {
        state = .listing(Listing(start: start, after: last))
        flow.send(.list(id: id, after: last))
    }

    /// Asks from the start for the subscriber's holdings; changes after `start` follow the list. A list that
    /// is under way ends first: `listAgain` asks then.
    mutating func list(from start: LogPosition?, _ flow: inout FlowControl) {
        guard let start else { return }
        if case .listing(var listing) = state, !listing.isListed {
            listing.discard()
            return state = .listing(listing)
        }
        returnCredit(&flow)
        state = .listing(Listing(start: start))
        flow.send(.list(id: id))
    }

    /// Asks again for holdings that were listed under earlier rights, once all of them are here.
    mutating func listAgain(from start: LogPosition?, _ flow: inout FlowControl) {
        guard case .listing(var listing) = state, listing.isDiscarded else { return }
        listing.dropPages(&flow)
        state = .listing(listing)
        guard listing.isListed, let start else { return }
        state = .listing(Listing(start: start))
        flow.send(.list(id: id))
    }

    /// A part of the holdings is compared.
    /// - Returns: the place where a later session may go on, with its rights' mark; nil if there is none yet.
    mutating func compared(
        through last: DocumentID?, rights: [UInt8], _ flow: inout FlowControl
    ) -> (isDone: Bool, resume: ResumeToken?)? {
        guard case .listing(var listing) = state else { return nil }
        let start = listing.start
        if listing.answered(through: last, &flow) {
            catchUp(from: .resumed(start, namesAfter: start.offset), namesAfter: start.offset)
            return (true, .pages(start, namesAfter: start.offset, rights: rights))
        }
        state = .listing(listing)
        return (false, listing.after.map { .listing(start, after: $0, rights: rights) })
    }

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

    // MARK: Matching

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
