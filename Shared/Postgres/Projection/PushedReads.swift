import CRDT
import DQL

/// Parts of statements in SQL, see `PushingSource`.
///
/// Most run in a cursor, whose plan is made for its values. The snapshot's other statements are planned for
/// tables of any size, without full scans; around a cursor's declaration the server may plan as it likes. It
/// is one round trip until the first rows are here.
extension ProjectionSnapshot: PushingSource {
    /// Always: the rights of a reader are a matter of those who wrap the snapshot.
    public func decides(_ collection: CollectionName) -> Bool { true }

    /// See `PushingSource`.
    public func documents(
        of statement: PushedStatement, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        try read(statement, named: "documents") { rows in
            for row in 0..<rows.count {
                let id = rows.bytes(row, rows.isNull(row, 1) ? 0 : 1)
                guard try show(rows, row, id: id, state: 2, in: statement.collection, visit) else {
                    return false
                }
            }
            return true
        }
    }

    /// See `PushingSource`.
    public func documents(
        inOrderOf statement: PushedStatement, _ visit: (DocumentRecord, PushedPlace) throws -> Bool
    ) throws {
        try read(statement, named: "ordered") { rows in
            for row in 0..<rows.count {
                let id = rows.bytes(row, rows.isNull(row, 1) ? 0 : 1)
                let place = try Self.place(rows.text(row, 3))
                guard
                    try show(
                        rows, row, id: id, state: 2, in: statement.collection, { try visit($0, place) })
                else { return false }
            }
            return true
        }
    }

    /// See `PushingSource`.
    public func pairs(
        of statement: PushedStatement,
        _ visit: (DocumentRecord, PushedPlace, DocumentRecord?) throws -> Bool
    ) throws {
        guard let joined = statement.joined else { preconditionFailure("a join has two collections") }
        try read(statement, named: "pairs") { rows in
            for row in 0..<rows.count {
                let place = try Self.place(rows.text(row, 3))
                let id = rows.bytes(row, rows.isNull(row, 1) ? 0 : 1)
                let goesOn = try show(rows, row, id: id, state: 2, in: statement.collection) { left in
                    guard !rows.isNull(row, 4) else { return try visit(left, place, nil) }
                    let partner = rows.bytes(row, rows.isNull(row, 5) ? 4 : 5)
                    return try show(rows, row, id: partner, state: 6, in: joined) {
                        try visit(left, place, $0)
                    }
                }
                guard goesOn else { return false }
            }
            return true
        }
    }

    /// See `PushingSource`.
    public func size(of collection: CollectionName) throws -> Int? {
        try table(collection) == nil ? 0 : try counted(collection)
    }

    private static func place(_ text: String) throws -> PushedPlace {
        guard let place = PushedPlace(rawValue: text) else {
            throw ProjectionError(.damaged, "a function of the projection gave the place \(text)")
        }
        return place
    }

    /// Shows a document whose state is in a column, or was left out there because it is large.
    private func show(
        _ rows: Rows, _ row: Int, id: [UInt8], state column: Int, in collection: CollectionName,
        _ visit: (DocumentRecord) throws -> Bool
    ) throws -> Bool {
        let id = DocumentID(trusted: id)
        guard !rows.isNull(row, column) else {
            var goesOn = true
            try lookup(collection, id) { goesOn = try visit($0) }
            return goesOn
        }
        return try withExtendedLifetime(rows) {
            let state = rows.raw(row, column)
            let document = try ProjectionError.reading { () throws(CRDTError) in try DocumentReader(state) }
            return try visit(DocumentRecord(id: id, document: document))
        }
    }

    /// See `PushingSource`.
    public func rows(of statement: PushedStatement, _ visit: ([String?]) throws -> Bool) throws {
        try read(statement, named: "texts") { rows in
            for row in 0..<rows.count {
                let columns = (0..<statement.columns).map { rows.isNull(row, $0) ? nil : rows.text(row, $0) }
                guard try visit(columns) else { return false }
            }
            return true
        }
    }

