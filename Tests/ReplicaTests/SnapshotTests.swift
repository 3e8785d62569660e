import CRDT
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Snapshots of a materialization")
struct SnapshotTests {
    /// A materialization with collections, tombstones and several actors.
    private func fold(in folder: URL, documents: Int = 40) throws -> (Materialization, TestLog) {
        var log = TestLog()
        for seed in UInt64(1)...3 {
            let writer = try open(
                folder.appendingPathComponent("writer-\(seed)"), TestEnvironment(seed: seed))
            for number in 1...documents {
                let insert = "INSERT INTO c\(number % 3) DOCUMENTS ({'_id': '\(seed)-\(number)', 'a': 1})"
                log.append(try #require(try writer.execute(insert).operation))
            }
            log.append(try #require(try writer.execute("DELETE FROM c1").operation))
            try writer.close()
        }
        let fold = try openFold(folder.appendingPathComponent("fold"))
        _ = try fold.fold(log.items())
        return (fold, log)
    }

    private func chunks(of replica: Materialization) throws -> [[UInt8]] {
        let reader = try #require(try replica.snapshotReader())
        defer { reader.close() }
        var chunks: [[UInt8]] = []
        while let chunk = try reader.next() { chunks.append(chunk) }
        return chunks
    }

    private func load(_ chunks: [[UInt8]], into folder: URL) throws -> (Materialization, SnapshotLoading) {
        let replica = try openFold(folder)
        var loading = SnapshotLoading()
        for chunk in chunks { loading = try replica.load(chunk, loading) }
        return (replica, loading)
    }

    @Test("what is loaded is what was read: documents, places, frontier, checkpoint, and the fold goes on")
    func roundTrip() throws {
        try withTemporaryDirectory { folder in
            let (fold, log) = try fold(in: folder)
            let chunks = try chunks(of: fold)
            let (copy, loading) = try load(chunks, into: folder.appendingPathComponent("copy"))
            #expect(loading.position == log.head)
            #expect(try copy.checkpoint() == log.head)
            #expect(try copy.everything() == fold.everything())
            #expect(try copy.read { try $0.frontier() } == fold.read { try $0.frontier() })
            #expect(try copy.isHalfLoaded() == false)
            #expect(try self.chunks(of: copy) == chunks)
            var longer = log
            let writer = try open(folder.appendingPathComponent("another"), TestEnvironment(seed: 9))
            longer.append(try #require(try writer.execute("INSERT INTO d DOCUMENTS ({'_id': 1})").operation))
            _ = try copy.fold(longer.items(after: log.head.offset))
            _ = try fold.fold(longer.items(after: log.head.offset))
            #expect(try copy.everything() == fold.everything())
        }
    }

    @Test("a snapshot knows the checksums of operations, and what was moved")
    func histories() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            for number in 1...5 {
                log.append(
                    try #require(try writer.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})").operation)
                )
            }
            let actor = writer.actor
            let moved = Operation(
                actor: ActorID(3), sequence: 1, timestamp: 9, origin: 77, changes: [])
            log.append(moved)
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let (copy, _) = try load(try chunks(of: fold), into: folder.appendingPathComponent("copy"))
            for replica in [fold, copy] {
                let hashes = try replica.read { try $0.hashes(of: actor, after: 1, through: 5) }
                #expect(hashes.first == 2)
                #expect(hashes.hashes == log.items().map { hash64($0.bytes) }[1..<5].map { $0 })
                #expect(try replica.read { try $0.hasMoved(77) })
                #expect(try replica.read { try $0.hasMoved(78) } == false)
            }
        }
    }

    @Test("a snapshot is of one moment, however much is folded while it is read")
    func oneMoment() throws {
        try withTemporaryDirectory { folder in
            let (fold, log) = try fold(in: folder)
            let expected = try fold.everything()
            let reader = try #require(try fold.snapshotReader())
            var longer = log
            let writer = try open(folder.appendingPathComponent("another"), TestEnvironment(seed: 9))
            for statement in [
                "INSERT INTO c0 DOCUMENTS ({'_id': 'late'})", "INSERT INTO d DOCUMENTS ({'_id': 1})",
            ] {
                longer.append(try #require(try writer.execute(statement).operation))
            }
            _ = try fold.fold(longer.items(after: log.head.offset))
            var chunks: [[UInt8]] = []
            while let chunk = try reader.next() { chunks.append(chunk) }
            reader.close()
            let (copy, loading) = try load(chunks, into: folder.appendingPathComponent("copy"))
            #expect(loading.position == log.head)
            #expect(try copy.everything() == expected)
        }
    }

    @Test("a fold that begins with a snapshot knows the moved writes that were folded before")
    func origins() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            let made = try #require(try writer.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").operation)
            var log = TestLog()
            log.append(
                CRDT.Operation(
                    actor: made.actor, sequence: made.sequence, timestamp: made.timestamp, origin: 77,
                    changes: made.changes))
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let (copy, _) = try load(try chunks(of: fold), into: folder.appendingPathComponent("copy"))
            #expect(try copy.read { try $0.hasMoved(77) })
            #expect(try copy.read { try !$0.hasMoved(78) })
            #expect(try self.chunks(of: copy) == self.chunks(of: fold))
        }
    }

