import CRDT
import Exchange
import Identity
import OperationLog
import Replica
import ServiceKit
import Sync

/// Takes back what a restored log has lost from a peer that holds it (rules 14 and 18).
///
/// Only in a reconcile that the server began itself, only where the peer may write, and only what adds to the
/// fold: the states become one operation of the replicator's own actor.
extension Admission {
    /// The documents that a peer holds more of than the log and may write; `areAllTaken`: there are no others
    /// that it holds more of. A document that the peer may not even read counts as one of the others, so that
    /// it learns nothing of that document.
    func lacking(
        _ candidates: [DocumentVersion], _ identity: Identity
    ) async throws -> (keys: [DocumentKey], areAllTaken: Bool) {
        try await materializer.advance()
        try await retireLost(
            candidates.filter {
                identity.rights.read.allows($0.key) || identity.rights.write.allows($0.key)
            })
        let replica = materializer.replica
        return try await materializer.executor.run {
            try replica.read { transaction in
                let rights = identity.rights
                let lacking = try candidates.filter { candidate in
                    let isOpen = rights.write.allows(candidate.key) || rights.read.allows(candidate.key)
                    guard isOpen else { return true }
                    let vector = try VersionVector(decoding: candidate.vector)
                    // Void writes are neither held nor lacking.
                    let void = try transaction.void(of: candidate.key, held: vector) ?? VersionVector()
                    return try !Self.seen(vector, of: candidate.key, transaction)
                        .covers(vector.without(void: void))
                }.map(\.key)
                let taken = lacking.filter { rights.write.allows($0) }
                return (taken, taken.count == lacking.count)
            }
        }
    }

    /// A service's actor that has written what the log has lost would go on, and then the lost stamps would
    /// count as seen: no actor with a stamp beyond the frontier is leased any more (decision 0011).
    ///
    /// A peer that may only read is believed too: its copy may be all that is left of the stamps. A stamp
    /// that no clock has given yet is nobody's.
    private func retireLost(_ candidates: [DocumentVersion]) async throws {
        let replica = materializer.replica
        let now = environment.wallMilliseconds()
        let lost = try await materializer.executor.run {
            try replica.read { transaction in
                let latest = try transaction.latestTimestamp()
                var lost: Set<ActorID> = []
                for candidate in candidates {
                    for entry in try VersionVector(decoding: candidate.vector).entries
                    where entry.time > 0
                        && !HybridClock.isTooFarAhead(
                            entry.time, wallMilliseconds: now, admitted: latest)
                    {
                        let known = try transaction.frontier(of: [entry.actor]).first?.timestamp ?? 0
                        if known < entry.time { lost.insert(entry.actor) }
                    }
                }
                return lost
            }
        }
        guard !lost.isEmpty else { return }
        try await log.retire(lost.sorted(), in: database)
        // Writes of these actors up to now are folded before anything is judged.
        try await materializer.advance()
    }

    /// Appends states as far as they may be; returns a position that has them.
    /// - Parameter isReturn: true for a restored log, which takes a refused write with a document that would
    ///   be lost without it (decision 0165).
    func admit(
        _ states: [(key: DocumentKey, state: EncodedState)], _ identity: Identity, isReturn: Bool
    ) async throws -> LogPosition {
        var failures = 0
        while failures < Limits.appendAttempts {
            let lease = try await writer.lease().lease
            try await materializer.advance()
            let known = try await log.frontier(of: [lease.actor], in: database)[lease.actor]
            let (changes, condition, time) = try await changes(
                of: states, identity, isReturn, as: lease.actor, after: known?.timestamp ?? 0)
            guard !changes.isEmpty else { return await materializer.position }
            let operation = Operation(
                actor: lease.actor, sequence: (known?.sequence ?? 0).next, timestamp: time,
                changes: changes)
            let request = AppendRequest(operation, under: lease, condition: condition)
            switch try await log.append([request], to: database).first {
            case .appended(let offset)?:
                // Once more: what did not fit into one operation is still to come.
                noteAppended(through: offset)
            case .conflict(.leaseLost)?:
                failures += 1
                await writer.lose(lease)
            default:
                // Another session of this process was faster, or a tombstone was reaped meanwhile.
                failures += 1
            }
        }
        throw SyncError(.unavailable, "the log is too busy to take documents back")
    }

