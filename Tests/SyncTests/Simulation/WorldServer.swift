import CRDT
import DQL

@testable import Replica
@testable import Sync

/// What the server's sessions ask of its log and its materializations.
extension World {
    mutating func perform(_ action: Action, _ link: Link) throws -> Event? {
        let index = link.instance
        switch action {
        case .readFrontier(let hello):
            let lacks = hello.head.map { log.position(at: $0.offset) != $0 } ?? false
            let isBehind =
                lacks || hello.acknowledged.contains { log.frontier[$0.actor]?.sequence ?? 0 < $0.sequence }
            let heads = hello.actors.map(\.actor).compactMap { actor in
                log.frontier[actor].map {
                    Frame.ActorHead(actor: actor, sequence: $0.sequence, hash: $0.hash)
                }
            }
            return .frontier(
                heads, head: instances[index].position, isBehind: isBehind, hashes: hashes(for: hello))
        case .readPage(let id, let query, let access, let start, _):
            guard let page = try page(query, access, start, index) else {
                return .unknownPlace(subscription: id)
            }
            return .page(subscription: id, page)
        case .compareHeld(let id, let query, let access, let page):
            try fold(index, count: .max)
            return .compared(
                subscription: id,
                try instances[index].compare(
                    query, page, count: 1 + generator.below(3), access.allows(collection: query.collection)))
        case .awaitOperations(let offset):
            return instances[index].operations(after: offset, atMost: 1 + generator.below(4))
        case .append(let operations, _): return try admit(operations, link)
        case .readStates(let keys, let held):
            try fold(index, count: .max)
            let gone = try held.compactMap { item in
                let vector = try VersionVector(decoding: item.vector)
                return instances[index].removed(of: item.key, vector).map {
                    Frame.Candidate(key: item.key, vector: $0.encoded())
                }
            }
            return .states(
                keys.map { ($0, instances[index].documents[$0]?.encoded()) }, at: instances[index].position,
                gone: gone)
        case .compareHoldings(let candidates):
            try fold(index, count: .max)
            return .lacking(
                try candidates.filter { candidate in
                    guard mayWrite(candidate.key) else { return false }
                    let vector = try VersionVector(decoding: candidate.vector)
                    return !instances[index].seen(vector, of: candidate.key).covers(vector)
                }.map(\.key))
        case .admitStates(let states): return try admit(states, index)
        case .report: return nil
        default: throw Violation("a server's session asks for nothing else")
        }
    }

    /// A page; nil for a place that the log does not have, or behind which something was reaped.
    mutating func page(
        _ query: SubscriptionQuery, _ access: ReadAccess, _ start: PageStart, _ index: Int
    ) throws -> CatchUpPage? {
        let count = 1 + generator.below(4)
        var offset: Offset = 0
        var names: Offset = 0
        switch start {
        case .cursor(let place), .resumed(let place, _):
            if instances[index].position.offset < place.offset { try fold(index, count: .max) }
            guard log.position(at: place.offset) == place, place.offset >= instances[index].reapFloor else {
                return nil
            }
            offset = place.offset
            if case .resumed(_, let namesAfter) = start { names = namesAfter }
        case .offset(let place, let namesAfter):
            if place == 0 { try fold(index, count: .max) }
            offset = place
            names = namesAfter
        }
        var page = try instances[index].page(of: query, after: offset, namesAfter: names, count: count, log)
        guard instances[index].reapFloor <= max(offset, names) else { return nil }
        page.documents.removeAll { !access.allows($0.key) }
        page.candidates.removeAll { !access.allows($0.key) }
        return page
    }

    mutating func admit(_ uploads: [[UInt8]], _ link: Link) throws -> Event {
        var reached: [ActorID: SequenceNumber] = [:]
        var unverified: [ActorID: SequenceNumber] = [:]
        var refusals: [Frame.Refusal] = []
        var isAnyOld = false
        for bytes in uploads {
            let operation = try Operation(decoding: bytes)
            if let first = refusals.first(where: { $0.actor == operation.actor }) {
                // Behind a refusal that stands in the log: what is forbidden whatever it rests on.
                let isClosed = ![SyncErrorCode.sequenceGap, .actorConflict].contains {
                    utf8Equal($0.rawValue, first.error.code)
                }
                if isClosed, log.hasMoved(operation) {
                    refusals.append(refusal(operation, .alreadyThere))
                } else if isClosed, !operation.keys.allSatisfy(mayWrite) {
                    refusals.append(refusal(operation, .writeNotGranted))
                }
                continue
            }
            // What it rests on may be reaped meanwhile: the log checks that in its append.
            if try reapings > 0 || !isCovered(operation, link.instance) {
                try fold(link.instance, count: .max)
            }
            if let code = try verdict(operation, link.instance) {
                refusals.append(consume(operation, code))
                continue
            }
            let origin = ServerInstance.Origin(actor: operation.actor, sequence: operation.sequence)
            switch log.append(operation, bytes) {
            case .appended:
                origins[origin] = link.number
                reached[operation.actor] = operation.sequence
                book.appended(bytes)
            case .duplicate(let through) where through == operation.sequence:
                isAnyOld = true
                reached[operation.actor] = through
            case .duplicate(let through):
                isAnyOld = true
                unverified[operation.actor] = through
            case .gap: refusals.append(refusal(operation, .sequenceGap))
            case .conflict: refusals.append(refusal(operation, .actorConflict))
            }
            // An instance may fold an operation before its append is answered.
            if generator.chance(30) { try fold(link.instance, count: .max) }
        }
        for (actor, through) in unverified where reached[actor] ?? 0 < through {
            let error = SyncError(.actorConflict, "in the simulation")
            refusals.append(Frame.Refusal(actor: actor, sequence: through, error: error))
        }
        let acknowledgements = reached.map { Frame.Acknowledgement(actor: $0.key, sequence: $0.value) }
        let offset = isAnyOld ? 0 : log.head.offset
        return refusals.isEmpty
            ? .appended(acknowledgements, offset: offset)
            : .refused(acknowledgements, refusals, offset: offset)
    }

