import CLibPQ
import CRDT
import Foundation
import Logging
import OperationLog
import Postgres

// A projection in PostgreSQL beside a bare COPY and upsert of the same rows, in the same run.

/// Medians of folding a log of documents of some 300 bytes, and of the bare load, in documents a second.
func compareProjection(_ url: String, documents: Int, each: Int, rounds: Int, _ logger: Logger) async throws {
    let database = DatabaseID("projected-\(each)")
    let log = try PostgresOperationLog(url: url, logger: logger)
    try await log.createDatabase(database)
    for start in stride(from: 0, to: documents, by: 2_000) {
        let requests = stride(from: start, to: start + 2_000, by: each).map { first in
            AppendRequest(inserts(first..<first + each, each), authorKey: "bench")
        }
        _ = try await log.append(requests, to: database)
    }
    let head = try await log.head(of: database).offset
    var rates: (projected: [Double], bare: [Double]) = ([], [])
    for _ in 0..<rounds {
        let sql = BareConnection(url)
        sql.dropProjections()
        let projections = PostgresProjections(url: url, logger: logger)
        let projection = try await projections.open(database, log: log)
        let started = ContinuousClock.now
        try await projection.advance()
        check(await projection.position.offset == head, "the projection is at the head")
        rates.projected.append(perSecond(documents, since: started))
        await projection.close()
        await projections.close()
        rates.bare.append(sql.copyAndUpsert(sql.rows(of: database, count: documents), batch: 2_000))
    }
    await log.close()
    let ratio = median(zip(rates.projected, rates.bare).map { $0 / $1 })
    print(
        "projection, \(each) documents an operation: bare COPY and upsert \(text(median(rates.bare)))/s, "
            + "folded \(text(median(rates.projected)))/s = \(text(ratio, 2)) x (goal 0.5)")
}

/// From before an append to when the projection shows it.
func measureVisibility(_ url: String, appends: Int, _ logger: Logger) async throws {
    let log = try PostgresOperationLog(url: url, logger: logger)
    try await log.createDatabase("seen")
    let projections = PostgresProjections(url: url, logger: logger)
    let projection = try await projections.open("seen", log: log)
    let following = Task { await projection.run() }
    var times: [Double] = []
    for number in 0..<appends {
        let request = AppendRequest(inserts(number..<number + 1, 1), authorKey: "bench")
        let started = ContinuousClock.now
        guard case .appended(let offset) = try await log.append([request], to: "seen")[0] else {
            fatalError("failed: an append")
        }
        check(await projection.wait(for: offset, timeout: .seconds(10)), "the projection follows")
        times.append((ContinuousClock.now - started) / .milliseconds(1))
    }
    following.cancel()
    await projection.close()
    await projections.close()
    await log.close()
    times.sort()
    print(
        "append to visible in the projection: median \(text(median(times), 1)) ms (goal 10), "
            + "99 of 100 within \(text(times[times.count * 99 / 100], 1)) ms")
}

private func inserts(_ numbers: Range<Int>, _ each: Int) -> CRDT.Operation {
    let sequence = UInt64(numbers.lowerBound / each + 1)
    let stamp = Stamp(time: sequence << 20, actor: ActorID(7))
    let changes = numbers.map { number in
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        editor.create()
        let fields: [(String, Value)] = [
            ("make", "Fiat"), ("model", .string("model \(number)")), ("seats", .int(Int64(number % 7))),
            ("price", .double(Double(number) * 1.5)), ("sold", .bool(number % 2 == 0)),
            ("owner", ["name": "Ada Lovelace", "city": "London", "street": "St James's Square 12"]),
            ("tags", ["small", "red", "used"]), ("notes", .string(String(repeating: "x", count: 80))),
        ]
        for (key, value) in fields { try? editor.set([key], value) }
        let delta = editor.pending.delta(stamp: stamp)?.encoded() ?? []
        guard let id = try? DocumentID(.string("car-\(number &* 7_919 % 1_000_003)")) else {
            fatalError("failed: an id")
        }
        return CRDT.Operation.Change(collection: "cars", id: id, delta: delta)
    }
    return CRDT.Operation(
        actor: stamp.actor, sequence: SequenceNumber(sequence), timestamp: stamp.time, changes: changes)
}

