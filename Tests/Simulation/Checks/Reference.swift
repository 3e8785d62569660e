import CRDT
import OperationLog
import Replica

/// The fold of the log, done plainly: what every replica is held against.
struct Reference {
    struct Change {
        let key: DocumentKey
        /// Encoded; nil before the first.
        let before: EncodedState?
        let after: EncodedState
        /// Whether it came as a full state.
        let isState: Bool
    }

    private(set) var documents: [DocumentKey: Document] = [:]
    /// The same, encoded.
    private(set) var states: [DocumentKey: EncodedState] = [:]
    /// Documents that the log has reaped once.
    private(set) var reaped: Set<DocumentKey> = []
    /// The last entry's place; nil of an empty log.
    private(set) var position: LogPosition?
    var offset: Offset { position?.offset ?? 0 }
    private(set) var frontier: [ActorID: SequenceNumber] = [:]
    /// The timestamp of each actor's last operation: what it wrote up to there is here, or was reaped.
    private(set) var times: [ActorID: UInt64] = [:]
    /// What every operation did, for the question what may be sent of it. Stays when the log is restored:
    /// what has been on its way then was sent before.
    private(set) var changes: [Stamp: [Change]] = [:]
    /// What full states in the log did.
    private(set) var merged: [Change] = []
    /// Writes whose mark is in the log.
    private(set) var marks: Set<Int> = []

    mutating func beginAnew() {
        documents = [:]
        states = [:]
        position = nil
        reaped = []
        frontier = [:]
        times = [:]
        marks = []
    }

    mutating func fold(_ entry: LogEntry, _ id: LogID) throws {
        guard entry.offset == offset.next else { throw Violation("the log has a hole at \(offset.next)") }
        position = LogPosition(logID: id, offset: entry.offset, hash: entry.hash)
        let operation = try Operation(decoding: entry.bytes)
        guard operation.sequence == (frontier[operation.actor] ?? 0).next else {
            throw Violation("the log's frontier of \(operation.actor) jumps to \(operation.sequence)")
        }
        frontier[operation.actor] = operation.sequence
        times[operation.actor] = operation.timestamp
        var done: [Change] = []
        for change in operation.changes {
            let key = DocumentKey(collection: change.collection, id: change.id)
            var document: Document? = documents[key] ?? Document()
            var isState = false
            // Without the shortcut that the shipped fold takes.
            var logged = try LoggedChange(decoding: change.delta, stamp: operation.stamp)
            if case .insertion(let insertion) = logged { logged = .delta(try insertion.decoded()) }
            switch logged {
            case .insertion: continue
            case .delta(let delta):
                guard document?.apply(delta) != .baseMissing else {
                    throw Violation("the log holds a change of \(key.words) without its base")
                }
            case .state(let full):
                document?.merge(full)
                isState = true
            case .reaping(let vector):
                guard let tombstone = document, tombstone.isReapable, tombstone.vector == vector else {
                    continue
                }
                document = tombstone.reaped()
                isState = true
                reaped.insert(key)
            }
            let after = document?.encoded()
            done.append(Change(key: key, before: states[key], after: after ?? [], isState: isState))
            documents[key] = document
            states[key] = after
            if Collections.isNote(key) { marks.formUnion(Self.marks(in: document?.value ?? ObjectValue())) }
        }
        merged += done.filter(\.isState)
        if !done.isEmpty { changes[operation.stamp, default: []] += done }
    }

    /// Whether everything that a vector names is in the document, or was in it before it was reaped: what the
    /// frontier covers then is seen (rule 13).
    func hasSeen(_ vector: VersionVector, of key: DocumentKey) -> Bool {
        let held = documents[key]?.vector ?? VersionVector()
        let isReaped = reaped.contains(key)
        return vector.entries.allSatisfy { entry in
            held.covers(Stamp(time: entry.time, actor: entry.actor))
                || isReaped && entry.time > 0 && times[entry.actor] ?? 0 >= entry.time
        }
    }

    static func marks(in value: ObjectValue) -> [Int] {
        value.entries.compactMap { entry in
            entry.key.utf8.first == UInt8(ascii: "w") ? Int(entry.key.dropFirst()) : nil
        }
    }
}