    /// What the log has of a peer's operations behind what was acknowledged to it.
    private func hashes(for hello: Frame.Hello) -> [OperationHashes] {
        hello.actors.compactMap { head in
            let after = hello.acknowledged.first { $0.actor == head.actor }?.sequence ?? 0
            let known = log.entries.filter {
                $0.operation.actor == head.actor && $0.operation.sequence > after
                    && $0.operation.sequence <= head.sequence
            }
            guard !known.isEmpty else { return nil }
            return OperationHashes(
                actor: head.actor, first: after.next, hashes: known.map { hash64($0.bytes) })
        }
    }

    func mayWrite(_ key: DocumentKey) -> Bool { key.collection != Self.locked }

    /// Why an operation may not enter the log; nil when it may, or has.
    private func verdict(_ operation: Operation, _ index: Int) throws -> SyncErrorCode? {
        if operation.sequence <= log.frontier[operation.actor]?.sequence ?? 0 { return nil }
        if log.hasMoved(operation) { return .alreadyThere }
        let isTooFarAhead = HybridClock.isTooFarAhead(
            operation.timestamp, wallMilliseconds: serverWall, admitted: log.latest)
        if isTooFarAhead { return .clockTooFarAhead }
        if !operation.keys.allSatisfy(mayWrite) { return .writeNotGranted }
        return try isCovered(operation, index) ? nil : .baseNotCovered
    }

    /// Refuses an operation, for ever: its place in the log is taken.
    private mutating func consume(_ operation: Operation, _ code: SyncErrorCode) -> Frame.Refusal {
        let record = RefusalRecord.operation(
            actor: operation.actor, sequence: operation.sequence,
            after: log.frontier[operation.actor]?.timestamp ?? 0)
        guard log.append(record, record.encoded()) == .appended else {
            return refusal(operation, .sequenceGap)
        }
        return refusal(operation, code)
    }

    /// Takes states that a peer holds to the log.
    private mutating func admit(_ states: [(key: DocumentKey, state: EncodedState)], _ index: Int) throws
        -> Event
    {
        try fold(index, count: .max)
        let changes = try states.map { item in
            (key: item.key, state: try instances[index].withoutReaped(item.state, item.key))
        }.filter { item in
            let vector = try Document(decoding: item.state).vector
            let time = vector.greatestTime ?? 0
            return mayWrite(item.key)
                && !HybridClock.isTooFarAhead(time, wallMilliseconds: serverWall, admitted: log.latest)
                && !instances[index].vector(of: item.key).covers(vector)
        }.map {
            Operation.Change(
                collection: $0.key.collection, id: $0.key.id,
                delta: StateChange.encode(EncodedState($0.state.bytes)))
        }
        // As the wire's runs want it: one collection's changes side by side.
        let sorted = changes.sorted { $0.collection < $1.collection }
        guard !sorted.isEmpty else { return .statesAdmitted(log.head) }
        let actor = ActorID(UInt64(index) + 1)
        let operation = Operation(
            actor: actor, sequence: (log.frontier[actor]?.sequence ?? 0).next, timestamp: serverWall << 16,
            changes: sorted)
        guard log.append(operation, operation.encoded()) == .appended else {
            throw Violation("a server cannot append its own operation")
        }
        return .statesAdmitted(log.head)
    }

    func isCovered(_ operation: Operation, _ index: Int) throws -> Bool {
        try operation.changes.allSatisfy { change in
            let key = DocumentKey(collection: change.collection, id: change.id)
            let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
            let vector = instances[index].vector(of: key)
            // As the real admission: an honest base names the author's own last change.
            let isWhole = !delta.writesStamp || delta.base[operation.actor] == vector[operation.actor]
            return vector.covers(delta.base) && (isWhole || vector.covers(operation.stamp))
        }
    }

    func refusal(_ operation: Operation, _ code: SyncErrorCode) -> Frame.Refusal {
        Frame.Refusal(
            actor: operation.actor, sequence: operation.sequence, error: SyncError(code, "in the simulation"),
            documents: operation.keys)
    }
}
