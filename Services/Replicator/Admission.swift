import CRDT
import Identity
import OperationLog
import Replica
import Sync

/// What one append has added to the log and nobody has folded.
struct UnfoldedAppend: Sendable {
    /// The last offset.
    let through: UInt64
    /// By so much a document may be larger than it looks.
    let bytes: Int
    /// The vectors of the documents behind it.
    let vectors: [DocumentKey: VersionVector]
}

/// Checks operations before they enter the log, so that folding it never fails (rule 3, rule 17).
///
/// Coverage only grows, but for tombstones, which are reaped: what a materialization covers stays covered, so
/// checking before the append needs no lock. What rests on a tombstone is appended on the condition that
/// nobody has touched that since, and what was moved on the condition that no copy of it has come since.
struct AdmissionCheck {
    let replica: Replica
    let grant: CompiledGrant
    let wallMilliseconds: UInt64
    /// What was appended here and is not folded, in order.
    let unfolded: [UnfoldedAppend]

    /// An operation that may be appended, or why it may not.
    enum Verdict {
        case admitted(AppendRequest)
        case refused(Frame.Refusal)
        /// A base is not covered by what is folded so far, or a size not known; it may be once more of the
        /// log is folded.
        case uncovered(Frame.Refusal)

        /// Whether a later fold may say otherwise.
        var dependsOnFold: Bool { if case .uncovered = self { true } else { false } }

        var isAdmitted: Bool { if case .admitted = self { true } else { false } }
    }

    /// What is the same for all operations judged in one snapshot.
    private struct Facts {
        let latest: Timestamp
        /// Whether any operation was ever moved.
        let hasMoved: Bool
    }

    /// Judges uploaded operations in order. Of those that follow a refused one of their actor only what the
    /// grant forbids is judged: their writer sets all of it aside at once, instead of learning of one
    /// operation in every round.
    ///
    /// Returns the verdicts, and the vectors of the documents behind what is admitted.
    func judge(
        _ uploads: [[UInt8]], authorKey: String
    ) throws -> (verdicts: [Verdict], vectors: [DocumentKey: VersionVector]) {
        try replica.read { transaction in
            let facts = Facts(
                latest: try transaction.latestTimestamp(), hasMoved: try transaction.hasMovedAny())
            var overlay: [DocumentKey: VersionVector] = [:]
            var verdicts: [Verdict] = []
            var stopped: Set<ActorID> = []
            for bytes in uploads {
                guard let header = try? OperationHeader.peek(bytes) else { continue }
                guard !stopped.contains(header.actor) else {
                    if let refusal = try forbidden(bytes, facts, transaction) {
                        verdicts.append(.refused(refusal))
                    }
                    continue
                }
                let verdict = try judge(bytes, header, authorKey, facts, transaction, &overlay)
                if !verdict.isAdmitted { stopped.insert(header.actor) }
                verdicts.append(verdict)
            }
            return (verdicts, overlay)
        }
    }

    private var unfoldedBytes: Int { unfolded.reduce(0) { $0 + $1.bytes } }

    /// The vector of a document behind all that was appended here.
    private func vector(_ folded: VersionVector, of key: DocumentKey) -> VersionVector {
        unfolded.reduce(folded) { vector, append in append.vectors[key].map(vector.union) ?? vector }
    }

    /// The refusal of an operation whatever it rests on: the grant forbids it, or the log has it under
    /// another name. Nil for any other.
    private func forbidden(
        _ bytes: [UInt8], _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> Frame.Refusal? {
        guard let operation = try? Operation(decoding: bytes) else { return nil }
        if let refusal = try alreadyThere(operation, bytes, facts, transaction) { return refusal }
        guard
            let change = operation.changes.first(where: {
                !grant.write.allows($0.collection, $0.id)
            })
        else { return nil }
        return refusal(of: operation, .writeNotGranted, "no right to write \(change.collection)")
    }

    /// The refusal of an operation that a copy of its store has moved to the log before (decision 0009). Of
    /// two that are moved at one time the log itself takes the first. One that is there under this very name
    /// is a duplicate.
    private func alreadyThere(
        _ operation: Operation, _ bytes: [UInt8], _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> Frame.Refusal? {
        guard facts.hasMoved, try transaction.hasMoved(operation.identity(of: bytes)),
            try transaction.frontier(of: [operation.actor]).first?.sequence ?? 0 < operation.sequence
        else { return nil }
        return refusal(of: operation, .alreadyThere, "the log has this write under another actor")
    }

    private func refusal(
        of operation: Operation, _ code: SyncErrorCode, _ message: String
    ) -> Frame.Refusal {
        Frame.Refusal(
            actor: operation.actor, sequence: operation.sequence, error: SyncError(code, message),
            documents: operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) })
    }

