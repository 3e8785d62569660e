import CRDT
import Sync

@testable import Replica

/// What a store does to get back in line with its server, as the real one does it.
extension PeerReplica {
    /// The commits that the server has not acknowledged, in order.
    var pending: [OwnOperation] { own.values.flatMap(\.self).sorted { $0.write < $1.write } }

    mutating func acknowledge(_ actor: ActorID, through sequence: UInt64) {
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

    func standing(of head: Frame.ActorHead) -> HistoryStanding {
        let known = acknowledged[head.actor] ?? Acknowledged()
        guard head.actor == actor || own[head.actor] != nil else {
            return HistoryStanding(actor: head.actor, admitted: known.sequence, state: .open)
        }
        let place = HistoryPlace(
            actor: head.actor, sequence: known.sequence, timestamp: known.timestamp, hash: known.hash)
        let outcome = place.compare(sequence: head.sequence, hash: head.hash) { sequence in
            own[head.actor]?.first { $0.sequence == sequence }?.bytes
        }
        let state: HistoryStanding.State =
            switch outcome.state {
            case .open: .open
            case .closed: .closed
            case .forked: .forked
            }
        return HistoryStanding(actor: head.actor, admitted: outcome.admitted, state: state)
    }

    mutating func repair(_ request: Repair, _ wallMilliseconds: UInt64) throws -> Event {
        for (actor, sequence) in request.admitted { acknowledge(actor, through: sequence) }
        let pending = pending
        let operations = try pending.map { try Operation(decoding: $0.bytes) }
        let keys = Set(operations.flatMap(\.keys))
        let missing = keys.filter { repairStates[$0] == nil }.sorted {
            ($0.collection, $0.id) < ($1.collection, $1.id)
        }
        guard missing.isEmpty else { return .repairNeeds(Array(missing.prefix(3))) }
        let held = Set(documents.keys)
        let server = repairStates
        for key in keys where held.contains(key) {
            documents[key] = server[key].flatMap { $0.vector.isEmpty ? nil : $0 }
        }
        let wall = UInt64(Int64(wallMilliseconds) + correction)
        if HybridClock.isTooFarAhead(clock.latest, wallMilliseconds: wall) {
            clock = HybridClock(latest: documents.values.compactMap(\.vector.greatestTime).max() ?? 0)
        }
        renew()
        var restamper = Restamper(actor: actor)
        var setAside: [Frame.Refusal] = []
        own = [:]
        actors.removeAll { acknowledged[$0] == nil }
        for (kept, operation) in zip(pending, operations) {
            if let refusal = try refusal(of: operation, request, restamper) {
                try restamper.withdraw(operation)
                refused.append((kept.write, refusal.error.code))
                setAside.append(refusal)
                continue
            }
            clock.observe(try restamper.floor(of: operation))
            let moved = try restamper.move(
                operation, to: clock.next(wallMilliseconds: wall),
                server: { server[$0]?.vector ?? VersionVector() },
                document: { self.documents[$0] ?? server[$0] ?? Document() })
            guard let moved else { continue }
            if actors.last != actor { actors.append(actor) }
            own[actor, default: []].append(
                OwnOperation(write: kept.write, sequence: moved.sequence, bytes: moved.encoded()))
            try replay(moved, held)
        }
        repairStates = [:]
        if let position = request.seen { see(position) }
        return .repaired(actor, refused: setAside)
    }

    private func refusal(
        of operation: Operation, _ request: Repair, _ restamper: Restamper
    ) throws -> Frame.Refusal? {
        let found = request.refused.first {
            $0.actor == operation.actor && $0.sequence == operation.sequence
        }
        guard let found, found.error.code != SyncErrorCode.baseNotCovered.rawValue else { return nil }
        return found
    }

    /// Shows a moved operation again, in the documents that are here.
    private mutating func replay(_ moved: Operation, _ held: Set<DocumentKey>) throws {
        for change in moved.changes {
            let key = DocumentKey(collection: change.collection, id: change.id)
            let delta = try Delta(decoding: change.delta, stamp: moved.stamp)
            var document = documents[key] ?? Document()
            if held.contains(key), document.apply(delta) == .applied {
                documents[key] = document
            } else {
                evictedActors[key, default: []].insert(actor)
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

extension Operation {
    /// The documents it changes.
    var keys: [DocumentKey] { changes.map { DocumentKey(collection: $0.collection, id: $0.id) } }
}
