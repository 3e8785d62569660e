import CRDT
import OperationLog
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "What one transaction of a worker holds",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct FoldBoundTests {
    private static let documents = 12
    private static let bytes = Depth.pick(fast: 100_000, deep: 3 << 20)
    /// A sample takes a small bound, so that the documents do not have to be large; a deep run takes the real
    /// one.
    private static let batchBytes = Depth.pick(fast: 16 * bytes / 3, deep: PostgresLimits.batchBytes)

    /// A log with `documents` large ones, of which the entries after are small, and a writer that has folded
    /// the large ones.
    private func large(
        _ body: (ProjectionBench, GenerationWriter, inout [Document]) async throws -> Void
    ) async throws {
        try await ProjectionBench.run { bench in
            let start = try #require(try await bench.log.position(at: 0, in: ProjectionBench.database))
            let session = try ProjectionSession(
                url: bench.url, database: ProjectionBench.database, start: start, logger: quiet)
            let writer = try GenerationWriter(
                try session.look().current, views: "db_cars", try Connection(url: bench.url), quiet,
                batchBytes: Self.batchBytes)
            var documents: [Document] = []
            for number in 0..<Self.documents {
                var editor = DocumentEditor(
                    document: Document(), stamp: Stamp(time: UInt64(number + 1) << 16, actor: ActorID(1)))
                editor.create()
                try editor.set(["t"], .string(String(repeating: "x", count: Self.bytes)))
                documents.append(editor.document)
                try await append([number], [editor], sequence: SequenceNumber(UInt64(number + 1)), to: bench)
                try writer.fold(
                    try await bench.log.read(ProjectionBench.database, after: Offset(UInt64(number))))
            }
            try await body(bench, writer, &documents)
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    private func append(
        _ numbers: [Int], _ editors: [DocumentEditor], sequence: SequenceNumber, to bench: ProjectionBench
    ) async throws {
        let stamp = Stamp(time: sequence.rawValue << 16, actor: ActorID(1))
        let changes = try zip(numbers, editors).map { number, editor in
            CRDT.Operation.Change(
                collection: "c", id: try DocumentID(.int(Int64(number))),
                delta: try #require(editor.pending.delta(stamp: stamp)).encoded())
        }
        try await bench.append(
            CRDT.Operation(
                actor: stamp.actor, sequence: sequence, timestamp: stamp.time, changes: changes))
    }

    private func edited(_ document: Document, sequence: SequenceNumber) throws -> DocumentEditor {
        var editor = DocumentEditor(
            document: document, stamp: Stamp(time: sequence.rawValue << 16, actor: ActorID(1)))
        try editor.set(["n"], .int(Int64(sequence.rawValue)))
        return editor
    }

    /// Bytes of the states that each transaction has written.
    private func transactions(_ bench: ProjectionBench) throws -> [Int64] {
        let rows = try Connection(url: bench.url).query(
            "SELECT sum(octet_length(state))::int8 FROM mimeo_g1.c1 GROUP BY xmin::text ORDER BY 1")
        return (0..<rows.count).map { rows.int8($0, 0) }
    }

    @Test("small changes of large documents go in as many transactions as the documents' bytes ask for")
    func split() async throws {
        try await large { bench, writer, documents in
            let first = UInt64(Self.documents)
            for number in documents.indices {
                let sequence = first + UInt64(number) + 1
                let editor = try edited(documents[number], sequence: SequenceNumber(sequence))
                try await append([number], [editor], sequence: SequenceNumber(sequence), to: bench)
            }
            let entries = try await bench.log.read(ProjectionBench.database, after: Offset(first))
            #expect(entries.count == Self.documents)
            try writer.fold(entries)
            let sizes = try transactions(bench)
            #expect(sizes.count == 2)
            #expect(sizes.allSatisfy { $0 <= Int64(Self.batchBytes + Self.bytes * 2) })
        }
    }

    @Test("an operation that needs more than that is folded by itself")
    func one() async throws {
        try await large { bench, writer, documents in
            let sequence = SequenceNumber(UInt64(Self.documents) + 1)
            let editors = try documents.map { try edited($0, sequence: sequence) }
            try await append(Array(documents.indices), editors, sequence: sequence, to: bench)
            let next = try edited(editors[0].document, sequence: sequence.next)
            try await append([0], [next], sequence: sequence.next, to: bench)
            try writer.fold(
                try await bench.log.read(ProjectionBench.database, after: Offset(sequence.previous.rawValue)))
            #expect(writer.generation.position.offset.rawValue == sequence.next.rawValue)
        }
    }

    @Test("more documents than one statement writes are all written, and changed again")
    func pieces() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let count = PostgresLimits.writeDocuments * 2 + 7
                for sequence in 1...2 as ClosedRange<UInt64> {
                    let stamp = Stamp(time: sequence << 16, actor: ActorID(sequence))
                    let changes = try (0..<count).map { number in
                        var editor = DocumentEditor(document: Document(), stamp: stamp)
                        editor.create()
                        try editor.set(["n"], .int(Int64(number)))
                        return CRDT.Operation.Change(
                            collection: "c", id: try DocumentID(.int(Int64(number))),
                            delta: try #require(editor.pending.delta(stamp: stamp)).encoded())
                    }
                    try await bench.append(
                        CRDT.Operation(
                            actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: changes))
                }
                try await projection.advance()
                try await bench.catchUp(projection)
                #expect(try bench.sql("SELECT count(*)::text FROM db_cars.c") == ["\(count)"])
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }
}
