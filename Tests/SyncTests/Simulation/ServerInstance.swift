import CRDT
import DQL
import Sync

@testable import Replica

/// A replicator instance: a materialization that may lag behind the log, and the last operations it folded.
struct ServerInstance {
    struct Origin: Hashable {
        let actor: ActorID
        let sequence: SequenceNumber
    }

    private(set) var documents: [DocumentKey: Document] = [:]
    private(set) var position: LogPosition
    private var lastChange: [DocumentKey: Offset] = [:]
    private(set) var frontier: [ActorID: Timestamp] = [:]
    /// The offset of the last entry that reaped a tombstone.
    private(set) var reapFloor: Offset = 0
    private var live: [LiveOperation] = []
    private let liveLimit: Int

    init(log: ServerLog, liveOperations: Int) {
        position = log.restored(to: 0).head
        liveLimit = liveOperations
    }

    /// Folds the next operations; returns them as the live stream has them.
    @discardableResult
    mutating func fold(
        _ log: ServerLog, count: Int, origins: [Origin: UInt64]
    ) throws -> [LiveOperation] {
        var folded: [LiveOperation] = []
        for entry in log.entries.dropFirst(Int(position.offset.rawValue)).prefix(count) {
            let operation = entry.operation
            var changes: [LiveOperation.Change] = []
            for change in operation.changes {
                let key = DocumentKey(collection: change.collection, id: change.id)
                let before = documents[key]
                if case .reaping(let vector) = try LoggedChange(
                    decoding: change.delta, stamp: operation.stamp)
                {
                    if let told = reap(key, vector, entry.position.offset) { changes.append(told) }
                    continue
                }
                var document = before ?? Document()
                let state = StateChange.state(in: change.delta)
                if let state {
                    document.merge(try Document(decoding: state))
                } else {
                    let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
                    guard document.apply(delta) != .baseMissing else {
                        throw Violation("the log holds a delta without its base")
                    }
                }
                documents[key] = document
                lastChange[key] = entry.position.offset
                changes.append(
                    LiveOperation.Change(
                        key: key, delta: state == nil ? change.delta : nil, before: before?.encoded(),
                        after: document.encoded()))
            }
            position = entry.position
            frontier[operation.actor] = max(frontier[operation.actor] ?? 0, operation.timestamp)
            let origin = origins[Origin(actor: operation.actor, sequence: operation.sequence)]
            folded.append(
                LiveOperation(position: position, stamp: operation.stamp, origin: origin, changes: changes))
        }
        live += folded
        live.removeFirst(max(0, live.count - liveLimit))
        return folded
    }

    private mutating func reap(
        _ key: DocumentKey, _ vector: VersionVector, _ offset: Offset
    ) -> LiveOperation.Change? {
        guard let document = documents[key], document.isReapable, document.vector == vector else {
            return nil
        }
        documents[key] = document.reaped()
        lastChange[key] = documents[key] == nil ? nil : offset
        reapFloor = offset
        return LiveOperation.Change(key: key, delta: nil, before: nil, after: [], gone: vector.encoded())
    }

    /// The live stream's answer to a session at an offset; nil when nothing has come after it.
    func operations(after offset: Offset, atMost count: Int) -> Event? {
        guard offset < position.offset else { return nil }
        guard let first = live.first?.position.offset, first <= offset.next else { return .lagging(position) }
        let batch = Array(live[first.distance(to: offset.next)...].prefix(count))
        return batch.last.map { .operations(batch, through: $0.position) }
    }

    /// A page of a catch-up with about `count` documents; ends between offsets.
    func page(
        of query: SubscriptionQuery, after offset: Offset, namesAfter: Offset, count: Int, _ log: ServerLog
    ) throws -> CatchUpPage {
        let changed = lastChange.filter {
            $0.value > offset && $0.key.collection == query.collection
        }
        .sorted { ($0.value, $0.key.id) < ($1.value, $1.key.id) }
        var documents: [DocumentUpdate] = []
        var candidates: [Frame.Candidate] = []
        var last = offset
        for (number, (key, place)) in changed.enumerated() {
            if number >= count, place != last {
                return CatchUpPage(
                    documents: documents, candidates: candidates, offset: last, head: nil,
                    reached: log.position(at: last), asOf: position)
            }
            last = place
            guard let document = self.documents[key] else { continue }
            if try query.covers(key, document) {
                documents.append(DocumentUpdate(key: key, content: .state(document.encoded())))
            } else if place > namesAfter {
                candidates.append(Frame.Candidate(key: key, vector: document.vector.encoded()))
            }
        }
        return CatchUpPage(
            documents: documents, candidates: candidates, offset: position.offset, head: position,
            asOf: position)
    }