    /// See `PushingSource`.
    public func documents(
        _ collection: CollectionName, ids: ArraySlice<DocumentID>, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        guard let table = try table(collection) else { return }
        let bytes = ids.map(\.bytes)
        let rows = try awaiting {
            try query(
                """
                SELECT w.id, CASE WHEN octet_length(d.state) <= $2 THEN d.state END
                FROM unnest($1::bytea[]) WITH ORDINALITY AS w (id, place)
                JOIN \(table) d ON d.id = \(CollectionTables.key(of: "w.id"))
                WHERE d.live ORDER BY w.place
                """, [.bytesArray(bytes), .int8(Int64(DQLLimits.pushedStateBytes))])
        }
        for row in 0..<rows.count {
            guard try show(rows, row, id: rows.bytes(row, 0), state: 1, in: collection, visit) else { return }
        }
    }

    /// See `PushingSource`.
    public func explanation(of statement: PushedStatement) throws -> PushedExplanation {
        guard let table = try table(statement.collection) else {
            let (sql, parameters) = statement.sql.rendered(table: "no_table_yet")
            return PushedExplanation(sql: sql, arguments: parameters.map(\.value), estimate: nil)
        }
        let (sql, parameters) = try rendered(statement, table)
        guard statement.steps <= PostgresLimits.explainedSteps else {
            return PushedExplanation(sql: sql, arguments: parameters.map(\.value), estimate: nil)
        }
        let answers = try pushing {
            try pipeline([
                planning(isFree: true, statement),
                Connection.Step("EXPLAIN (FORMAT JSON) " + sql, parameters.map(\.sent)),
                planning(isFree: false, statement),
            ])
        }
        return PushedExplanation(
            sql: sql, arguments: parameters.map(\.value), estimate: Self.estimate(answers[1].text(0, 0)))
    }

    /// The rows, costs and kind of the topmost node of a plan.
    private static func estimate(_ json: String) -> Value? {
        guard case .array(let plans)? = try? JSONText.parse(json), let plan = plans.first?["Plan"] else {
            return nil
        }
        return [
            "rows": plan["Plan Rows"] ?? .null, "cost": plan["Total Cost"] ?? .null,
            "plan": plan["Node Type"] ?? .null,
        ]
    }

    private func rendered(
        _ statement: PushedStatement, _ table: String
    ) throws -> (text: String, parameters: [SQL.Parameter]) {
        statement.sql.rendered(table: table, joined: try statement.joined.flatMap { try self.table($0) })
    }

    // MARK: Cursors

    /// Reads a statement's rows, some at a time, until a visit returns false.
    ///
    /// A cursor is planned for its values each time, which takes longer than to find a few documents by an
    /// index. So a prepared statement asks for these: the first entries of an index, and the documents of a
    /// statement that had few of them the last time. The server runs a cursor in one process, so a statement
    /// asks for groups and for the first of an order too: they are few as a rule, and several processes may
    /// look for them. If there are more now, a cursor follows.
    func read(
        _ statement: PushedStatement, named kind: String, _ visit: (Rows) throws -> Bool
    ) throws {
        guard let table = try table(statement.collection) else { return }
        let (sql, parameters) = try rendered(statement, table)
        let values = parameters.map(\.sent)
        let few = connection.firstPushedRows
        guard !statement.isInKeyOrder else {
            let first = [Connection.Step("\(sql) LIMIT \(few)", values)]
            guard let rows = try pushing({ try pipeline(first) }).last, try visit(rows),
                rows.count == few
            else { return }
            return try readInCursor("\(sql) OFFSET \(few)", values, statement, named: kind, visit)
        }
        if statement.isConfined, connection.fewRows.contains(sql) {
            if let rows = try fewRows(sql, values, statement) {
                _ = try visit(rows)
                return
            }
            connection.fewRows.noteMany(sql)
        }
        if statement.isOfFew, !connection.fewRows.hadMany(sql) {
            if let rows = try fewRows(sql, values, statement) {
                _ = try visit(rows)
                return
            }
            connection.fewRows.noteMany(sql, isExpectedFew: true)
        }
        try readInCursor(sql, values, statement, named: kind, visit)
    }

    /// The rows of a statement; nil if they are not few. The server plans as if it had to find all of them.
    private func fewRows(
        _ sql: String, _ values: [Parameter], _ statement: PushedStatement
    ) throws -> Rows? {
        let few = connection.firstPushedRows
        let answers = try pushing {
            try pipeline([
                planning(isFree: true, statement, usesIndex: !statement.isOfFew),
                Connection.Step(
                    "WITH few AS MATERIALIZED (\(sql)) SELECT * FROM few LIMIT \(few + 1)", values),
                planning(isFree: false, statement),
            ])
        }
        return answers[1].count <= few ? answers[1] : nil
    }

