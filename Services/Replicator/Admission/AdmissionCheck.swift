import CRDT
import Exchange
import Identity
import OperationLog
import Replica
import ServiceKit
import Sync

/// Checks operations before they enter the log, so that folding it never fails (rule 3, rule 17).
///
/// Coverage only grows, but for reaped tombstones: a covered base stays covered, so checking before the
/// append needs no lock. An operation that rests on a tombstone is appended on the condition that nobody has
/// touched the tombstone since, a moved one on the condition that no copy of it has come since.
struct AdmissionCheck {
    let replica: Materialization
    let grant: CompiledGrant
    let wallMilliseconds: UInt64
    /// Documents of appended operations that are not folded; nil where the fold alone is to judge.
    let unfolded: UnfoldedDocuments?
    /// The log's term, from before anything was read that is judged by.
    let term: UInt64
    /// The documents whose ids take no writes any more; nil if there is none.
    var erased: ErasedDocuments?

    /// The verdict on uploaded operations.
    struct Judgement {
        /// Operations to append, in order.
        var requests: [AppendRequest] = []
        /// Operations to refuse, in order.
        var refusals: [Refusal] = []
        /// A later fold may say otherwise of an operation: its base is not covered by the fold so far, or its
        /// size is not known.
        var dependsOnFold = false
        /// Actors whose first refused operation rests on a base that the log lacks, and may still get.
        var mayWait: Set<ActorID> = []
        /// Documents that operations rest on and that were deleted and reaped: they are deleted anew, and
        /// then all is judged again (rule 14).
        var lost: [DocumentVersion] = []
        /// The documents behind what may be appended.
        var written: [UnfoldedKey: UnfoldedDocument] = [:]
        /// The bytes of that.
        var bytes = 0
        /// The log's term that it was judged in.
        let term: UInt64

        init(in term: UInt64) { self.term = term }
    }

    /// Facts that are the same for all operations judged in one snapshot.
    private struct Facts {
        let latest: Timestamp
        /// True if any operation was ever moved.
        let hasMoved: Bool
        /// The offset that the snapshot shows.
        let head: Offset
        /// Documents that operations judged before, and not noted yet, leave.
        let before: [UnfoldedKey: UnfoldedDocument]
    }

    /// Collections that are filled for each operation, in room that is used again.
    private struct Room {
        var deltas: [DeltaReach] = []
        /// The operation's resulting documents: later operations are judged by them once all of it may be
        /// appended.
        var left: [(key: UnfoldedKey, document: UnfoldedDocument)] = []
        var collections = CollectionTouches()
    }

    private enum Verdict {
        case admitted
        case refused(Refusal)
        case uncovered(Refusal, mayWait: Bool)
    }

    /// Judges uploaded operations in order. Operations that follow a refused one of their actor are judged by
    /// the grant only: their writer sets all the forbidden ones aside at once, instead of learning of one in
    /// every round.
    ///
    /// - Parameter before: documents behind operations that are being appended.
    func judge(
        _ uploads: some Collection<[UInt8]>, authorKey: String,
        behind before: [UnfoldedKey: UnfoldedDocument] = [:]
    ) throws -> Judgement {
        guard let unfolded else { return try read(uploads, authorKey, before) }
        return try unfolded.judging { try read(uploads, authorKey, before) }
    }

    private func read(
        _ uploads: some Collection<[UInt8]>, _ authorKey: String,
        _ before: [UnfoldedKey: UnfoldedDocument]
    ) throws -> Judgement {
        try replica.read { transaction in
            let facts = Facts(
                latest: try transaction.latestTimestamp(), hasMoved: try transaction.hasMovedAny(),
                head: try transaction.foldedThrough(), before: before)
            var judgement = Judgement(in: term)
            judgement.requests.reserveCapacity(uploads.count)
            judgement.written.reserveCapacity(uploads.count)
            var stopped: Set<ActorID> = []
            var room = Room()
            for bytes in uploads {
                let operation: Operation
                do {
                    operation = try Operation(decoding: bytes)
                } catch {
                    guard let header = try? OperationHeader.peek(bytes), !stopped.contains(header.actor)
                    else { continue }
                    stopped.insert(header.actor)
                    judgement.refusals.append(malformed(header.actor, header.sequence, error))
                    continue
                }
                guard stopped.isEmpty || !stopped.contains(operation.actor) else {
                    if let refusal = try forbidden(operation, bytes, facts, transaction) {
                        judgement.refusals.append(refusal)
                    }
                    continue
                }
                switch try judge(operation, bytes, authorKey, facts, transaction, &room, &judgement) {
                case .admitted: judgement.bytes += bytes.count
                case .refused(let refusal):
                    stopped.insert(operation.actor)
                    judgement.refusals.append(refusal)
                case .uncovered(let refusal, let mayWait):
                    stopped.insert(operation.actor)
                    if mayWait { judgement.mayWait.insert(operation.actor) }
                    judgement.refusals.append(refusal)
                    judgement.dependsOnFold = true
                }
            }
            return judgement
        }
    }

