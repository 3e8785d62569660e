import CRDT
import Sync

@testable import Replica

/// What a store does to get back in line with its server, as the real one does it.
extension PeerReplica {
    /// The commits that the server has not acknowledged, in order.
    var pending: [OwnOperation] { own.values.flatMap(\.self).sorted { $0.write < $1.write } }

    mutating func acknowledge(_ actor: ActorID, through sequence: SequenceNumber) {
        for operation in own[actor] ?? [] where operation.sequence <= sequence {
            guard let header = try? OperationHeader.peek(operation.bytes) else { continue }
            acknowledged[actor] = Acknowledged(
                sequence: operation.sequence, timestamp: header.timestamp, hash: operation.hash)
        }
        own[actor]?.removeAll { $0.sequence <= sequence }
        if own[actor]?.isEmpty ?? true { own[actor] = nil }
    }

    /// What was acknowledged of other actors is no longer in the server's log, or came back as states.
    mutating func forgetRetired() {
        actors.removeAll { $0 != actor && own[$0] == nil }
        acknowledged = acknowledged.filter { actors.contains($0.key) }
    }

    func standing(of head: Frame.ActorHead, _ hashes: OperationHashes?) -> HistoryStanding {
        let known = acknowledged[head.actor] ?? Acknowledged()
        guard head.actor == actor || own[head.actor] != nil else {
            return HistoryStanding(
                actor: head.actor, admitted: known.sequence, state: .open, isExact: true)
        }
        let place = HistoryPlace(
            actor: head.actor, sequence: known.sequence, timestamp: known.timestamp, hash: known.hash)
        let outcome = place.compare(
            sequence: head.sequence, hash: head.hash, last: own[head.actor]?.last?.sequence ?? known.sequence,
            isCurrent: head.actor == actor, server: hashes
        ) { sequence in own[head.actor]?.first { $0.sequence == sequence }?.bytes }
        let state: HistoryStanding.State =
            switch outcome.state {
            case .open: .open
            case .closed: .closed
            case .forked: .forked
            }
        return HistoryStanding(
            actor: head.actor, admitted: outcome.admitted, state: state, isExact: outcome.isExact)
    }

    mutating func repair(_ repair: Repair, _ wallMilliseconds: UInt64) throws -> Event {
        for (actor, sequence) in repair.admitted { acknowledge(actor, through: sequence) }
        let wall = UInt64(Int64(wallMilliseconds) + correction)
        var plan = RepairPlan(repair.request, wallMilliseconds: wall)
        let pending = pending
        let operations = try pending.map { try Operation(decoding: $0.bytes) }
        for operation in operations { try plan.take(operation) }
        let missing = plan.documents.filter { repairStates[$0] == nil }
        guard missing.isEmpty else { return .repairNeeds(Array(missing.prefix(3))) }
        let held = Set(documents.keys)
        let replaced = Set(plan.documents)
        let server = repairStates
        for key in replaced where held.contains(key) {
            documents[key] = server[key].flatMap { $0.vector.isEmpty ? nil : $0 }
        }
        if HybridClock.isTooFarAhead(clock.latest, wallMilliseconds: wall) {
            let stay = zip(operations, plan.fates).compactMap { operation, fate -> Timestamp? in
                if case .stays = fate { operation.timestamp } else { nil }
            }
            let shown = documents.values.compactMap(\.vector.greatestTime)
            clock = HybridClock(latest: (shown + stay).max() ?? 0)
        }
        if plan.moves || plan.left.contains(actor) { renew() }
        var restamper = Restamper(actor: actor)
        var setAside: [Frame.Refusal] = []
        own = [:]
        for (kept, (operation, fate)) in zip(pending, zip(operations, plan.fates)) {
            switch fate {
            case .stays:
                own[operation.actor, default: []].append(kept)
                try replay(operation, operation.keys.filter(replaced.contains), held)
            case .there: try restamper.withdraw(operation)
            case .refused(let refusal):
                try restamper.withdraw(operation)
                refused.append((kept.write, refusal.code))
                setAside += repair.refused.filter {
                    $0.actor == refusal.actor && $0.sequence == refusal.sequence
                }
            case .moves: try move(operation, kept.write, &restamper, plan, held, wall)
            }
        }
        actors.removeAll { acknowledged[$0] == nil && own[$0] == nil }
        repairStates = [:]
        if let position = repair.seen { see(position) }
        let toSend = actors.filter { own[$0] != nil }
        return .repaired(
            Repaired(
                actor: actor, left: plan.left.subtracting(toSend + [actor]), pending: toSend,
                refused: setAside))
    }

    private mutating func move(
        _ operation: CRDT.Operation, _ write: Int, _ restamper: inout Restamper, _ plan: RepairPlan,
        _ held: Set<DocumentKey>, _ wall: UInt64
    ) throws {
        let server = repairStates
        clock.observe(try restamper.floor(of: operation))
        let moved = try restamper.move(
            operation, to: clock.next(wallMilliseconds: wall),
            isThere: { plan.isThere(operation.stamp, in: $0, server[$0]?.vector ?? VersionVector()) },
            server: { plan.reachable(in: $0, server[$0]?.vector ?? VersionVector()) },
            document: { self.documents[$0] ?? server[$0] ?? Document() })
        guard let moved else { return }
        if actors.last != actor { actors.append(actor) }
        own[actor, default: []].append(
            OwnOperation(write: write, sequence: moved.sequence, bytes: moved.encoded()))
        try replay(moved, moved.keys, held)
    }

    /// Shows an operation again, in the documents that are here.
    private mutating func replay(
        _ operation: CRDT.Operation, _ keys: [DocumentKey], _ held: Set<DocumentKey>
    ) throws {
        for (change, key) in zip(operation.changes, operation.keys) where keys.contains(key) {
            let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
            var document = documents[key] ?? Document()
            if held.contains(key), document.apply(delta) == .applied {
                documents[key] = document
            } else {
                evictedActors[key, default: []].insert(operation.actor)
            }
        }
    }

    func holdings(after last: DocumentKey?) -> Event {
        let all = documents.keys.sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }
        let rest = all.filter { key in last.map { ($0.collection, $0.id) < (key.collection, key.id) } ?? true
        }
        let page = rest.prefix(3).map { key in
            Frame.Candidate(key: key, vector: documents[key]?.vector.encoded() ?? [])
        }
        return .holdings(Array(page), isLast: rest.count <= 3)
    }
}

extension Repair {
    /// As the store takes it.
    var request: RepairRequest {
        RepairRequest(
            admitted: admitted, closed: closed, diverged: diverged,
            refused: refused.map {
                RepairRequest.Refused(
                    actor: $0.actor, sequence: $0.sequence, code: $0.error.code, message: $0.error.message,
                    isForItsBase: $0.error.code == SyncErrorCode.baseNotCovered.rawValue && !isFinal,
                    isThere: $0.error.code == SyncErrorCode.alreadyThere.rawValue)
            }, isForClock: isForClock, gone: gone, seen: seen)
    }
}

extension CRDT.Operation {
    /// The documents it changes.
    var keys: [DocumentKey] { changes.map { DocumentKey(collection: $0.collection, id: $0.id) } }
}
