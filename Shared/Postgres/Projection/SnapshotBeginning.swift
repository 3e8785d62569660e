import CRDT
import OperationLog

/// A generation as a connection has met it last, which its next snapshot of the database expects to meet.
struct ExpectedGeneration: Equatable {
    let number: Int32
    let layout: Int64
    let indexVersion: UInt64
    /// The server's number of its schema.
    let schema: Int64

    fileprivate init(_ generation: Generation, schema: Int64) {
        (number, layout) = (generation.number, generation.layout)
        (indexVersion, self.schema) = (generation.indexVersion, schema)
    }
}

/// The beginning of a snapshot. It makes no round trip of its own: the first query goes along with it, made
/// for the generation that the connection has met last. Its answers count if the server has met that one
/// too; else everything is thrown away, and a snapshot begins that asks first.
///
/// A document that is all a statement reads comes in one statement, without a transaction.
extension ProjectionSnapshot {
    /// How far a snapshot is.
    enum Stage {
        /// Nothing was asked; the generation is the expected one, if it is as it was.
        case expecting
        /// Its transaction is open.
        case open(Generation)
        /// One statement has told everything that it tells.
        case told(Generation)
        /// Its beginning has failed.
        case failed
    }

    /// The position that a snapshot has to be of.
    enum Demand {
        /// A position that passes the check, which throws.
        case position((LogPosition) throws -> Void)
        /// The head of the log, which is on the same server, from an offset on; else `IsElsewhere` is thrown.
        case head(from: Offset)
    }

    /// The projection is not at the head of the log, or cannot be read yet.
    struct IsElsewhere: Error {}

    /// An expectation was wrong: the server is to be asked first.
    private struct Outdated: Error {}

    /// More is asked than one statement told.
    private struct IsAskedMore: Error {}

    /// Runs `body` on a snapshot, in a transaction that is rolled back. `body` may run twice.
    /// - Parameters:
    ///   - key: the only document that `body` will look up, which is read with the beginning if its table is
    ///     known.
    ///   - wait: told of each wait for a scan.
    ///   - fallsBack: true to run `body` again without SQL of ours after the server has refused some.
    static func run<Result>(
        of database: DatabaseID, on connection: Connection, fetching key: DocumentKey? = nil,
        demanding demand: Demand = .position { _ in }, waiting wait: (any ServerWait)? = nil,
        fallsBack: Bool = true, _ body: (ProjectionSnapshot) throws -> Result
    ) throws -> Result {
        try connection.prepareForSnapshots()
        var (isPushing, key) = (true, key)
        for _ in 0..<PostgresLimits.snapshotAttempts {
            do {
                let snapshot = try take(database, connection, isPushing: isPushing, demand, wait)
                if let key { try snapshot?.fetch(key) }
                let result = try snapshot?.evaluate(body)
                try connection.leave()
                if let result { return result }
            } catch is Outdated {
                try connection.leave()
                connection.knownGenerations[database] = nil
            } catch is IsAskedMore {
                key = nil
            } catch let failure as PushFailure {
                try connection.undo(after: failure.error)
                guard fallsBack else { throw failure.error }
                isPushing = false
            } catch is IsElsewhere {
                try connection.leave()
                throw IsElsewhere()
            } catch {
                try connection.undo(after: error)
                throw error
            }
        }
        throw ProjectionError(.notReady, "the projection was rebuilt at every attempt to read it; try again")
    }

    /// A snapshot that expects what the connection knows. Where it knows nothing, the server is asked first:
    /// nil if the generation was removed meanwhile.
    private static func take(
        _ database: DatabaseID, _ connection: Connection, isPushing: Bool, _ demand: Demand,
        _ wait: (any ServerWait)?
    ) throws -> ProjectionSnapshot? {
        func snapshot(_ expected: ExpectedGeneration, _ stage: Stage) -> ProjectionSnapshot {
            ProjectionSnapshot(of: database, expected, stage, connection, isPushing: isPushing, demand, wait)
        }
        if let known = connection.knownGenerations[database] { return snapshot(known, .expecting) }
        let answers = try connection.pipeline(beginning(database, demand))
        guard let (generation, met, isBuilding) = try met(answers, demand) else { return nil }
        if connection.knownGenerations.count >= PostgresLimits.knownTables {
            connection.knownGenerations = [:]
        }
        connection.knownGenerations[database] = met
        let taken = snapshot(met, .open(generation))
        taken.isBuilding = isBuilding
        return taken
    }

