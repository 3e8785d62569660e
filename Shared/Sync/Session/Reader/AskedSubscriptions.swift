import CRDT
import DQL
import Exchange

/// The subscriptions of this side, and the holdings that the server has asked for: a part of the reader.
///
/// A document that matches no subscription any more is stale, and no stream tells of it. So for one
/// subscription of each collection all holdings of the collection are named, and the others of the
/// collection wait until that one is answered (`isNamedBeside`).
struct AskedSubscriptions: Sendable {
    struct Subscription: Sendable {
        enum State: Sendable {
            /// The server was not asked yet.
            case unasked
            /// The server refused it: it is asked again when the rights change.
            case refused
            case catchingUp(id: UInt64)
            /// Every position that the server tells after the offset counts for it.
            case live(id: UInt64, from: Offset)
        }

        var request: SubscriptionRequest
        var state = State.unasked
        /// The collection it asks for; nil for a statement that is no subscription.
        let collection: CollectionName?
        /// True if the store may hold matching documents by now, whatever the request says.
        var mayHold: Bool
        /// True if the server has ever told, or begun to tell, what it lacked of the subscription.
        var hasBegun: Bool
        /// True if all holdings of its collection are named for it, since the list that was begun last.
        var namesAll = false

        /// Its number on the wire.
        var id: UInt64? {
            switch state {
            case .unasked, .refused: nil
            case .catchingUp(let id), .live(let id, _): id
            }
        }

        var liveFrom: Offset? { if case .live(_, let offset) = state { offset } else { nil } }
        var isLive: Bool { liveFrom != nil }
        var isRefused: Bool { if case .refused = state { true } else { false } }
        var key: [UInt8] { request.key }
    }

    /// A list that the server asked for and this side has not completed.
    private struct OwedList: Sendable {
        let id: UInt64
        /// It goes on after this id.
        var after: DocumentID?
        /// True if all holdings of the collection are named.
        var isWhole: Bool
        /// True if nothing of it was read, because another subscription of the collection comes first.
        var waits: Bool
    }

    private var all: [Subscription] = []
    private var nextID: UInt64 = 1
    /// The collections of all subscriptions so far, and whether anything was written or wanted: the store may
    /// hold more when it is asked than when the application subscribed.
    private var collections: Set<CollectionName> = []
    private var hasOthers = false
    /// Keys cancelled in this session: their staged pages are dropped, even if a request put together before
    /// names them.
    private var cancelled: Set<[UInt8]> = []
    /// Lists, in the order in which the server asked; and the one that the store reads.
    private var lists: [OwedList] = []
    private(set) var readingList: UInt64?

    // MARK: Subscribing

    /// The store has written, or wants, something.
    mutating func storeChanged() { hasOthers = true }

    /// Adds a subscription. (An application that tells of all subscriptions when a session begins may tell of
    /// one twice.)
    /// - Returns: whether it is new.
    mutating func add(_ request: SubscriptionRequest) -> Bool {
        guard !all.contains(where: { $0.key == request.key }) else { return false }
        let request = cancelled.contains(request.key) ? request.startingOver : request
        let collection = request.collection
        let isFirst = collection.map { collections.insert($0).inserted } ?? true
        all.append(
            Subscription(
                request: request, collection: collection, mayHold: !isFirst,
                hasBegun: request.cursor != nil || request.resume != nil))
        return true
    }

    /// Removes a subscription.
    /// - Returns: its id if the server was asked, and whether pages of it may be staged.
    mutating func cancel(_ key: [UInt8]) -> (id: UInt64?, isStaging: Bool) {
        cancelled.insert(key)
        guard let index = all.firstIndex(where: { $0.key == key }) else { return (nil, false) }
        let subscription = all.remove(at: index)
        let isAsked = subscription.id != nil || subscription.request.resume != nil
        return (subscription.id, isAsked && !subscription.isLive)
    }