    /// The states to append, on condition that no tombstone we compared them with has been reaped: without
    /// the tombstone the deletion would be undone. A document of which something was deleted and reaped is
    /// deleted anew in the same change, under the stamp of the operation (rule 14); on condition that nobody
    /// has touched it.
    private func changes(
        of states: [(key: DocumentKey, state: EncodedState)], _ identity: Identity, _ isReturn: Bool,
        as actor: ActorID, after last: Timestamp
    ) async throws -> ([Operation.Change], AppendCondition?, Timestamp) {
        let replica = materializer.replica
        let now = environment.wallMilliseconds()
        let erased = erased()
        return try await materializer.executor.run {
            try replica.read { transaction in
                let latest = try transaction.latestTimestamp()
                let held = states.compactMap { item -> (key: DocumentKey, document: Document)? in
                    guard identity.rights.write.allows(item.key),
                        erased?.contains(item.key.collection, item.key.id) != true,
                        let document = try? Document(decoding: item.state),
                        !HybridClock.isTooFarAhead(
                            document.vector.greatestTime ?? 0, wallMilliseconds: now, admitted: latest)
                    else { return nil }
                    return (item.key, document)
                }
                let given = held.reduce(latest) { max($0, $1.document.vector.greatestTime ?? 0) }
                let time = max(now << 16, max(last, given) + 1)
                var changes: [Operation.Change] = []
                var reads: [Touch] = []
                var size = 0
                for item in held
                where try Self.isClean(
                    item.document.vector, of: item.key, transaction, isReturn)
                {
                    let ours = try Self.document(item.key, transaction)
                    let (state, isRaised) = try Self.given(
                        item.document, onto: ours, by: Stamp(time: time, actor: actor), transaction)
                    guard !ours.vector.covers(state.vector), Self.fits(state, onto: ours) else { continue }
                    let bytes = state.encoded()
                    guard size == 0 || size + bytes.count < Limits.stateOperationBytes else { continue }
                    size += bytes.count
                    if isRaised || ours.isTombstone {
                        reads.append(.document(item.key.collection, item.key.id))
                    }
                    changes.append(
                        Operation.Change(
                            collection: item.key.collection, id: item.key.id,
                            delta: StateChange.encode(bytes)))
                }
                let condition =
                    reads.isEmpty
                    ? nil : AppendCondition(readAt: try transaction.foldedThrough(), reads: reads)
                // An operation names each collection once in a row.
                return (changes.sorted { $0.collection < $1.collection }, condition, time)
            }
        }
    }

    /// A document that is given, as it is appended. Where it shows something that was deleted and reaped
    /// here, it is merged with the document deleted anew: what has reached the log of it counts as removed,
    /// as far as the document here does not show it.
    private static func given(
        _ held: Document, onto ours: Document, by stamp: Stamp, _ transaction: ReadTransaction
    ) throws -> (state: Document, isRaised: Bool) {
        var parts = LostParts(transaction)
        let most = try parts.most(of: held.vector, here: ours.vector)
        guard held.isLive, !most.isEmpty else { return (held, false) }
        var plain = ours
        plain.merge(held)
        var raised = ours.raised(to: most, by: stamp)
        raised.merge(held)
        // An entry is lost for certain if nothing of its actor is still to come, else if it shows.
        let isAnyWhole = most.entries.contains { held.vector[$0.actor] == $0.time }
        return isAnyWhole || plain.shows(moreThan: raised) ? (raised, true) : (held, false)
    }

    /// Returns whether a document with this vector may be taken: it holds no void stamp; or a restored log
    /// lacks other writes of it too, which nobody can tell from the void ones.
    private static func isClean(
        _ vector: VersionVector, of key: DocumentKey, _ transaction: ReadTransaction, _ isReturn: Bool
    ) throws -> Bool {
        guard let void = try transaction.void(of: key, held: vector) else { return true }
        return try isReturn && !seen(vector, of: key, transaction).covers(vector.without(void: void))
    }

    private static func vector(of key: DocumentKey, _ transaction: ReadTransaction) throws -> VersionVector {
        guard let state = try transaction.state(of: key) else { return VersionVector() }
        return try state.withUnsafeBytes { try DocumentReader($0).vector() }
    }

    private static func document(_ key: DocumentKey, _ transaction: ReadTransaction) throws -> Document {
        try transaction.state(of: key).map { try Document(decoding: $0) } ?? Document()
    }

    /// The part of a document that the log has seen, as far as a vector names its writers: the fold's state,
    /// and the frontier (rule 13), since content before the frontier that the state lacks was removed.
    private static func seen(
        _ vector: VersionVector, of key: DocumentKey, _ transaction: ReadTransaction
    ) throws -> VersionVector {
        var seen = try Self.vector(of: key, transaction)
        for progress in try transaction.frontier(of: vector.entries.map(\.actor)) {
            seen.insert(Stamp(time: progress.timestamp, actor: progress.actor))
        }
        return seen
    }

    /// Returns whether the merged document can still be passed on.
    private static func fits(_ document: Document, onto ours: Document) -> Bool {
        var merged = ours
        merged.merge(document)
        return merged.encoded().count <= Limits.documentBytes
    }
}
