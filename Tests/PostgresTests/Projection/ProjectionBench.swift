import CRDT
import DQL
import Foundation
import Logging
import OperationLog
import TestSupport
import Testing

@testable import Postgres

/// A log in a PostgreSQL database of a test's own, and projections of it in the same one.
final class ProjectionBench: Sendable {
    static let database: DatabaseID = "cars"
    let url: String
    let log: PostgresOperationLog

    private init(url: String) async throws {
        self.url = url
        log = try PostgresOperationLog(url: url)
        try await log.createDatabase(Self.database)
    }

    static func run(_ body: (ProjectionBench) async throws -> Void) async throws {
        try await TestDatabase.use { url in
            let bench = try await ProjectionBench(url: url)
            try await body(bench)
            await bench.log.close()
        }
    }

    /// Opens a projection with connections of its own, as another process would, and follows the log with
    /// it while `body` runs.
    /// - Parameters:
    ///   - url: the URL with another role; nil for the bench's.
    ///   - stallTimeout: how long another leader may be idle.
    func projecting<Result>(
        as url: String? = nil, stallTimeout: Duration = PostgresLimits.stallTimeout,
        _ body: (PostgresProjection) async throws -> Result
    ) async throws -> Result {
        let projections = PostgresProjections(
            url: url ?? self.url, isBesideLog: true, stallTimeout: stallTimeout,
            indexes: DefinedIndexes.projection,
            logger: quiet)
        let projection = try await projections.open(Self.database, log: log)
        let following = Task { await projection.run() }
        let result = await Swift.Result { () async throws in try await body(projection) }
        following.cancel()
        await projection.close()
        await projections.close()
        return try result.get()
    }

    /// Drafts a statement on the projection's state, appends it; does not wait for the fold.
    @discardableResult
    func append(
        _ statement: String, _ arguments: ObjectValue = ObjectValue(), as actor: UInt64 = 1,
        on projection: PostgresProjection
    ) async throws -> Offset {
        let actor = ActorID(actor)
        let prepared = try PreparedStatement(statement)
        let frontier = try await log.frontier(of: [actor], in: Self.database)[actor]
        let draft = try await projection.draft(
            as: actor, sequence: (frontier?.sequence ?? 0).next, wallMilliseconds: 1_700_000_000_000
        ) { draft in
            try prepared.execute(in: draft, arguments: arguments) { try DocumentID("generated") }
        }
        guard let operation = draft.operation else { return try await log.head(of: Self.database).offset }
        return try await append(operation)
    }

    /// Appends an operation as it is.
    @discardableResult
    func append(_ operation: CRDT.Operation) async throws -> Offset {
        let outcome = try await log.append([AppendRequest(operation, authorKey: "key")], to: Self.database)
        guard case .appended(let offset) = outcome[0] else {
            Issue.record("not appended: \(outcome[0])")
            return 0
        }
        return offset
    }

    /// Executes a statement, and waits until the projection shows it.
    func execute(
        _ statement: String, _ arguments: ObjectValue = ObjectValue(), on projection: PostgresProjection
    ) async throws {
        let offset = try await append(statement, arguments, on: projection)
        try await projection.advance()
        #expect(await projection.wait(for: offset, timeout: .seconds(30)))
    }

    /// The rows of a statement as JSON.
    func rows(_ statement: String, on projection: PostgresProjection) async throws -> [String] {
        let prepared = try PreparedStatement(statement)
        return try await projection.read { snapshot in
            try prepared.rows(in: snapshot).map { JSONText.print($0, sortedKeys: true) }
        }
    }

    /// The result of plain SQL in PostgreSQL, one text per row.
    func sql(_ text: String) throws -> [String] {
        let rows = try Connection(url: url).query(text)
        return (0..<rows.count).map { rows.isNull($0, 0) ? "NULL" : rows.text($0, 0) }
    }

    /// Waits for the projection to show everything in the log.
    func catchUp(_ projection: PostgresProjection) async throws {
        let head = try await log.head(of: Self.database).offset
        #expect(await projection.wait(for: head, timeout: .seconds(60)))
    }

    // MARK: The fold of the log, in memory

    struct Folded: Equatable {
        var state: EncodedState
        var offset: Offset
        var isLive: Bool
        var body: Value?
    }

    /// A body as JSON. PostgreSQL prints a large double with all its digits.
    private static func shown(_ text: String) throws -> Value {
        try JSONText.parse(Array(text.utf8), roundsIntegers: true)
    }

    /// The fold of the log, by collection and id.
    func fold() async throws -> [DocumentKey: Folded] {
        var states: [DocumentKey: (state: EncodedState, offset: Offset)] = [:]
        var offset: Offset = 0
        while true {
            let entries = try await log.read(Self.database, after: offset)
            guard let last = entries.last else { break }
            for entry in entries {
                for change in try LoggedOperation(decoding: entry.bytes).changes {
                    let before = states[change.key]?.state
                    switch try Fold.step(change.content, on: before) {
                    case .changed(let state, _): states[change.key] = (state, entry.offset)
                    case .duplicate: states[change.key]?.offset = entry.offset
                    case .reaped(let rest):
                        let offset = states[change.key]?.offset ?? 0
                        states[change.key] = rest.map { ($0, offset) }
                    case .void: break
                    }
                }
            }
            offset = last.offset
        }
        var folded: [DocumentKey: Folded] = [:]
        for (key, value) in states {
            let document = try Document(decoding: value.state)
            let body = try value.state.withUnsafeBytes { raw in
                let body = try ReadableBody(try DocumentReader(raw), id: key.id.value)
                return document.isLive ? try Self.shown(String(decoding: body.text, as: UTF8.self)) : nil
            }
            folded[key] = Folded(
                state: value.state, offset: value.offset, isLive: document.isLive, body: body)
        }
        return folded
    }

    /// The documents in the tables that readers use, by collection and id.
    func stored() throws -> [DocumentKey: Folded] {
        let connection = try Connection(url: url)
        let collections = try connection.query(
            """
            SELECT c.generation::int8, c.number, c.name FROM mimeo_projection.collections c
            JOIN mimeo_projection.databases d ON d.generation = c.generation WHERE d.id = '\(Self.database)'
            """)
        var stored: [DocumentKey: Folded] = [:]
        for row in 0..<collections.count {
            let table = ProjectionNames.table(
                Int32(collections.int8(row, 0)), collections.int8(row, 1))
            let name = String(decoding: collections.bytes(row, 2), as: UTF8.self)
            let rows = try connection.query(
                "SELECT coalesce(whole, id), state, \"offset\", live, body::text FROM \(table)")
            for row in 0..<rows.count {
                let key = DocumentKey(
                    collection: CollectionName(name), id: DocumentID(trusted: rows.bytes(row, 0)))
                let body = rows.isNull(row, 4) ? nil : try Self.shown(rows.text(row, 4))
                stored[key] = Folded(
                    state: EncodedState(rows.bytes(row, 1)), offset: Offset(rows.bits(row, 2)),
                    isLive: rows.bool(row, 3),
                    body: body)
            }
        }
        return stored
    }
}

extension Result where Failure == any Error {
    init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
