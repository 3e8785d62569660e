import CRDT
import DQL
import Exchange

/// A subscriber tells what it holds of a subscription, in the order of ids, and is told page by page what it
/// lacks and what is gone (rules 13, 14 and 18); then it catches up from where the stream stood when it was
/// asked, so that what it writes meanwhile is named to it too.
///
/// Bounds: pages are data and consume credit; one is compared at a time.
struct Listing: Sendable {
    /// Where the stream stood when the subscriber was asked: what changed since follows in pages of changes.
    let start: LogPosition
    /// The id up to which the subscriber was answered.
    var after: DocumentID?
    /// Pages that wait, the first one being compared; ids that were answered are gone from it.
    var pages: [(page: HoldingsPage, size: Int)] = []
    /// The last id that was listed.
    var last: DocumentID?
    var isListed = false
    /// The rights have changed meanwhile: what is still to come is thrown away, and asked for again.
    var isVoid = false

    init(start: LogPosition, after: DocumentID? = nil) {
        self.start = start
        self.after = after
        last = after
    }

    /// What is to be compared next.
    var next: HoldingsPage? {
        guard !isVoid, var page = pages.first?.page else { return nil }
        page.after = after
        return page
    }
}

/// What a subscriber keeps for a server: how far the pages go that it has staged.
enum ResumeToken {
    /// Everything that last changed up to a position, under these rights.
    case pages(LogPosition, namesAfter: Offset, rights: [UInt8])
    /// What is held up to an id was compared; changes follow from a position on.
    case listing(LogPosition, after: DocumentID, rights: [UInt8])

    func encoded() -> [UInt8] {
        func values(_ position: LogPosition) -> [Value] {
            [
                .binary(position.logID.bytes), .int(Int64(bitPattern: position.offset.rawValue)),
                .int(Int64(bitPattern: position.hash)),
            ]
        }
        switch self {
        case .pages(let position, let namesAfter, let rights):
            let parts = values(position) + [.int(Int64(bitPattern: namesAfter.rawValue)), .binary(rights)]
            return CBOR.encode(.array(parts))
        case .listing(let position, let last, let rights):
            return CBOR.encode(.array(values(position) + [.binary(last.bytes), .binary(rights)]))
        }
    }

    /// Nil for anything that this version has not written.
    init?(decoding bytes: [UInt8]) {
        guard case .array(let parts)? = try? CBOR.decode(bytes), parts.count == 5,
            case .binary(let log) = parts[0], let logID = LogID(bytes: log), case .int(let offset) = parts[1],
            case .int(let hash) = parts[2], case .binary(let rights) = parts[4]
        else { return nil }
        let position = LogPosition(
            logID: logID, offset: Offset(UInt64(bitPattern: offset)), hash: UInt64(bitPattern: hash))
        switch parts[3] {
        case .int(let names):
            self = .pages(position, namesAfter: Offset(UInt64(bitPattern: names)), rights: rights)
        case .binary(let last):
            guard let id = try? DocumentID(canonical: last) else { return nil }
            self = .listing(position, after: id, rights: rights)
        default: return nil
        }
    }
}

// MARK: The server's half

extension Session {
    /// Where what is told behind a list begins. States that are being read may be from before the stream's
    /// head, and reach the subscriber behind its list: what has changed since they were begun is told, too.
    private var listingStart: LogPosition? {
        publisher.isReadingStates ? publisher.wants.first?.readFrom : publisher.head
    }

    /// Asks from the start what the subscriber holds.
    mutating func list(_ subscription: inout Publisher.Subscription) {
        guard let start = listingStart else { return }
        subscription.nextPage = nil
        subscription.liveFrom = nil
        if subscription.listing.map({ !$0.isListed }) ?? false {
            subscription.listing?.isVoid = true
        } else {
            for item in subscription.listing?.pages ?? [] { returnCredit(item.size) }
            subscription.listing = Listing(start: start)
            send(.list(id: subscription.id))
        }
    }

    mutating func unknownPlace(_ id: UInt64) {
        defer { resumePublishing() }
        guard let index = answered(id) else { return }
        var subscription = publisher.subscriptions[index]
        list(&subscription)
        publisher.subscriptions[index] = subscription
    }

    mutating func received(_ page: HoldingsPage, for id: UInt64, _ size: Int) throws(SyncError) {
        guard let index = publisher.subscriptions.firstIndex(where: { $0.id == id }) else {
            return returnCredit(size)
        }
        guard publisher.subscriptions[index].listing?.isListed == false else { throw unexpected("held") }
        let last = publisher.subscriptions[index].listing?.last
        try check(page, behind: last, in: publisher.subscriptions[index].query.collection)
        // In place: as many pages wait as the other side has had credit for.
        publisher.subscriptions[index].listing?.isListed = page.isLast
        publisher.subscriptions[index].listing?.last = page.candidates.last?.key.id ?? last
        publisher.subscriptions[index].listing?.pages.append((page, size))
        discardVoid(index)
        resumePublishing()
    }

