import CRDT
import Identity
import Replica
import ServiceKit
import Sync
import TestSupport
import Testing

@testable import Replicator

@Suite("Admission to the log", .timeLimit(.minutes(2)))
struct AdmissionTests {
    /// An operation that writes `bytes` bytes of text into one document without having seen anything.
    private func operation(actor: UInt64, bytes: Int) throws -> [UInt8] {
        let stamp = Stamp(time: 1 << 16, actor: ActorID(actor))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        try editor.set(["text"], .string(String(repeating: "x", count: bytes)))
        let delta = try #require(editor.pending.delta(stamp: stamp))
        let change = CRDT.Operation.Change(
            collection: "c", id: try DocumentID(.string("a")), delta: delta.encoded())
        return CRDT.Operation(actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: [change])
            .encoded()
    }

    @Test("concurrent values that together exceed what a session can carry are refused")
    func documentTooLarge() throws {
        try withTemporaryDirectory { folder in
            let replica = try Replica(
                directory: folder.path, role: .materialization, environment: .system, logger: TestBench.quiet)
            let logID = try #require(LogID(bytes: Array(repeating: 1, count: LogID.byteCount)))
            let half = Replicator.Limits.documentBytes / 2 + 1
            let first = try operation(actor: 1, bytes: half)
            _ = try replica.fold([
                Replica.LogItem(position: LogPosition(logID: logID, offset: 1, hash: 1), bytes: first)
            ])
            let check = AdmissionCheck(
                replica: replica, grant: .everything,
                wallMilliseconds: Environment.system.wallMilliseconds(), unfolded: [])
            let verdicts = try check.judge([try operation(actor: 2, bytes: half)], authorKey: "").verdicts
            guard case .refused(let refusal)? = verdicts.first else {
                Issue.record("the operation was not refused")
                return
            }
            #expect(refusal.error.code == "SYNC-0407")
            try replica.close()
        }
    }
}
