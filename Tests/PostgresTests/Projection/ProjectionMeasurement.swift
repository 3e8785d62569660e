import CLibPQ
import CRDT
import Foundation
import OperationLog
import Testing

@testable import Postgres

/// Figures, printed beside their reference from the same run. Run alone, in a release build:
/// `MIMEO_MEASURE=1 scripts/with-postgres swift test -c release -Xswiftc -enable-testing --filter
/// ProjectionMeasurement`
@Suite(
    "Projections measured, not judged", .serialized,
    .enabled(if: isMeasuring && TestDatabase.serverURL != nil))
struct ProjectionMeasurement {
    @Test(
        "folding a log into a projection, against a bare COPY and upsert of the same rows",
        arguments: [1, 100])
    func throughput(_ documentsPerOperation: Int) async throws {
        let documents = 20_000
        try await ProjectionBench.run { bench in
            for start in stride(from: 0, to: documents, by: 2_000) {
                let firsts = stride(from: start, to: start + 2_000, by: documentsPerOperation)
                let requests = firsts.map { first in
                    AppendRequest(
                        Self.operation(first..<first + documentsPerOperation, documentsPerOperation),
                        authorKey: "key")
                }
                _ = try await bench.log.append(requests, to: ProjectionBench.database)
            }
            var folded: [Int] = []
            var bare: [Int] = []
            for round in 0..<3 {
                let started = ContinuousClock.now
                try await bench.projecting { projection in
                    if round > 0 { _ = try bench.sql("SELECT mimeo_projection.rebuild('cars')::text") }
                    try await projection.advance()
                    try await bench.settle(projection)
                }
                folded.append(perSecond(documents, since: started))
                let rows = try bench.rowsToCopy()
                #expect(rows.count == documents)
                bare.append(try BareCopy(bench.url).load(rows, batch: PostgresLimits.batchDocuments))
            }
            print(
                "\(documentsPerOperation) documents an operation: projection \(folded.sorted()[1])/s,",
                "bare COPY and upsert \(bare.sorted()[1])/s,",
                "ratio \(folded.sorted()[1] * 100 / bare.sorted()[1]) %")
        }
    }

    @Test("from before an append to when the projection shows it")
    func latency() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await projection.advance()
                var times: [Duration] = []
                for number in 0..<200 {
                    let operation = Self.operation(number..<number + 1, 1)
                    let started = ContinuousClock.now
                    let offset = try await bench.append(operation)
                    #expect(await projection.wait(for: offset, timeout: .seconds(10)))
                    times.append(ContinuousClock.now - started)
                }
                times.sort()
                print("append to visible: median \(times[100]), 99 of 100 within \(times[197])")
            }
        }
    }

    /// Some 300 bytes of JSON a document.
    private static func operation(_ numbers: Range<Int>, _ each: Int) -> CRDT.Operation {
        let sequence = UInt64(numbers.lowerBound / each + 1)
        let stamp = Stamp(time: sequence << 20, actor: ActorID(7))
        let changes = numbers.map { number in
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            editor.create()
            let fields: ObjectValue = [
                "make": "Fiat", "model": .string("model \(number)"), "seats": .int(Int64(number % 7)),
                "price": .double(Double(number) * 1.5), "sold": .bool(number % 2 == 0),
                "owner": ["name": "Ada Lovelace", "city": "London", "street": "St James's Square 12"],
                "tags": ["small", "red", "used"], "notes": .string(String(repeating: "x", count: 80)),
            ]
            for (key, value) in fields.entries { try? editor.set([key], value) }
            return CRDT.Operation.Change(
                collection: "cars", id: .numbered(number &* 7_919 % 1_000_003),
                delta: editor.pending.delta(stamp: stamp)?.encoded() ?? [])
        }
        return CRDT.Operation(
            actor: stamp.actor, sequence: sequence, timestamp: stamp.time, changes: changes)
    }
}

private let isMeasuring = ProcessInfo.processInfo.environment["MIMEO_MEASURE"] != nil

private func perSecond(_ count: Int, since start: ContinuousClock.Instant) -> Int {
    Int(Double(count) / ((ContinuousClock.now - start) / .seconds(1)))
}

extension ProjectionBench {
    /// The rows of the one collection, each in the binary form that COPY takes.
    fileprivate func rowsToCopy() throws -> [[UInt8]] {
        let connection = try Connection(url: url)
        let number = try connection.query(
            """
            SELECT 'mimeo_g' || generation || '.c' || number FROM mimeo_projection.collections
            ORDER BY number DESC
            """
        ).text(0, 0)
        let rows = try connection.query(
            """
            SELECT id, key, live, plain, "offset", body::text, state FROM \(number) ORDER BY "offset", id
            """)
        return (0..<rows.count).map { row in
            var bytes: [UInt8] = [0, 7]
            for column in 0..<7 {
                var value = [UInt8](rows.raw(row, column))
                if column == 5 { value.insert(1, at: 0) }
                bytes += withUnsafeBytes(of: Int32(value.count).bigEndian) { Array($0) } + value
            }
            return bytes
        }
    }
}

/// The reference: libpq's COPY into a temporary table, then one upsert, a transaction a batch.
private struct BareCopy {
    private let handle: OpaquePointer

    init(_ url: String) throws {
        handle = try #require(PQconnectdb(url))
        try run("SET synchronous_commit = off; SET client_min_messages = warning")
        let columns = """
            (id bytea PRIMARY KEY, key text COLLATE "C" NOT NULL, live boolean NOT NULL,
            plain boolean NOT NULL, "offset" int8 NOT NULL, body jsonb, state bytea NOT NULL)
            """
        try run("DROP TABLE IF EXISTS bare; CREATE TABLE bare \(columns)")
        try run("CREATE TEMP TABLE staging \(columns)")
    }

    /// - Returns: rows per second.
    func load(_ rows: [[UInt8]], batch: Int) throws -> Int {
        defer { PQfinish(handle) }
        let started = ContinuousClock.now
        for start in stride(from: 0, to: rows.count, by: batch) {
            try run("BEGIN; TRUNCATE staging")
            PQclear(PQexec(handle, "COPY staging FROM STDIN BINARY"))
            put(Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0] + [UInt8](repeating: 0, count: 8))
            for row in rows[start..<min(start + batch, rows.count)] { put(row) }
            put([0xFF, 0xFF])
            #expect(PQputCopyEnd(handle, nil) == 1)
            while let result = PQgetResult(handle) { PQclear(result) }
            try run(
                """
                INSERT INTO bare SELECT * FROM staging ON CONFLICT (id) DO UPDATE SET live = excluded.live,
                    plain = excluded.plain, "offset" = excluded."offset", body = excluded.body,
                    state = excluded.state;
                COMMIT
                """)
        }
        let rate = perSecond(rows.count, since: started)
        let count = try #require(PQexec(handle, "SELECT count(*) FROM bare"))
        #expect(String(cString: PQgetvalue(count, 0, 0)) == "\(rows.count)")
        PQclear(count)
        return rate
    }

    private func put(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { raw in
            _ = PQputCopyData(handle, raw.bindMemory(to: CChar.self).baseAddress, Int32(raw.count))
        }
    }

    private func run(_ script: String) throws {
        let result = try #require(PQexec(handle, script))
        defer { PQclear(result) }
        #expect(PQresultStatus(result) == PGRES_COMMAND_OK, "\(String(cString: PQerrorMessage(handle)))")
    }
}
