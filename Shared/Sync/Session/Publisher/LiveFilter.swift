import CRDT
import DQL
import Exchange

/// Decides what a receiver is told of a folded operation.
struct LiveFilter {
    /// The receiver's read rights.
    let access: ReadAccess
    /// The number of this session in `FoldedOperation.origin`.
    let origin: UInt64
    /// See `Session.Configuration.interruption`.
    let interruption: (@Sendable (_ subscription: UInt64) -> (@Sendable () -> Interruption?)?)?

    /// One change as the receiver is told it: not at all, as the delta, or as the full state if the document
    /// enters. (Subscriptions are read in place: this is asked for each receiver.) The ids of subscriptions
    /// whose conditions take too long are added to `costly`; they count no more.
    func update(
        for change: FoldedOperation.Change, of operation: FoldedOperation,
        to subscriptions: [ServedSubscription], costly: inout [UInt64]
    ) throws(SyncError) -> DocumentUpdate? {
        guard access.allows(change.key) else { return nil }
        let offset = operation.position.offset
        if let gone = change.gone { return reaped(change.key, gone, at: offset, to: subscriptions) }
        if operation.origin == origin { return try answerToWriter(change, of: operation, to: subscriptions) }
        var matchedBefore = false
        var matchesAfter = false
        for place in subscriptions.indices {
            guard let liveFrom = subscriptions[place].liveFrom, liveFrom < offset,
                subscriptions[place].query.collection == change.key.collection
            else { continue }
            let number = subscriptions[place].followed?.number
            if let number, let known = change.matches?.answer(for: number) {
                matchedBefore = matchedBefore || known.before
                matchesAfter = matchesAfter || known.after
                continue
            }
            let subscription = subscriptions[place]
            let interruption = interruption?(subscription.id)
            guard
                let before = matchedBefore
                    ? true : try subscription.matches(change.key, change.before, interruption),
                let after = matchesAfter
                    ? true : try subscription.matches(change.key, change.after, interruption)
            else {
                costly.append(subscription.id)
                continue
            }
            (matchedBefore, matchesAfter) = (before, after)
        }
        guard matchedBefore || matchesAfter else { return nil }
        return DocumentUpdate(
            key: change.key,
            content: content(of: change, change.stamp ?? operation.stamp, matchedBefore))
    }

    /// Names a changed document that matches no subscription to one that asks for anything in its collection.
    func candidate(
        _ change: FoldedOperation.Change, of operation: FoldedOperation,
        for subscriptions: [ServedSubscription]
    ) -> DocumentVersion? {
        let offset = operation.position.offset
        let isFollowed = subscriptions.contains { subscription in
            subscription.liveFrom.map { $0 < offset } ?? false
                && subscription.query.collection == change.key.collection
        }
        guard isFollowed, access.allows(change.key), let vector = change.after.encodedVector else {
            return nil
        }
        var candidate = DocumentVersion(key: change.key, vector: vector)
        candidate.void = change.void
        return candidate
    }

    /// A subscriber to anything in the collection may hold the tombstone: it is told to forget it too.
    private func reaped(
        _ key: DocumentKey, _ vector: [UInt8], at offset: Offset, to subscriptions: [ServedSubscription]
    ) -> DocumentUpdate? {
        let mayHold = subscriptions.contains { subscription in
            subscription.liveFrom.map { $0 < offset } ?? false
                && subscription.query.collection == key.collection
        }
        return mayHold ? DocumentUpdate(key: key, content: .gone(vector)) : nil
    }

    private func content(
        of change: FoldedOperation.Change, _ stamp: Stamp, _ isKnown: Bool
    ) -> DocumentUpdate.Content {
        guard isKnown, let delta = change.delta else { return .state(change.after) }
        return .delta(stamp, delta)
    }

    /// A writer has its own operation; but if the merged state is not what it knows, it gets that state
    /// (rule 16).
    private func answerToWriter(
        _ change: FoldedOperation.Change, of operation: FoldedOperation,
        to subscriptions: [ServedSubscription]
    ) throws(SyncError) -> DocumentUpdate? {
        guard let bytes = change.delta else { return nil }
        // A subscription that is catching up brings the document, or names it, in one step with what belongs
        // to it. Unless it is live for another one, whose cursor is about to pass it.
        let offset = operation.position.offset
        var isComing = false
        var isLive = false
        for subscription in subscriptions where subscription.query.collection == change.key.collection {
            isComing = isComing || subscription.liveFrom == nil
            isLive = isLive || subscription.liveFrom.map { $0 < offset } ?? false
        }
        guard isLive || !isComing else { return nil }
        // The state of a document that began with the change is the change itself.
        guard change.before != nil else { return nil }
        do {
            let delta = try DeltaReach(decoding: bytes, stamp: operation.stamp)
            let vector = try change.after.withUnsafeBytes { try DocumentReader($0).vector() }
            guard vector != delta.resultingVector else { return nil }
            return DocumentUpdate(key: change.key, content: .state(change.after))
        } catch {
            throw SyncError(.unavailable, "a stored document does not decode: \(error)")
        }
    }
}

/// The content of a frame of the live stream, by which sessions share its bytes.
struct FrameSelection {
    private(set) var words: [UInt64] = []

    /// An operation, and of its changes those that are sent, each in its form. A change's word has its
    /// highest bit set, which no offset has.
    mutating func add(_ offset: Offset, _ changes: [(index: Int, form: UInt64)]) {
        guard !changes.isEmpty else { return }
        words.append(offset.rawValue)
        for change in changes { words.append(1 << 63 | UInt64(change.index) << 2 | change.form) }
    }

    /// With the position at its end.
    func ending(at offset: Offset) -> [UInt64] { words + [offset.rawValue] }
}

extension DocumentUpdate.Content {
    /// The form of a change that it is.
    var form: UInt64 {
        switch self {
        case .state: 0
        case .delta: 1
        case .gone, .void: 2
        }
    }
}

extension FoldedOperation.Change {
    /// The change of a document of a small peer, without what is void of it.
    var withoutVoid: FoldedOperation.Change {
        guard void != nil else { return self }
        var change = FoldedOperation.Change(
            key: key, delta: delta, before: before, after: after, matches: matches)
        change.stamp = stamp
        return change
    }

    /// True if void stamps are all that there is to tell: nothing is left of the document, or it has not
    /// changed.
    var isNamedOnly: Bool {
        void != nil && (after == FoldedOperation.Change.nothing || after == before)
    }

    private static let nothing = Document().encoded()
}
