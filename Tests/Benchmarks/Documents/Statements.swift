import CRDT
import CSQLite
import DQL

private let statementText =
    "SELECT _id, reading FROM sensors WHERE city = :city AND reading > :low LIMIT 20"

/// Parse and plan a typical statement, beside SQLite's preparing of the same question.
func prepareStatements(_ report: inout Report) throws {
    let time = try Report.nanosecondsEach(2_000) {
        try StatementCompiler.compile(statementText).parameterNames.count
    }
    report.line("prepare", time / 1_000, "µs")
    var cache = StatementCache()
    cache.insert(try StatementCompiler.compile(statementText))
    let cached = Report.nanosecondsEach(200_000) { cache.lookup(statementText)?.parameterNames.count ?? 0 }
    precondition(cache.statistics.misses == 0, "the statement is not in the cache")
    report.line("prepare cached", cached / 1_000, "µs")
    let database = try SQLite()
    try database.run("CREATE TABLE sensors (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
    let reference = try Report.nanosecondsEach(2_000) {
        let statement = try database.prepare(
            "SELECT id, json_extract(body, '$.reading') FROM sensors"
                + " WHERE json_extract(body, '$.city') = :city"
                + " AND json_extract(body, '$.reading') > :low LIMIT 20")
        sqlite3_finalize(statement)
        return 1
    }
    report.line("prepare reference", reference / 1_000, "µs")
}

/// A predicate on two fields of documents of 500 bytes, in place, beside SQLite on the same as JSON text.
func evaluatePredicate(_ report: inout Report) throws {
    let count = 10_000
    let objects = (0..<count).map(sensor)
    let source = try EncodedDocuments(
        objects.map { try Samples.inserted($0, Stamp(time: Samples.start, actor: ActorID(1))).encoded() })
    let statement = try StatementCompiler.compile(
        "SELECT _id FROM sensors WHERE city = 'c7' AND reading > 990")
    report.line("predicate json", Double(JSONText.print(.object(objects[0])).utf8.count), "bytes")
    var rows = 0
    let time = try Report.nanosecondsEach(3) {
        rows = try statement.rows(in: source).count
        return rows
    }
    report.line("predicate", time / Double(count), "ns")
    let visiting = try Report.nanosecondsEach(3) {
        var live = 0
        try source.scan("sensors") { record in
            live += record.document.isLive ? 1 : 0
            return true
        }
        return live
    }
    report.line("predicate, visit alone", visiting / Double(count), "ns")

    let database = try SQLite()
    try database.run("CREATE TABLE sensors (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
    try database.run("BEGIN")
    for (number, object) in objects.enumerated() {
        try database.run("INSERT INTO sensors VALUES ('\(number)', '\(JSONText.print(.object(object)))')")
    }
    try database.run("COMMIT")
    let question = try database.prepare(
        "SELECT id FROM sensors WHERE json_extract(body, '$.city') = 'c7'"
            + " AND json_extract(body, '$.reading') > 990")
    var found = 0
    let reference = Report.nanosecondsEach(3) {
        found = 0
        while sqlite3_step(question) == SQLITE_ROW { found += 1 }
        sqlite3_reset(question)
        return found
    }
    sqlite3_finalize(question)
    precondition(found == rows && rows > 0, "SQLite finds other documents")
    report.line("predicate reference", reference / Double(count), "ns")
}

private func sensor(_ number: Int) -> ObjectValue {
    ObjectValue(unique: [
        (key: "_id", value: .int(Int64(number))), (key: "city", value: .string("c\(number % 40)")),
        (key: "reading", value: .int(Int64(number * 7_919 % 1_000))), (key: "unit", value: "celsius"),
        (
            key: "place",
            value: ["row": .int(Int64(number % 97)), "shelf": .int(Int64(number % 13)), "label": "somewhere"]
        ),
        (key: "tags", value: ["indoor", "calibrated", .string("batch-\(number / 500)")]),
        (key: "note", value: .string(String(repeating: "x", count: 300))),
    ])
}

/// Encoded documents in memory.
private struct EncodedDocuments: DocumentSource {
    private let documents: [(id: DocumentID, bytes: EncodedState)]

    init(_ documents: [EncodedState]) throws {
        self.documents = try documents.enumerated().map { number, bytes in
            (id: try DocumentID(.int(Int64(number))), bytes: bytes)
        }
    }

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        for document in documents {
            let goesOn = try document.bytes.withUnsafeBytes { raw in
                try visit(DocumentRecord(id: document.id, document: try DocumentReader(raw)))
            }
            if !goesOn { return }
        }
    }

    func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
        throws
    {}
}

/// SQLite in memory.
private final class SQLite {
    struct Failure: Error {
        let message: String
    }

    private var connection: OpaquePointer?

    init() throws {
        guard sqlite3_open(":memory:", &connection) == SQLITE_OK else { throw failure }
    }

    deinit { sqlite3_close(connection) }

    func run(_ sql: String) throws {
        guard sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
    }

    func prepare(_ sql: String) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK else { throw failure }
        return statement
    }

    private var failure: Failure { Failure(message: String(cString: sqlite3_errmsg(connection))) }
}
