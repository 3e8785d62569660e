import CRDT
import DQL
import Sync

@testable import Replica

/// A replicator instance: a materialization that may lag behind the log, and the last operations it folded.
struct ServerInstance {
    struct Origin: Hashable {
        let actor: ActorID
        let sequence: UInt64
    }

    private(set) var documents: [DocumentKey: Document] = [:]
    private(set) var position: LogPosition
    private var lastChange: [DocumentKey: UInt64] = [:]
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
        for entry in log.entries.dropFirst(Int(position.offset)).prefix(count) {
            let operation = entry.operation
            var changes: [LiveOperation.Change] = []
            for change in operation.changes {
                let key = DocumentKey(collection: change.collection, id: change.id)
                let before = documents[key]
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
            let origin = origins[Origin(actor: operation.actor, sequence: operation.sequence)]
            folded.append(
                LiveOperation(position: position, stamp: operation.stamp, origin: origin, changes: changes))
        }
        live += folded
        live.removeFirst(max(0, live.count - liveLimit))
        return folded
    }

    /// The live stream's answer to a session at an offset; nil when nothing has come after it.
    func operations(after offset: UInt64, atMost count: Int) -> Event? {
        guard offset < position.offset else { return nil }
        guard let first = live.first?.position.offset, first <= offset + 1 else { return .lagging(position) }
        let batch = Array(live[Int(offset + 1 - first)...].prefix(count))
        return batch.last.map { .operations(batch, through: $0.position) }
    }

    /// A page of a catch-up with about `count` documents; ends between offsets.
    func page(
        of query: SubscriptionQuery, after offset: UInt64, namesAfter: UInt64, count: Int
    ) throws -> CatchUpPage {
        let changed = lastChange.filter {
            $0.value > offset && utf8Equal($0.key.collection, query.collection)
        }
        .sorted { ($0.value, $0.key.id) < ($1.value, $1.key.id) }
        var documents: [DocumentUpdate] = []
        var candidates: [Frame.Candidate] = []
        var last = offset
        for (number, (key, place)) in changed.enumerated() {
            if number >= count, place != last {
                return CatchUpPage(documents: documents, candidates: candidates, offset: last, head: nil)
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
            documents: documents, candidates: candidates, offset: position.offset, head: position)
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
        guard utf8Equal(collection, key.collection) else { return false }
        return try document.encoded().withUnsafeBytes { bytes in
            let reader = try DocumentReader(bytes)
            return try reader.isLive && matches(DocumentRecord(id: key.id, document: reader))
        }
    }
}