    /// The state of a document behind operations that are appended or judged, and not folded.
    private func appended(_ key: UnfoldedKey, _ facts: Facts) -> UnfoldedDocument? {
        guard let unfolded else { return nil }
        let noted = unfolded[key]
        guard let underWay = facts.before[key] else { return noted }
        guard let noted else { return underWay }
        return UnfoldedDocument(
            vector: noted.vector.union(underWay.vector), bytes: noted.bytes + underWay.bytes)
    }

    /// The refusal of an operation whatever it rests on: the grant forbids it, or the log has it under
    /// another name. Nil for any other.
    private func forbidden(
        _ operation: Operation, _ bytes: [UInt8], _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> Refusal? {
        if let refusal = try alreadyThere(operation, bytes, facts, transaction) { return refusal }
        for change in operation.changes {
            if let reason = forbids(change) { return refusal(of: operation, .writeNotGranted, reason) }
        }
        return nil
    }

    /// The reason why a change is not allowed; nil if it is.
    private func forbids(_ change: Operation.Change) -> String? {
        guard grant.write.allows(change.collection, change.id) else {
            return "no right to write \(grant.write.shown(change.collection))"
        }
        guard let erased, erased.contains(change.collection, change.id) else { return nil }
        return "a document of \(change.collection) was erased, and its id takes no writes any more"
    }

    /// The refusal of an operation that a copy of its store has moved to the log before (decision 0009). If
    /// two copies are moved at one time, the log itself takes the first. An operation that is there under
    /// this very name is a duplicate.
    private func alreadyThere(
        _ operation: Operation, _ bytes: [UInt8], _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> Refusal? {
        guard facts.hasMoved, try transaction.hasMoved(operation.identity(of: bytes)),
            try transaction.frontier(of: [operation.actor]).first?.sequence ?? 0 < operation.sequence
        else { return nil }
        return refusal(of: operation, .alreadyThere, "the log has this write under another actor")
    }

    private func refusal(
        of operation: Operation, _ code: SyncErrorCode, _ message: String
    ) -> Refusal {
        Refusal(
            actor: operation.actor, sequence: operation.sequence, error: SyncError(code, message),
            documents: operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) })
    }

    private func malformed(_ actor: ActorID, _ sequence: SequenceNumber, _ error: any Error) -> Refusal {
        Refusal(actor: actor, sequence: sequence, error: SyncError(.malformedOperation, "\(error)"))
    }

    private func judge(
        _ operation: Operation, _ bytes: [UInt8], _ authorKey: String, _ facts: Facts,
        _ transaction: ReadTransaction, _ room: inout Room, _ judgement: inout Judgement
    ) throws -> Verdict {
        room.deltas.removeAll(keepingCapacity: true)
        room.left.removeAll(keepingCapacity: true)
        do {
            for change in operation.changes {
                room.deltas.append(try DeltaReach(decoding: change.delta, stamp: operation.stamp))
            }
        } catch {
            return .refused(malformed(operation.actor, operation.sequence, error))
        }
        func refusal(_ code: SyncErrorCode, _ message: String) -> Refusal {
            self.refusal(of: operation, code, message)
        }
        if let refusal = try refusalOfWhole(operation, bytes, facts, transaction) { return .refused(refusal) }
        room.collections.beginOperation()
        var reads: [Touch] = []
        var touches: [Touch] = []
        touches.reserveCapacity(operation.changes.count + 1)
        for (place, change) in operation.changes.enumerated() {
            let delta = room.deltas[place]
            if let reason = forbids(change) { return .refused(refusal(.writeNotGranted, reason)) }
            let key = UnfoldedKey(DocumentKey(collection: change.collection, id: change.id))
            if let touch = room.collections.next(change.collection) { touches.append(touch) }
            touches.append(key.touch)
            var document: UnfoldedDocument
            var isFolded = false
            if let known = judgement.written[key] {
                document = known
            } else {
                let found = try found(key, facts, transaction)
                (document, isFolded) = (found.document, found.isFolded)
                // Until the append somebody may reap what this rests on: then the change would be void.
                if found.isTombstone, !delta.base.isEmpty { reads.append(key.touch) }
            }
            document.size += change.delta.count
            document.bytes += change.delta.count
            guard document.size <= Limits.documentBytes else {
                let reason = refusal(.documentTooLarge, "a document of \(change.collection) grows too large")
                return isFolded ? .refused(reason) : .uncovered(reason, mayWait: false)
            }
            if let lost = try lost(delta, document.vector, operation.stamp, transaction) {
                judgement.lost.append(DocumentVersion(key: key.document, vector: lost.encoded()))
                judgement.dependsOnFold = true
                document.vector.formUnion(lost)
            }
            // An honest base names the author's own last change of the document, unless the change only
            // seeds and rests on nothing (rule 7); a duplicate is covered already.
            let isOwnHistoryWhole =
                !delta.writesStamp || delta.base[operation.actor] == document.vector[operation.actor]
            guard document.vector.covers(delta.base),
                isOwnHistoryWhole || document.vector.covers(operation.stamp)
            else {
                return .uncovered(
                    refusal(.baseNotCovered, "a change of \(change.collection) rests on one the log lacks"),
                    mayWait: try mayCome(delta.base, document.vector, transaction))
            }
            document.vector.formUnion(delta.resultingVector)
            room.left.append((key, document))
        }
        for item in room.left { judgement.written[item.key] = item.document }
        judgement.requests.append(request(for: operation, bytes, authorKey, touches, reads, facts))
        return .admitted
    }