/// libpq, as bare as it gets.
private final class BareConnection {
    private let handle: OpaquePointer

    init(_ url: String) {
        guard let handle = PQconnectdb(url) else { fatalError("failed: no memory for a connection") }
        self.handle = handle
        run("SET client_min_messages = warning; SET synchronous_commit = off")
    }

    deinit { PQfinish(handle) }

    func run(_ script: String) {
        let result = PQexec(handle, script)
        defer { PQclear(result) }
        let isDone = [PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result))
        check(isDone, "\(script): \(String(cString: PQerrorMessage(handle)))")
    }

    func dropProjections() {
        run(
            """
            DO $$ DECLARE name text; BEGIN
                FOR name IN SELECT nspname FROM pg_namespace
                    WHERE nspname ~ '^(mimeo_g[0-9]+|mimeo_v[0-9]+|db_.*|mimeo_projection)$'
                LOOP EXECUTE format('DROP SCHEMA %I CASCADE', name); END LOOP;
            END $$
            """)
    }

    /// A projection's rows, each in the binary form that COPY takes.
    func rows(of database: DatabaseID, count: Int) -> [[UInt8]] {
        let find = """
            SELECT 'mimeo_g' || c.generation || '.c' || c.number FROM mimeo_projection.collections c
            JOIN mimeo_projection.databases d USING (generation) WHERE d.id = '\(database)'
            """
        let found = PQexec(handle, find)
        let table = String(cString: PQgetvalue(found, 0, 0))
        PQclear(found)
        let columns = "id, key, live, \"offset\", body, state"
        let select = "SELECT \(columns) FROM \(table) ORDER BY \"offset\", id"
        let result = PQexecParams(handle, select, 0, nil, nil, nil, nil, 1)
        defer { PQclear(result) }
        check(PQntuples(result) == Int32(count), "every document has a row")
        return (0..<PQntuples(result)).map { row in
            var bytes: [UInt8] = [0, 6]
            for column in 0..<6 as Range<Int32> {
                let length = PQgetlength(result, row, column)
                bytes += withUnsafeBytes(of: length.bigEndian) { Array($0) }
                bytes += UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: Int(length))
            }
            return bytes
        }
    }

    /// COPY into a temporary table, then one upsert, a transaction a batch; rows a second.
    func copyAndUpsert(_ rows: [[UInt8]], batch: Int) -> Double {
        let columns = """
            (id bytea PRIMARY KEY, key text COLLATE "C" NOT NULL, live boolean NOT NULL,
            "offset" int8 NOT NULL, body jsonb, state bytea NOT NULL)
            """
        run("DROP TABLE IF EXISTS bare; CREATE TABLE bare \(columns)")
        run("CREATE TEMP TABLE staging \(columns)")
        let started = ContinuousClock.now
        for start in stride(from: 0, to: rows.count, by: batch) {
            run("BEGIN; TRUNCATE staging")
            PQclear(PQexec(handle, "COPY staging FROM STDIN BINARY"))
            put(Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0] + [UInt8](repeating: 0, count: 8))
            for row in rows[start..<min(start + batch, rows.count)] { put(row) }
            put([0xFF, 0xFF])
            check(PQputCopyEnd(handle, nil) == 1, "the copy ends")
            while let result = PQgetResult(handle) { PQclear(result) }
            run(
                """
                INSERT INTO bare SELECT * FROM staging ON CONFLICT (id) DO UPDATE SET live = excluded.live,
                    "offset" = excluded."offset", body = excluded.body,
                    state = excluded.state;
                COMMIT
                """)
        }
        return perSecond(rows.count, since: started)
    }

    private func put(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { raw in
            _ = PQputCopyData(handle, raw.bindMemory(to: CChar.self).baseAddress, Int32(raw.count))
        }
    }
}