    /// What a subscriber has to be told of a range of ids: every document anew, from what is known of each.
    func compare(_ query: SubscriptionQuery, _ page: HeldPage, count: Int, _ mayRead: Bool) throws
        -> HeldAnswer
    {
        var answer = HeldAnswer()
        answer.asOf = position
        let held = Dictionary(page.candidates.map { ($0.key.id, $0.vector) }) { first, _ in first }
        let end = page.isLast ? nil : page.candidates.last?.key.id
        let ids = Set(held.keys).union(
            documents.keys.filter { $0.collection == query.collection }.map(\.id)
        ).filter { id in (page.after.map { $0 < id } ?? true) && (end.map { id <= $0 } ?? true) }
        for (number, id) in ids.sorted().enumerated() {
            if number == count {
                answer.through = ids.sorted()[number - 1]
                return answer
            }
            let key = DocumentKey(collection: query.collection, id: id)
            let theirs = try held[id].map { try VersionVector(decoding: $0) }
            let ours = documents[key]
            guard mayRead else {
                if theirs != nil { answer.hidden.append(key) }
                continue
            }
            let gone = theirs.flatMap { removed(of: key, $0) }
            if let gone { answer.gone.append(Frame.Candidate(key: key, vector: gone.encoded())) }
            guard let ours else { continue }
            let isNew = try theirs.map { !$0.covers(ours.vector) } ?? query.covers(key, ours)
            if gone != nil || isNew {
                answer.documents.append(DocumentUpdate(key: key, content: .state(ours.encoded())))
            }
        }
        return answer
    }

    /// A vector that covers what was reaped of a document that a peer holds; nil where nothing was.
    func removed(of key: DocumentKey, _ theirs: VersionVector) -> VersionVector? {
        let ours = vector(of: key)
        let seen = VersionVector(
            theirs.entries.compactMap { entry in
                frontier[entry.actor].map { .init(actor: entry.actor, time: $0) }
            })
        let stamps = theirs.entries.map { Stamp(time: $0.time, actor: $0.actor) }
        return stamps.contains { !ours.covers($0) && seen.covers($0) } ? seen.union(ours) : nil
    }

    /// What was seen of a document, as far as a vector names its writers.
    func seen(_ vector: VersionVector, of key: DocumentKey) -> VersionVector {
        let frontier = vector.entries.compactMap { entry -> VersionVector.Entry? in
            self.frontier[entry.actor].map { .init(actor: entry.actor, time: $0) }
        }
        return self.vector(of: key).union(VersionVector(frontier))
    }

    /// A document as a peer holds it, without what was reaped here meanwhile.
    func withoutReaped(_ state: EncodedState, _ key: DocumentKey) throws -> EncodedState {
        let held = try Document(decoding: state)
        let seen = seen(held.vector, of: key)
        let lacks = held.vector.entries.map { Stamp(time: $0.time, actor: $0.actor) }
            .filter { !vector(of: key).covers($0) }
        return lacks.contains(where: seen.covers) ? held.gone(frontier: seen, replaying: []).encoded() : state
    }

    func vector(of key: DocumentKey) -> VersionVector { documents[key]?.vector ?? VersionVector() }
}

/// A property that does not hold, in words.
struct Violation: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension SubscriptionQuery {
    /// Whether a document lives in the collection and matches.
    func covers(_ key: DocumentKey, _ document: Document) throws -> Bool {
        guard collection == key.collection else { return false }
        return try document.encoded().withUnsafeBytes { bytes in
            let reader = try DocumentReader(bytes)
            return try reader.isLive && matches(DocumentRecord(id: key.id, document: reader))
        }
    }
}