    /// The part of a delta's base that was deleted here and reaped; nil if there is none, or if the document
    /// lacks more than that.
    private func lost(
        _ delta: DeltaReach, _ vector: VersionVector, _ stamp: Stamp, _ transaction: ReadTransaction
    ) throws -> VersionVector? {
        guard !vector.covers(delta.base), !vector.covers(stamp) else { return nil }
        var parts = LostParts(transaction)
        return try parts.of(base: delta.base, behind: vector)
    }

    /// Returns whether something that a base lacks may still come to the log: not what the frontier covers,
    /// and no seed.
    private func mayCome(
        _ base: VersionVector, _ vector: VersionVector, _ transaction: ReadTransaction
    ) throws -> Bool {
        let missing = base.entries.filter { !vector.covers(Stamp(time: $0.time, actor: $0.actor)) }
        guard missing.allSatisfy({ $0.time > 0 }) else { return false }
        var parts = LostParts(transaction)
        return try missing.contains { try parts.frontier(of: $0.actor) ?? 0 < $0.time }
    }

    private func request(
        for operation: Operation, _ bytes: [UInt8], _ authorKey: String, _ touches: [Touch], _ reads: [Touch],
        _ facts: Facts
    ) -> AppendRequest {
        var (touches, reads) = (touches, reads)
        if let origin = operation.origin {
            touches.append(.origin(origin))
            // Until the append a copy of the store may bring the same write (decision 0009).
            reads.append(.origin(origin))
        }
        let condition = reads.isEmpty ? nil : AppendCondition(readAt: facts.head, reads: reads)
        return AppendRequest(
            record: OperationRecord(
                actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
                bytes: bytes),
            authorKey: authorKey, touches: touches, condition: condition, term: term)
    }

    /// A document as folded and appended so far; whether nothing of that is still to be folded.
    private func found(
        _ key: UnfoldedKey, _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> (document: UnfoldedDocument, isTombstone: Bool, isFolded: Bool) {
        let stored = try stored(key.document, transaction)
        guard let appended = appended(key, facts) else {
            let document = UnfoldedDocument(vector: stored.vector, bytes: 0, size: stored.size)
            return (document, stored.isTombstone, true)
        }
        let document = UnfoldedDocument(
            vector: stored.vector.union(appended.vector), bytes: 0, size: stored.size + appended.bytes)
        return (document, stored.isTombstone, false)
    }

    /// The reason against an operation whatever documents it changes.
    private func refusalOfWhole(
        _ operation: Operation, _ bytes: [UInt8], _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> Refusal? {
        if let refusal = try alreadyThere(operation, bytes, facts, transaction) { return refusal }
        if HybridClock.isTooFarAhead(
            operation.timestamp, wallMilliseconds: wallMilliseconds, admitted: facts.latest)
        {
            return refusal(
                of: operation, .clockTooFarAhead,
                "the writer's clock is more than a minute ahead of the server's")
        }
        // There are no more collections than changes.
        guard operation.changes.count > Limits.collectionsPerOperation else { return nil }
        let collections = Set(operation.changes.map(\.collection)).count
        guard collections > Limits.collectionsPerOperation else { return nil }
        return refusal(of: operation, .malformedOperation, "an operation changes \(collections) collections")
    }

    /// A document as folded so far: its vector, its encoded size, whether it is a tombstone.
    private func stored(
        _ key: DocumentKey, _ transaction: ReadTransaction
    ) throws -> (vector: VersionVector, size: Int, isTombstone: Bool) {
        let found = try transaction.withState(of: key) { bytes in
            let reader = try DocumentReader(bytes)
            return (vector: try reader.vector(), size: bytes.count, isTombstone: !reader.isLive)
        }
        return found ?? (VersionVector(), 0, false)
    }
}

/// The checksums of collections as operations name them: once in a row each, and mostly the same one.
private struct CollectionTouches {
    private var last: (name: CollectionName, touch: Touch)?
    /// True once the operation at hand has named the last one.
    private var isNamed = false

    /// The touch of a change's collection; nil where the operation has named it just before.
    mutating func next(_ name: CollectionName) -> Touch? {
        if let last, last.name == name {
            defer { isNamed = true }
            return isNamed ? nil : last.touch
        }
        let touch = Touch.collection(name)
        last = (name, touch)
        isNamed = true
        return touch
    }

    mutating func beginOperation() { isNamed = false }
}