    /// The keys of all subscriptions, in order.
    var keys: [[UInt8]] { all.map(\.key) }

    func subscription(_ key: [UInt8]) -> Subscription? { all.first { $0.key == key } }

    func key(of id: UInt64) -> [UInt8]? { all.first { $0.id == id }?.key }

    /// Asks the server for a subscription that it was not asked for.
    mutating func ask(_ key: [UInt8], resumes: Bool) -> Frame.Subscribe? {
        guard let index = all.firstIndex(where: { $0.key == key && $0.id == nil }) else { return nil }
        let id = nextID
        nextID += 1
        all[index].state = .catchingUp(id: id)
        let request = all[index].request
        var frame = Frame.Subscribe(
            id: id, statement: request.statement, arguments: request.arguments, cursor: request.cursor)
        frame.resume = resumes ? request.resume : nil
        frame.holds = request.holds || hasOthers || all[index].mayHold
        frame.rights = request.rights
        return frame
    }

    /// The server refused a subscription.
    mutating func refuse(_ id: UInt64) -> Subscription? {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return nil }
        all[index].state = .refused
        all[index].mayHold = true
        all[index].hasBegun = false
        all[index].namesAll = false
        let request = all[index].request
        // Its cursor and tokens stand for rights that are no more.
        all[index].request = SubscriptionRequest(
            key: request.key, statement: request.statement, arguments: request.arguments, cursor: nil,
            holds: request.holds)
        return all[index]
    }

    /// The rights have changed: refused subscriptions may be asked for again.
    /// - Returns: their keys.
    mutating func forgiveRefused() -> [[UInt8]] {
        let keys = all.filter(\.isRefused).map(\.key)
        for index in all.indices where all[index].isRefused { all[index].state = .unasked }
        return keys
    }

    // MARK: Catching up

    /// A page without end has come: positions do not count for the subscription, also if they did before.
    mutating func catchesUp(_ id: UInt64) {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return }
        all[index].state = .catchingUp(id: id)
    }

    /// The last page is stored.
    /// - Returns: its key; nil if it was cancelled.
    mutating func becomesLive(_ id: UInt64, from offset: Offset) -> [UInt8]? {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return nil }
        all[index].state = .live(id: id, from: offset)
        all[index].hasBegun = true
        return all[index].key
    }

    var areAllLive: Bool { !all.isEmpty && all.allSatisfy(\.isLive) }

    /// The offsets where live subscriptions began to be live.
    var liveFrom: [Offset] { all.compactMap(\.liveFrom) }

    /// The cursors that a position moves.
    func cursors(at position: LogPosition) -> [(key: [UInt8], position: LogPosition)] {
        all.filter(\.isLive).map { ($0.key, position) }
    }

    /// The keys of live subscriptions that are about to be listed: documents that they pass from here on
    /// may be hidden from them, so their cursors stand for nothing, whatever becomes of the list.
    func overtaken(_ isListAhead: (UInt64) -> Bool) -> [[UInt8]] {
        all.filter { $0.isLive && $0.id.map(isListAhead) ?? false }.map(\.key)
    }

    /// The keys of subscriptions that may have lost a right to these documents: they are not live, or about
    /// to be listed. The server lacking a document may only mean that it may not be read now; once it may
    /// be again, nobody would tell of it.
    func uncertain(of documents: [DocumentKey], _ isListAhead: (UInt64) -> Bool) -> [[UInt8]] {
        all.filter { subscription in
            guard let id = subscription.id, let collection = subscription.collection else { return false }
            return (!subscription.isLive || isListAhead(id))
                && documents.contains { $0.collection == collection }
        }.map(\.key)
    }

    // MARK: Lists

    /// Begins a list, from the start or after an id.
    /// - Returns: its key; nil if it was cancelled.
    mutating func beginList(_ id: UInt64, after last: DocumentID?) -> [UInt8]? {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return nil }
        let waits = last == nil && isNamedBeside(all[index])
        let isWhole = last != nil || !waits && namesAll(all[index])
        all[index].state = .catchingUp(id: id)
        all[index].hasBegun = true
        // A list that goes on from an earlier session names all of the rest, whatever the subscription did
        // before; it does not speak for others.
        all[index].namesAll = isWhole && last == nil
        lists.removeAll { $0.id == id }
        lists.append(OwedList(id: id, after: last, isWhole: isWhole, waits: waits))
        return all[index].key
    }

    private func others(of subscription: Subscription) -> [Subscription] {
        guard let collection = subscription.collection else { return [] }
        return all.filter { $0.key != subscription.key && $0.collection == collection }
    }

    /// True if all holdings of the collection are being named for another subscription. This one waits
    /// until that has its answer: whichever cursor is stored under new rights, documents that match nothing
    /// were told before it, and if the session ends in between, all of them are listed again.
    private func isNamedBeside(_ subscription: Subscription) -> Bool {
        others(of: subscription).contains { $0.namesAll && !$0.isLive }
    }

    /// True if all holdings of the collection are named for this subscription. One subscription of a
    /// collection lists everything at a time; a new one, beside one that has begun, lists its matches only.
    private func namesAll(_ subscription: Subscription) -> Bool {
        guard subscription.collection != nil else { return false }
        return subscription.hasBegun || !others(of: subscription).contains(where: \.hasBegun)
    }

    /// Has the store read the next page of the next list, if none is being read.
    mutating func readList(_ flow: inout FlowControl) {
        guard flow.canSendData, readingList == nil else { return }
        let ids = Set(all.compactMap(\.id))
        lists.removeAll { !ids.contains($0.id) }
        guard let place = nextList(), let subscription = all.first(where: { $0.id == lists[place].id })
        else { return }
        readingList = lists[place].id
        flow.perform(
            .readHeld(
                subscription.request, after: lists[place].after, isWhole: lists[place].isWhole))
    }

    /// The place of the next list whose turn it is.
    private mutating func nextList() -> Int? {
        for (place, list) in lists.enumerated() {
            guard let index = all.firstIndex(where: { $0.id == list.id }) else { continue }
            guard list.waits else { return place }
            guard !isNamedBeside(all[index]) else { continue }
            lists[place].waits = false
            // The subscription that was to name all may be cancelled, and then this one does.
            if !others(of: all[index]).contains(where: \.namesAll) {
                lists[place].isWhole = true
                all[index].namesAll = true
            }
            return place
        }
        return nil
    }

    /// The store has read a page of holdings.
    mutating func listed(
        _ key: [UInt8], _ versions: [DocumentVersion], isLast: Bool, _ flow: inout FlowControl
    ) {
        guard let id = readingList else { preconditionFailure("no holdings were being read") }
        readingList = nil
        defer { readList(&flow) }
        guard let place = lists.firstIndex(where: { $0.id == id }), self.key(of: id) == key else { return }
        if isLast {
            lists.remove(at: place)
        } else if let last = versions.last {
            lists[place].after = last.key.id
        }
        flow.send(.held(id: id, versions, isLast: isLast))
    }

    func checkInvariants() {
        precondition(Set(keys).count == all.count, "a key is subscribed once")
        precondition(Set(all.compactMap(\.id)).count == all.compactMap(\.id).count, "an id is given once")
    }
}

extension SubscriptionRequest {
    /// The same without staged pages.
    fileprivate var startingOver: SubscriptionRequest {
        SubscriptionRequest(
            key: key, statement: statement, arguments: arguments, cursor: cursor, rights: rights,
            holds: holds || resume != nil)
    }

    /// The collection it asks for; nil for a statement that is no subscription, which a server refuses.
    fileprivate var collection: CollectionName? {
        guard case .object(let arguments) = arguments else { return nil }
        return try? SubscriptionQuery(statement: statement, arguments: arguments, isRestricted: false)
            .collection
    }
}