    @Test("a large fold comes in several chunks, none much over its size")
    func manyChunks() throws {
        try withTemporaryDirectory { folder in
            let text = String(repeating: "x", count: 20_000)
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            for number in 1...60 {
                let insert = "INSERT INTO c\(number % 2) DOCUMENTS ({'_id': \(number), 't': '\(text)'})"
                log.append(try #require(try writer.execute(insert).operation))
            }
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let chunks = try chunks(of: fold)
            #expect(chunks.count > 3)
            #expect(chunks.allSatisfy { $0.count < ReplicaLimits.snapshotChunkBytes + 30_000 })
            let (copy, _) = try load(chunks, into: folder.appendingPathComponent("copy"))
            #expect(try copy.everything() == fold.everything())
        }
    }

    @Test("a document that does not fit begins a chunk: only one alone makes a chunk larger than its size")
    func largeDocuments() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            for (number, length) in [200_000, 400_000, 100, 200_000, 300_000, 50].enumerated() {
                let text = String(repeating: "x", count: length)
                let insert = "INSERT INTO c DOCUMENTS ({'_id': \(number), 't': '\(text)'})"
                log.append(try #require(try writer.execute(insert).operation))
            }
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let chunks = try chunks(of: fold)
            for chunk in chunks where chunk.count > ReplicaLimits.snapshotChunkBytes {
                #expect(try SnapshotChunk.records(in: chunk).count == 1)
            }
            #expect(chunks.filter { $0.count > ReplicaLimits.snapshotChunkBytes }.count == 2)
            let (copy, _) = try load(chunks, into: folder.appendingPathComponent("copy"))
            #expect(try copy.everything() == fold.everything())
        }
    }

    @Test("a snapshot that was not loaded to its end is no checkpoint, also after the store was opened again")
    func halfLoaded() throws {
        try withTemporaryDirectory { folder in
            let (fold, _) = try fold(in: folder)
            var begin = SnapshotChunk()
            begin.add(.begin(try #require(try fold.snapshotReader()).start))
            let place = folder.appendingPathComponent("copy")
            let (half, loading) = try load([begin.bytes], into: place)
            #expect(loading.position == nil)
            #expect(try half.checkpoint() == nil)
            try half.close()
            let again = try openFold(place)
            #expect(try again.isHalfLoaded())
        }
    }

    @Test("chunks that are no snapshot are refused")
    func refused() throws {
        try withTemporaryDirectory { folder in
            let (fold, _) = try fold(in: folder)
            let chunks = try chunks(of: fold)
            let start = try #require(try fold.snapshotReader()).start
            var short = SnapshotChunk()
            short.add(.begin(start))
            short.add(.end(actors: 1, documents: 0))
            var headless = SnapshotChunk()
            headless.add(.end(actors: 0, documents: 0))
            let bad: [[[UInt8]]] = [
                [short.bytes], [headless.bytes], [[9, 9]], [[]], chunks + chunks,
                [Array(chunks[0].dropLast(1))],
            ]
            for (number, chunks) in bad.enumerated() {
                let place = folder.appendingPathComponent("bad-\(number)")
                #expect(code { _ = try load(chunks, into: place) } == .brokenLog)
            }
            #expect(code { _ = try fold.load(chunks[0], SnapshotLoading()) } == .brokenLog)
            let fresh = try openFold(folder.appendingPathComponent("fresh"))
            #expect(try fresh.snapshotReader() == nil)
        }
    }

    @Test("every record of a chunk survives its encoding")
    func records() throws {
        let logID = try #require(LogID(bytes: Array(1...16)))
        let position = LogPosition(logID: logID, offset: 300, hash: .max)
        let records: [SnapshotRecord] = [
            .begin(SnapshotStart(position: position, clock: 1 << 60, reapFloor: 128)),
            .actor(ActorProgress(actor: ActorID(.max), sequence: 1, timestamp: 0)),
            .origin(1 << 63), .history(OperationHashes(actor: ActorID(7), first: 300, hashes: [1, .max])),
            .document(SnapshotDocument(key: try key("c", 1), isLive: true, offset: 5, state: [1, 2, 3])),
            .document(SnapshotDocument(key: try key("c", "x"), isLive: false, offset: 6, state: [])),
            .document(SnapshotDocument(key: try key("d", 1), isLive: true, offset: 300, state: [9])),
            .end(actors: 1, documents: 3),
        ]
        var chunk = SnapshotChunk()
        for record in records { chunk.add(record) }
        #expect(try SnapshotChunk.records(in: chunk.bytes) == records)
        for bytes in [[1, 3], [1, 7], [2]] as [[UInt8]] {
            #expect(throws: CRDTError.self) { try SnapshotChunk.records(in: bytes) }
        }
    }
}