    private func judge(
        _ bytes: [UInt8], _ header: OperationHeader, _ authorKey: String, _ facts: Facts,
        _ transaction: ReadTransaction, _ overlay: inout [DocumentKey: VersionVector]
    ) throws -> Verdict {
        let operation: Operation
        var deltas: [DeltaReach] = []
        do {
            operation = try Operation(decoding: bytes)
            deltas.reserveCapacity(operation.changes.count)
            for change in operation.changes {
                deltas.append(try DeltaReach(decoding: change.delta, stamp: operation.stamp))
            }
        } catch {
            return .refused(
                Frame.Refusal(
                    actor: header.actor, sequence: header.sequence,
                    error: SyncError(.malformedOperation, "\(error)")))
        }
        func refusal(_ code: SyncErrorCode, _ message: String) -> Frame.Refusal {
            self.refusal(of: operation, code, message)
        }
        if let refusal = try refusalOfWhole(operation, bytes, facts, transaction) { return .refused(refusal) }
        var reads: [Touch] = []
        for (change, delta) in zip(operation.changes, deltas) {
            guard grant.write.allows(change.collection, change.id) else {
                return .refused(refusal(.writeNotGranted, "no right to write \(change.collection)"))
            }
            let key = DocumentKey(collection: change.collection, id: change.id)
            let stored = try stored(key, transaction)
            guard stored.size + change.delta.count + unfoldedBytes <= Limits.documentBytes else {
                let reason = refusal(.documentTooLarge, "a document of \(change.collection) grows too large")
                return unfoldedBytes > 0 ? .uncovered(reason) : .refused(reason)
            }
            // Until the append somebody may reap what this rests on: then the change would be void.
            if stored.isTombstone, overlay[key] == nil, !delta.base.isEmpty {
                reads.append(.document(change.collection, change.id))
            }
            let vector = overlay[key] ?? self.vector(stored.vector, of: key)
            // An honest base names the author's own last change of the document, unless the change only
            // seeds and rests on nothing (rule 7); a duplicate is covered already.
            let isOwnHistoryWhole =
                !delta.writesStamp || delta.base[operation.actor] == vector[operation.actor]
            guard vector.covers(delta.base), isOwnHistoryWhole || vector.covers(operation.stamp) else {
                return .uncovered(
                    refusal(.baseNotCovered, "a change of \(change.collection) rests on one the log lacks"))
            }
            overlay[key] = vector.union(delta.resultingVector)
        }
        // Until the append a copy of the store may bring the same write (decision 0009).
        if let origin = operation.origin { reads.append(.origin(origin)) }
        let condition =
            reads.isEmpty ? nil : AppendCondition(readAt: try transaction.head(), reads: reads)
        return .admitted(
            AppendRequest(operation, bytes: bytes, authorKey: authorKey, condition: condition))
    }

    /// What speaks against an operation whatever documents it changes.
    private func refusalOfWhole(
        _ operation: Operation, _ bytes: [UInt8], _ facts: Facts, _ transaction: ReadTransaction
    ) throws -> Frame.Refusal? {
        guard operation.sequence <= UInt64(Int64.max) else {
            return refusal(of: operation, .malformedOperation, "a sequence exceeds 63 bits")
        }
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
        let collections = Set(operation.changes.map { Array($0.collection.utf8) }).count
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