    private func check(
        _ page: HoldingsPage, behind start: DocumentID?, in collection: CollectionName
    ) throws(SyncError) {
        guard page.candidates.count <= Limits.heldDocuments, page.isLast || !page.candidates.isEmpty else {
            throw SyncError(.malformedFrame, "a page names no document or too many")
        }
        var last = start
        for candidate in page.candidates {
            guard candidate.key.collection == collection, last.map({ $0 < candidate.key.id }) ?? true
            else { throw SyncError(.malformedFrame, "a page is of another collection or not in order") }
            guard (try? VersionVector(decoding: candidate.vector)) != nil else {
                throw SyncError(.malformedFrame, "the vector of a document does not decode")
            }
            last = candidate.key.id
        }
    }

    /// Throws away what was listed under earlier rights, and asks again once all of it is here.
    private mutating func discardVoid(_ index: Int) {
        guard let listing = publisher.subscriptions[index].listing, listing.isVoid else { return }
        for item in listing.pages { returnCredit(item.size) }
        publisher.subscriptions[index].listing?.pages = []
        guard listing.isListed, let start = listingStart else { return }
        publisher.subscriptions[index].listing = Listing(start: start)
        send(.list(id: publisher.subscriptions[index].id))
    }

    mutating func compared(_ id: UInt64, _ answer: HoldingsAnswer) {
        defer { resumePublishing() }
        guard let index = answered(id), var listing = publisher.subscriptions[index].listing,
            let first = listing.pages.first
        else { return }
        let start = listing.start
        // A page that was not answered whole goes on behind what was.
        listing.after = answer.through ?? first.page.candidates.last?.key.id ?? listing.after
        if let through = answer.through {
            listing.pages[0].page.candidates.removeAll { $0.key.id <= through }
        } else {
            listing.pages.removeFirst()
            returnCredit(first.size)
        }
        let isDone = answer.through == nil && first.page.isLast
        let rights = access.mark(of: publisher.subscriptions[index].query.collection)
        var frame = Frame.CatchUp(id: id, documents: answer.documents)
        frame.gone = answer.gone
        frame.hidden = answer.hidden
        frame.asOf = answer.asOf
        if isDone {
            publisher.subscriptions[index].namesAfter = start.offset
            publisher.subscriptions[index].nextPage = .resumed(start, namesAfter: start.offset)
            frame.resume =
                ResumeToken.pages(start, namesAfter: start.offset, rights: rights).encoded()
        } else if let last = listing.after {
            frame.resume = ResumeToken.listing(start, after: last, rights: rights).encoded()
        }
        publisher.subscriptions[index].listing = isDone ? nil : listing
        if isDone || !answer.documents.isEmpty || !answer.gone.isEmpty || !answer.hidden.isEmpty {
            sendPage(frame)
        }
    }

    /// Other rights for the other side: what may not be read any more is told at once, everything else is
    /// reconciled (rule 18). What waits for credit was put together under the earlier rights, and is not
    /// sent.
    mutating func grantChanged(_ changed: ReadAccess) {
        let earlier = access
        access = changed
        guard phase == .open, configuration.role != .peer else { return }
        tellProgress()
        let isAnyWaiting = outboxBytes > 0
        withdrawWaiting()
        publisher.isStale = publisher.isReadingPage
        let held = publisher.subscriptions
        publisher.subscriptions = []
        for var subscription in held {
            let name = subscription.query.collection
            guard changed.allows(collection: name) else {
                let error = SyncError(.readNotGranted, "no right to read \(name) any more")
                for item in subscription.listing?.pages ?? [] { returnCredit(item.size) }
                refuse(subscription.id, error, hides: true)
                continue
            }
            if earlier.mark(of: name) != changed.mark(of: name) || isAnyWaiting { list(&subscription) }
            // A page of it is being read under the earlier rights.
            let isIdle = subscription.liveFrom == nil && subscription.listing == nil
            if isIdle, subscription.nextPage == nil { list(&subscription) }
            publisher.subscriptions.append(subscription)
        }
        if isAnyWaiting, let head = publisher.head {
            // Answers to the receiver's own writes may have been among what is not sent.
            publisher.toldThrough = 0
            publisher.skippedThrough = head.offset
            tellSkipped(head)
        }
        send(.granted)
        for index in publisher.subscriptions.indices { discardVoid(index) }
        resumePublishing()
    }
}

// MARK: The peer's half

extension Session {
    /// Reads the next page of what is held, when there is credit for it.
    mutating func readHeld() {
        guard configuration.role == .peer, canSendData, subscriber.readingHeld == nil else { return }
        let ids = Set(subscriber.subscriptions.compactMap(\.id))
        subscriber.listings.removeAll { !ids.contains($0.id) }
        guard let place = nextListing() else { return }
        let next = subscriber.listings[place]
        guard let subscription = subscriber.subscriptions.first(where: { $0.id == next.id }) else { return }
        subscriber.readingHeld = next.id
        actions.append(.readHeld(subscription.request, after: next.after, isWhole: next.isWhole))
    }

    mutating func listed(_ key: [UInt8], _ candidates: [DocumentVersion], isLast: Bool) {
        guard let id = subscriber.readingHeld, phase == .open else { return }
        subscriber.readingHeld = nil
        defer { readHeld() }
        guard let place = subscriber.listings.firstIndex(where: { $0.id == id }),
            subscriber.subscriptions.contains(where: { $0.id == id && $0.request.key == key })
        else { return }
        if isLast {
            subscriber.listings.remove(at: place)
        } else if let last = candidates.last {
            subscriber.listings[place].after = last.key.id
        }
        send(.held(id: id, candidates, isLast: isLast))
    }
}
