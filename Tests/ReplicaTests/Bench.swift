import CRDT
import DQL
import Foundation
import Logging
import Machine
import Synchronization
import TestSupport

@testable import Replica

/// Time and randomness as a test sets them. Nothing here sleeps: pauses are only counted.
final class TestEnvironment: Sendable {
    private struct State {
        var milliseconds: UInt64 = 1_800_000_000_000
        var random: SplitMix64
        var pauses: [Duration] = []
    }

    private let state: Mutex<State>

    init(seed: UInt64 = 1) { state = Mutex(State(random: SplitMix64(seed: seed))) }

    /// The wall clock; may be set either way.
    var milliseconds: UInt64 {
        get { state.withLock { $0.milliseconds } }
        set { state.withLock { $0.milliseconds = newValue } }
    }

    var pauses: [Duration] { state.withLock { $0.pauses } }

    var environment: Environment {
        Environment(
            wallMilliseconds: { self.milliseconds }, random: { self.state.withLock { $0.random.next() } },
            pause: { pause in self.state.withLock { $0.pauses.append(pause) } })
    }
}

let quiet: Logger = {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
}()

/// Opens a store; every call with a fresh environment draws the same actors unless the seed differs.
func open(
    _ folder: URL, _ environment: TestEnvironment = TestEnvironment(), owner: DatabaseID? = nil,
    recorded: DatabaseID? = nil
) throws -> PeerReplica {
    try PeerReplica(
        directory: folder.path, owner: owner.map { StoreOwner($0) { recorded } },
        environment: environment.environment, logger: quiet)
}

/// Opens a fold of a log.
func openFold(
    _ folder: URL, _ environment: TestEnvironment = TestEnvironment()
) throws -> Materialization {
    try Materialization(directory: folder.path, environment: environment.environment, logger: quiet)
}

/// Runs `body` with an empty peer's store of its own.
func withPeer(_ body: (PeerReplica, TestEnvironment) throws -> Void) throws {
    try withTemporaryDirectory { folder in
        let environment = TestEnvironment()
        let replica = try open(folder, environment)
        try body(replica, environment)
        try replica.close()
    }
}

extension PeerReplica {
    @discardableResult
    func execute(_ statement: String, _ arguments: ObjectValue = ObjectValue()) throws -> WriteResult<
        StatementResult
    > {
        let prepared = try PreparedStatement(statement)
        return try write { transaction in
            try prepared.execute(
                in: transaction, arguments: arguments,
                idGenerator: { self.store.environment.generateDocumentID() })
        }
    }

}

extension Replica {
    /// The rows as JSON texts with sorted keys.
    func rows(_ statement: String) throws -> [String] {
        let prepared = try PreparedStatement(statement)
        return try read { try prepared.rows(in: $0).map { JSONText.print($0, sortedKeys: true) } }
    }

    func state(_ key: DocumentKey) throws -> EncodedState? { try read { try $0.state(of: key) } }

    /// Every document's encoded state, tombstones included.
    func everything() throws -> [DocumentKey: EncodedState] {
        try read { transaction in
            var states: [DocumentKey: EncodedState] = [:]
            for collection in try transaction.collectionNames() {
                try transaction.changes(in: collection, after: 0) { document in
                    states[DocumentKey(collection: collection, id: document.id)] = EncodedState(
                        [UInt8](document.state))
                    return true
                }
            }
            return states
        }
    }
}

func key(_ collection: CollectionName, _ id: Value) throws -> DocumentKey {
    DocumentKey(collection: collection, id: try DocumentID(id))
}

func arguments(_ entries: (String, Value)...) -> ObjectValue {
    ObjectValue(entries.map { (key: $0.0, value: $0.1) })
}

/// The code of the `ReplicaError` that `body` throws; nil for none and for any other error.
func code(_ body: () throws -> Void) -> ReplicaErrorCode? {
    do {
        try body()
        return nil
    } catch {
        return (error as? ReplicaError)?.code
    }
}

/// A log in memory, with hashes that differ from offset to offset.
struct TestLog {
    let id: LogID
    private(set) var operations: [CRDT.Operation] = []

    init(_ byte: UInt8 = 7) {
        guard let id = LogID(bytes: Array(repeating: byte, count: LogID.byteCount)) else {
            preconditionFailure("sixteen bytes make an id")
        }
        self.id = id
    }

    func position(_ offset: Offset) -> LogPosition {
        LogPosition(logID: id, offset: offset, hash: offset.rawValue &* 0x9E37_79B9_7F4A_7C15)
    }

    var head: LogPosition { position(Offset(UInt64(operations.count))) }

    mutating func append(_ operation: CRDT.Operation) { operations.append(operation) }

    /// The entries that a materialization folds after an offset.
    func items(after offset: Offset = 0) -> [Materialization.LogItem] {
        operations.enumerated().dropFirst(Int(offset.rawValue)).map { index, operation in
            Materialization.LogItem(position: position(Offset(UInt64(index) + 1)), bytes: operation.encoded())
        }
    }

    /// The updates that a peer receives of an operation.
    static func deltas(of operation: CRDT.Operation) -> [DocumentUpdate] {
        operation.changes.map {
            DocumentUpdate(
                key: DocumentKey(collection: $0.collection, id: $0.id),
                content: .delta(operation.stamp, $0.delta))
        }
    }
}

/// A document with one field, written by an actor at a time.
func document(_ field: String, _ value: Value, by actor: UInt64, at time: Timestamp) throws -> Document {
    var editor = DocumentEditor(document: Document(), stamp: Stamp(time: time, actor: ActorID(actor)))
    editor.create()
    try editor.set([field], value)
    return editor.document
}
