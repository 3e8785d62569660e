import CRDT
import OperationLog
import Synchronization
import Testing

/// Writes documents to a log as one author, one operation each.
final class Author: Sendable {
    private let log: SQLiteOperationLog
    private let actor: ActorID
    private let state = Mutex<(sequence: SequenceNumber, documents: [DocumentKey: Document])>((0, [:]))

    init(_ log: SQLiteOperationLog, actor: UInt64 = 7) {
        self.log = log
        self.actor = ActorID(actor)
    }

    func write(_ collection: CollectionName, _ id: String, _ edit: (inout DocumentEditor) throws -> Void)
        async throws
    {
        let key = DocumentKey(collection: collection, id: try DocumentID(.string(id)))
        let operation = try state.withLock { state in
            state.sequence = state.sequence.next
            let stamp = Stamp(time: state.sequence.rawValue << 16, actor: actor)
            var editor = DocumentEditor(document: state.documents[key] ?? Document(), stamp: stamp)
            try edit(&editor)
            state.documents[key] = editor.document
            let delta = try #require(editor.pending.delta(stamp: stamp))
            return CRDT.Operation(
                actor: actor, sequence: state.sequence, timestamp: stamp.time,
                changes: [.init(collection: collection, id: key.id, delta: delta.encoded())])
        }
        let outcome = try await log.append([AppendRequest(operation, authorKey: "k")], to: "cars")
        guard case .appended? = outcome.first else {
            throw OperationLogError(.corrupt, "not appended: \(outcome)")
        }
    }

    /// Writes a document of `cars` with the members of an object.
    func insert(_ id: String, _ members: Value) async throws {
        try await write("cars", id) { editor in
            editor.create()
            for member in members.objectValue?.entries ?? [] { try editor.set([member.key], member.value) }
        }
    }
}
