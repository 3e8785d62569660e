import CRDT
import Exchange

/// Work from the other side that is not stored, in order: a part of the reader.
///
/// Work that waits together is stored together: storing is mostly waiting for the disk, so a receiver that is
/// late takes everything that has come meanwhile in one transaction. Bounds: data take credit; of positions
/// the latest waits, of skipped ones `Limits.skippedPositions`, of lists one for each subscription.
struct StreamQueue: Sendable {
    enum Work: Sendable {
        case catchUp(Frame.CatchUp)
        case operations(Frame.Operations)
        case progress(LogPosition)
        /// A position; the answers to own writes up to there were passed over.
        case skipped(LogPosition)
        /// States that were asked for outside of the stream.
        case states([DocumentUpdate])
        /// The server asks for holdings; everything that came before is stored by then.
        case list(id: UInt64, after: DocumentID?)
        /// A collection may not be read any more.
        case hide(collection: CollectionName, key: [UInt8])
        /// The staged pages of a cancelled catch-up are no part of the next one under the same key.
        case unstage(key: [UInt8])
        /// Holdings are about to be listed: neither staged pages nor the cursor count any more.
        case startOver(key: [UInt8])
    }

    typealias Item = (work: Work, size: Int)

    private var items = Queue<Item>()
    /// The beginning of the stream that a repair stores together with its states.
    private var lent: [Item] = []

    var first: Item? { items.first }
    var isEmpty: Bool { items.isEmpty }
    var count: Int { items.count }

    mutating func append(_ work: Work, size: Int = 0) {
        // A later position replaces one that nobody has begun to store.
        if case .progress = work, items.count > 1, case .progress? = items.last?.work { items.removeLast() }
        items.append((work, size))
    }

    mutating func prepend(_ work: Work) { items.prepend((work, 0)) }

    @discardableResult
    mutating func removeFirst() -> Item { items.removeFirst() }

    /// Lets the first item and those that directly follow it be one transaction, if that says the same:
    /// operations up to the last one's position, or pages of one catch-up before its end.
    mutating func joinFirst() {
        guard var joined = items.first else { return }
        items.removeFirst()
        while joined.size < Limits.joinedBytes, let next = items.first,
            let work = joined.work.joined(with: next.work)
        {
            joined = (work, joined.size + next.size)
            items.removeFirst()
        }
        items.prepend(joined)
    }

    /// The other side's answers about documents are from after the operations that are first here: their
    /// deltas say nothing of these documents any more. An answer has the change, or the change rests on
    /// something purged since.
    mutating func dropDeltas(of keys: Set<DocumentKey>) {
        guard !keys.isEmpty, case .operations(var operations)? = items.first?.work else { return }
        operations.updates.removeAll { update in
            if case .delta = update.content { keys.contains(update.key) } else { false }
        }
        let size = items.removeFirst().size
        items.prepend((.operations(operations), size))
    }

    // MARK: What waits

    var isAnyAnswer: Bool { items.items.contains { if case .states = $0.work { true } else { false } } }

    var isOnlyStream: Bool { items.items.allSatisfy(\.work.isOfStream) }

    var skippedCount: Int {
        items.items.reduce(0) { count, item in if case .skipped = item.work { count + 1 } else { count } }
    }

    /// True if the server has asked for the holdings of a subscription, and this side has not got there.
    func isListAhead(of id: UInt64) -> Bool {
        items.items.contains { if case .list(id, _) = $0.work { true } else { false } }
    }

    /// The position up to which the stream waits to be stored, or is being stored; nil if something else
    /// waits before it.
    var streamWaiting: LogPosition? {
        var reached: LogPosition?
        for item in items.items {
            switch item.work {
            case .operations(let operations): reached = operations.position
            case .progress(let position): reached = position
            default: return reached
            }
        }
        return reached
    }

    // MARK: Lending to a repair

    /// Lends the stream if it reaches a position: changes that the server wrote at once are shown at once
    /// then.
    /// - Returns: its updates, and the position that they reach.
    mutating func lend(to position: LogPosition?) -> (updates: [DocumentUpdate], reached: LogPosition)? {
        guard let position, let reached = streamWaiting, reached.offset >= position.offset else { return nil }
        precondition(lent.isEmpty, "the stream is lent to one repair at a time")
        var updates: [DocumentUpdate] = []
        while let next = items.first, next.work.isOfStream {
            if case .operations(let operations) = next.work { updates += operations.updates }
            lent.append(next)
            items.removeFirst()
        }
        return (updates, reached)
    }

    /// The repair did not store it: it waits as before.
    mutating func takeBack() {
        for item in lent.reversed() { items.prepend(item) }
        lent = []
    }

    /// The repair stored it.
    /// - Returns: the bytes of its frames, and the offset that it reached; nil if nothing was lent.
    mutating func settleLent() -> (size: Int, streamed: Offset?) {
        defer { lent = [] }
        return (lent.reduce(0) { $0 + $1.size }, lent.last?.work.streamed)
    }
}

extension StreamQueue.Work {
    /// Changed documents that it names; nil for work that names none.
    var candidates: [DocumentVersion]? {
        switch self {
        case .catchUp(let page): page.candidates
        case .operations(let operations): operations.candidates
        default: nil
        }
    }

    /// Documents of the live stream that are named as changed and also come with an update here. The lookup
    /// of named documents ran before that update was stored, so it cannot say whether they are outdated.
    var namedAndBrought: [DocumentKey] {
        guard case .operations(let operations) = self else { return [] }
        let brought = Set(operations.updates.map(\.key))
        return operations.candidates.map(\.key).filter(brought.contains)
    }

    /// True for a part of the live stream, which moves every live cursor.
    var isOfStream: Bool {
        switch self {
        case .operations, .progress: true
        default: false
        }
    }

    /// The offset that the server's stream has passed once it is stored; nil for other work.
    var streamed: Offset? {
        switch self {
        case .operations(let operations): operations.position.offset
        case .progress(let position), .skipped(let position): position.offset
        default: nil
        }
    }

    /// One piece of work for two that follow each other; nil if their order tells something.
    fileprivate func joined(with next: Self) -> Self? {
        switch (self, next) {
        case (.operations(var operations), .operations(let later)):
            operations.updates += later.updates
            operations.candidates += later.candidates
            operations.position = later.position
            return .operations(operations)
        case (.operations(var operations), .progress(let position)):
            operations.position = position
            return .operations(operations)
        case (.catchUp(var page), .catchUp(let later)):
            // Purges go before the documents of their page, and hidden documents may come again.
            guard page.id == later.id, page.end == nil, later.end == nil, page.candidates.isEmpty,
                later.candidates.isEmpty, later.gone.isEmpty, later.hidden.isEmpty
            else { return nil }
            page.documents += later.documents
            page.asOf = later.asOf ?? page.asOf
            page.resume = later.resume ?? page.resume
            return .catchUp(page)
        default: return nil
        }
    }
}
