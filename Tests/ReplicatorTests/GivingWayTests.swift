import CRDT
import Identity
import OperationLog
import Sync
import Synchronization
import TestSupport
import Testing

@testable import Replicator

@Suite("Folding gives way to large uploads", .timeLimit(.minutes(5)))
struct GivingWayTests {
    /// Operations of one actor, each of which inserts a document.
    private func uploads(_ sequences: ClosedRange<UInt64>) throws -> [[UInt8]] {
        try sequences.map { try TestBench.insertion($0).encoded() }
    }

    /// Operations of one actor that change one document, each after the one before.
    private func chain(_ count: Int) throws -> [[UInt8]] {
        var document = Document()
        return try (1...count).map { number in
            let stamp = Stamp(time: UInt64(number) << 16, actor: ActorID(1))
            var editor = DocumentEditor(document: document, stamp: stamp)
            editor.create()
            try editor.set(["n"], .int(Int64(number)))
            document = editor.document
            let delta = try #require(editor.pending.delta(stamp: stamp))
            let change = CRDT.Operation.Change(
                collection: "c", id: try DocumentID(.int(1)), delta: delta.encoded())
            return CRDT.Operation(
                actor: stamp.actor, sequence: SequenceNumber(UInt64(number)), timestamp: stamp.time,
                changes: [change]
            ).encoded()
        }
    }

    private struct Bench: Sendable {
        let hub: DatabaseHub
        let store: ServerStore

        func folded() async -> Offset { await hub.materializer.position.offset }

        func append(_ uploads: [[UInt8]], isMore: Bool) async throws {
            let event = try await store.perform(.append(uploads, isMore: isMore, defers: false))
            guard case .appended? = event else {
                Issue.record("\(String(describing: event))")
                return
            }
        }

        /// Whether the fold stays where it is, as long as one looks. It cannot go on where it gives way,
        /// however long that is.
        func stays(at offset: Offset) async throws -> Bool {
            for _ in 0..<20 {
                try await Task.sleep(for: .milliseconds(5))
                guard await folded() == offset else { return false }
            }
            return true
        }
    }

    /// A hub that divides uploads into single operations, and a session with a grant.
    private func withHub(
        ahead: Int = 1 << 20, unfolded: Int = 1 << 20, operations: UInt64 = 1 << 20,
        grant: Grant = .everything,
        _ body: (Bench) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("db")
            var bounds = AdmissionBounds()
            (bounds.partBytes, bounds.aheadBytes, bounds.unfoldedBytes) = (1, ahead, unfolded)
            bounds.unfoldedOperations = operations
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet,
                bounds: bounds)
            let session = try #require(await hub.enter())
            let store = ServerStore(
                hub: hub, log: log, database: "db", session: session,
                identity: Identity(
                    userID: "u", databaseID: "db", peerKey: "k", grant: grant, expiresAtSeconds: .max))
            try await body(Bench(hub: hub, store: store))
            await hub.close()
            await log.close()
        }
    }

    @Test("while more comes nothing is folded but for who asks, and all of it when nothing does")
    func whileMoreComes() async throws {
        try await withHub { bench in
            try await bench.append(try uploads(1...3), isMore: true)
            #expect(try await bench.stays(at: 0))
            try await bench.hub.materializer.advance()
            #expect(await bench.folded() == 3)
            try await bench.append(try uploads(4...5), isMore: true)
            #expect(try await bench.stays(at: 3))
            #expect(await bench.hub.materializer.wait(for: 5, timeout: .seconds(60)))
            try await bench.append(try uploads(6...7), isMore: true)
            try await bench.append(try uploads(8...8), isMore: false)
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 8 })
        }
    }

    @Test("a write of this process gets its turn behind a fold that gives way")
    func writes() async throws {
        try await withHub { bench in
            try await bench.append(try uploads(1...3), isMore: true)
            #expect(try await bench.stays(at: 0))
            let seen = Mutex<Offset?>(nil)
            let write = Task { [materializer = bench.hub.materializer] in
                try await materializer.write { _, position in
                    seen.withLock { $0 = position.offset }
                    return ((), [])
                }
            }
            // Behind the fold, or before it where that has not begun.
            #expect(try await eventually(within: .seconds(60)) { seen.withLock { $0 } != nil })
            try await write.value
        }
    }

    @Test("an upload waits for the fold of what is too many operations ahead of it, however small they are")
    func backlog() async throws {
        try await withHub(operations: 4) { bench in
            try await bench.append(try uploads(1...6), isMore: true)
            #expect(try await bench.stays(at: 0))
            try await bench.append(try uploads(7...7), isMore: true)
            #expect(await bench.folded() >= 2)
            try await bench.append(try uploads(8...12), isMore: true)
            try await bench.append(try uploads(13...13), isMore: true)
            #expect(await bench.folded() >= 8)
        }
    }

    @Test("a session that ends, or waits for a newer token, holds nothing up, and neither does a closed hub")
    func ends() async throws {
        try await withHub { bench in
            try await bench.append(try uploads(1...3), isMore: true)
            _ = try await bench.store.perform(.checkToken("newer"))
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 3 })
            try await bench.append(try uploads(4...6), isMore: true)
            #expect(try await bench.stays(at: 3))
            await bench.hub.leave(bench.store.session)
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 6 })
            // What an ended session has still to append is not given way to any more.
            try await bench.append(try uploads(7...9), isMore: true)
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 9 })
        }
        try await withHub { bench in
            try await bench.append(try uploads(1...3), isMore: true)
            #expect(try await bench.stays(at: 0))
        }
    }

    @Test("what rests on the part before, or on an upload before, is judged without a fold")
    func chained() async throws {
        try await withHub { bench in
            let all = try chain(4)
            try await bench.append(Array(all[..<2]), isMore: true)
            #expect(try await bench.stays(at: 0))
            try await bench.append(Array(all[2...]), isMore: true)
            #expect(try await bench.stays(at: 0))
        }
    }

    @Test("nothing gives way to what is in the log already, however often it is brought")
    func duplicates() async throws {
        try await withHub { bench in
            try await bench.append(try uploads(1...3), isMore: false)
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 3 })
            try await bench.append(try uploads(1...3), isMore: true)
            _ = try await bench.store.log.append(
                [
                    AppendRequest(
                        CRDT.Operation(actor: ActorID(9), sequence: 1, timestamp: 1 << 20, changes: []),
                        authorKey: "other")
                ], to: "db")
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 4 })
        }
    }

    @Test("what is refused is folded at once")
    func refused() async throws {
        try await withHub(grant: .nothing) { bench in
            let event = try await bench.store.perform(
                .append(try uploads(1...3), isMore: true, defers: false))
            guard case .refused? = event else {
                Issue.record("\(String(describing: event))")
                return
            }
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 1 })
        }
    }

    @Test("so much at most is appended ahead, and nothing is judged behind more than is kept of it")
    func bounds() async throws {
        try await withHub(ahead: 0) { bench in
            try await bench.append(try uploads(1...3), isMore: true)
            #expect(try await eventually(within: .seconds(60)) { await bench.folded() == 3 })
        }
        try await withHub(unfolded: 0) { bench in
            try await bench.append(try uploads(1...3), isMore: true)
            #expect(try await bench.stays(at: 0))
            try await bench.append(try uploads(4...5), isMore: true)
            #expect(await bench.folded() == 3)
        }
    }
}