    /// Also a failure may be one of what was expected, so it counts after the beginning only.
    private func evaluate<Result>(_ body: (ProjectionSnapshot) throws -> Result) throws -> Result {
        do {
            let result = try body(self)
            try begin()
            return result
        } catch {
            try begin()
            throw error
        }
    }

    // MARK: What is asked

    /// Begins the transaction if no query has.
    func begin() throws { if case .expecting = stage { _ = try pipeline([]) } }

    /// The position in the log.
    public func position() throws -> LogPosition { try met().position }

    /// The greatest timestamp folded.
    func clock() throws -> Timestamp { try met().clock }

    private func met() throws -> Generation {
        try begin()
        switch stage {
        case .open(let generation), .told(let generation): return generation
        case .expecting, .failed: throw Outdated()
        }
    }

    /// Runs a statement, as a step of `pipeline`.
    func query(_ sql: String, _ parameters: [Parameter] = []) throws -> Rows {
        let step = Connection.Step(sql, parameters)
        if case .open = stage { return try connection.query(step) }
        return try pipeline([step])[0]
    }

    /// Runs steps in the snapshot's transaction, which begins with the first ones.
    func pipeline(_ steps: [Connection.Step]) throws -> [Rows] {
        switch stage {
        case .open: return try connection.pipeline(steps)
        case .told: throw IsAskedMore()
        case .failed: throw Outdated()
        case .expecting: break
        }
        stage = .failed
        let first = Self.beginning(database, demand)
        let answers = try expecting { () throws(PostgresError) in try connection.pipeline(first + steps) }
        guard let (generation, met, isBuilding) = try Self.met(answers, demand), met == expected else {
            throw Outdated()
        }
        (stage, self.isBuilding) = (.open(generation), isBuilding)
        return Array(answers.dropFirst(first.count))
    }

    /// Reads a document, and everything that a snapshot says of itself, if its table is known.
    private func fetch(_ key: DocumentKey) throws {
        let collection = Connection.KnownCollection(schema: schema, name: key.collection)
        guard case .expecting = stage, let number = connection.knownTables[collection] else { return }
        stage = .failed
        let rows = try expecting { () throws(PostgresError) in
            try connection.query(
                Self.wholeStep(database, demand, key.id, in: ProjectionNames.table(generation, number)))
        }
        let column = Generation.columnCount
        guard rows.count == 1, let generation = try Generation(rows, 0), !rows.isNull(0, column),
            ExpectedGeneration(generation, schema: rows.int8(0, column)) == expected
        else { throw Outdated() }
        try demand.check(generation.position, rows, column + 2)
        stage = .told(generation)
        fetched = (key, rows, column + 1)
    }

    /// Runs SQL that was made for the expected generation. It may be refused because that is gone.
    private func expecting<Answer>(_ body: () throws(PostgresError) -> Answer) throws -> Answer {
        do throws(PostgresError) {
            return try body()
        } catch {
            guard !error.isConnectionLost, !error.isCancelled else { throw error }
            throw Outdated()
        }
    }

    // MARK: SQL