    private func readInCursor(
        _ sql: String, _ values: [Parameter], _ statement: PushedStatement, named kind: String,
        _ visit: (Rows) throws -> Bool
    ) throws {
        // The columns are in the name, so that a prepared FETCH always finds the same.
        let name = "\(kind)\(statement.columns)_\(openCursors)"
        openCursors += 1
        defer {
            openCursors -= 1
            leftCursors.append(name)
        }
        var steps = leftCursors.map { Connection.Step("CLOSE \($0)") }
        leftCursors = []
        var count = connection.firstPushedRows
        steps += [
            planning(isFree: true, statement),
            Connection.Step("DECLARE \(name) NO SCROLL CURSOR FOR \(sql)", values),
            planning(isFree: false, statement), Connection.Step("FETCH \(count) FROM \(name)"),
        ]
        var isFirst = true
        while let rows = try pushing({ try pipeline(steps) }).last {
            if isFirst, statement.isConfined || statement.isOfFew {
                if rows.count < count {
                    connection.fewRows.noteFew(sql)
                } else {
                    connection.fewRows.noteMany(sql)
                }
            }
            isFirst = false
            guard try visit(rows), rows.count == count else { return }
            let bytes = (0..<statement.columns).reduce(0) { $0 + rows.raw(rows.count - 1, $1).count }
            count =
                bytes > PostgresLimits.largeRowBytes
                ? connection.firstPushedRows : PostgresLimits.pushedRows
            steps = [Connection.Step("FETCH \(count) FROM \(name)")]
        }
    }

    /// Lets the server choose full scans, or not, and several processes.
    private func planning(
        isFree: Bool, _ statement: PushedStatement, usesIndex: Bool = false
    ) -> Connection.Step {
        Connection.Step(
            """
            SELECT set_config('enable_seqscan', $1, true), set_config('enable_bitmapscan', $2, true),
                set_config('cursor_tuple_fraction', $3, true), set_config('enable_mergejoin', $4, true),
                set_config('max_parallel_workers_per_gather', $5, true),
                set_config('plan_cache_mode', $6, true)
            """,
            [
                .text(isFree && !usesIndex && !statement.usesIndex ? "on" : "off"),
                .text(isFree ? "on" : "off"),
                .text(statement.wantsFirst ? "0.01" : "1"),
                // Without statistics of a field the server would sort both sides of a join, not hash one.
                .text(isFree && statement.joined != nil ? "off" : "on"),
                .text(isFree && statement.isOfFew ? connection.workers : "0"),
                // How much of a table a condition leaves depends on its values.
                .text(isFree && statement.isOfFew ? "force_custom_plan" : "auto"),
            ])
    }

    /// Runs SQL that was made of a statement.
    private func pushing<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try awaiting(body)
        } catch let error as PostgresError where !error.isConnectionLost && !error.isCancelled {
            throw PushFailure(error: error)
        }
    }
}

extension PushedStatement {
    /// True if its rows are groups, or the first of an order.
    fileprivate var isOfFew: Bool { part == .group || part == .top }
}

extension SQL.Parameter {
    /// The parameter as it is sent.
    fileprivate var sent: Parameter {
        switch self {
        case .text(let text): .text(text)
        case .texts(let texts): .textArray(texts)
        case .integer(let number): .int8(number)
        case .bytes(let bytes): .bytes(bytes)
        case .byteStrings(let strings): .bytesArray(strings)
        }
    }

    /// The parameter as people see it; of a long list its beginning.
    fileprivate var value: Value {
        switch self {
        case .text(let text): .string(text)
        case .texts(let texts): .array(texts.prefix(DQLLimits.explainedValues).map { .string($0) })
        case .integer(let number): .int(number)
        case .bytes(let bytes): Self.shown(bytes)
        case .byteStrings(let strings):
            .array(strings.prefix(DQLLimits.explainedValues).map(Self.shown))
        }
    }

    /// A key as PostgreSQL writes it.
    private static func shown(_ bytes: [UInt8]) -> Value {
        let digits = bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        return .string("\\x" + digits.joined())
    }
}