    /// The steps that begin a transaction and find the generation; and the log's head, if that is demanded.
    private static func beginning(_ database: DatabaseID, _ demand: Demand) -> [Connection.Step] {
        var steps = [
            Connection.Step("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            Connection.Step(
                """
                SELECT \(Generation.columns(of: "g")),
                    pg_try_advisory_xact_lock_shared(\(ProjectionLocks.generation), g.number),
                    d.building IS NOT NULL
                FROM mimeo_projection.databases d
                JOIN mimeo_projection.generations g ON g.number = d.generation WHERE d.id = $1
                """, [.text(database.text)]),
            // A statement of its own, after the lock: schemas are looked up as they are now.
            Connection.Step(
                """
                SELECT to_regnamespace('\(ProjectionNames.schemaPrefix)' || d.generation)::oid::int8
                FROM mimeo_projection.databases d WHERE d.id = $1
                """, [.text(database.text)]),
        ]
        if case .head = demand {
            steps.append(
                Connection.Step(
                    "SELECT log_id, head, hash FROM mimeo_log.databases WHERE id = $1",
                    [.text(database.text)]))
        }
        return steps
    }

    /// The generation that a beginning has met, and whether another one is being built; nil when it was
    /// removed meanwhile.
    private static func met(
        _ answers: [Rows], _ demand: Demand
    ) throws -> (Generation, ExpectedGeneration, isBuilding: Bool)? {
        let (rows, schemas) = (answers[1], answers[2])
        guard rows.count == 1, let generation = try Generation(rows, 0) else {
            if case .head = demand { throw IsElsewhere() }
            throw ProjectionError(.notReady, "the projection has not been started; try again")
        }
        // A process that removes a generation holds this lock exclusively.
        guard rows.bool(0, Generation.columnCount), !schemas.isNull(0, 0) else { return nil }
        try demand.check(generation.position, answers[min(3, answers.count - 1)], 0)
        return (
            generation, ExpectedGeneration(generation, schema: schemas.int8(0, 0)),
            rows.bool(0, Generation.columnCount + 1)
        )
    }

    /// The beginning and a document in one statement, which sees one moment. The server looks for the table
    /// before it begins, and lets nobody remove it until it has ended; the number of the schema then tells
    /// whose table it was.
    private static func wholeStep(
        _ database: DatabaseID, _ demand: Demand, _ id: DocumentID, in table: String
    ) -> Connection.Step {
        var (head, log) = ("", "")
        if case .head = demand {
            (head, log) = (", l.log_id, l.head, l.hash", "LEFT JOIN mimeo_log.databases l ON l.id = d.id")
        }
        return Connection.Step(
            """
            SELECT \(Generation.columns(of: "g")),
                to_regnamespace('\(ProjectionNames.schemaPrefix)' || g.number)::oid::int8,
                (SELECT state FROM \(table) WHERE id = \(CollectionTables.key(of: "$2")) AND live)\(head)
            FROM mimeo_projection.databases d
            JOIN mimeo_projection.generations g ON g.number = d.generation \(log) WHERE d.id = $1
            """, [.text(database.text), .bytes(id.bytes)])
    }
}

extension ProjectionSnapshot.Demand {
    /// Checks a position, with the log's head beside it if that is demanded.
    fileprivate func check(_ position: LogPosition, _ rows: Rows, _ column: Int) throws {
        switch self {
        case .position(let check): try check(position)
        case .head(let offset):
            guard position.offset >= offset, rows.count == 1, !rows.isNull(0, column),
                rows.bytes(0, column) == position.logID.bytes,
                rows.bits(0, column + 1) == position.offset.rawValue,
                rows.bits(0, column + 2) == position.hash
            else { throw ProjectionSnapshot.IsElsewhere() }
        }
    }
}

extension Connection {
    /// Sets the session up as snapshots need it. Plans are made for tables of unknown size, so they must
    /// always use the key.
    fileprivate func prepareForSnapshots() throws {
        guard !isForSnapshots else { return }
        workers = try query("SELECT current_setting('max_parallel_workers_per_gather')").text(0, 0)
        try run(
            """
            SET lock_timeout = '\(PostgresLimits.workerLockSeconds)s'; SET enable_seqscan = off;
            SET enable_bitmapscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0
            """)
        isForSnapshots = true
    }
}
