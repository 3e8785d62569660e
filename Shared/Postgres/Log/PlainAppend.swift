import CRDT
import OperationLog

/// One database's part of a group in which every operation is plain: without condition and lease, and each
/// actor's operations in one run. Most groups are plain. The server takes them with one or two statements
/// in total, while `mimeo_log.append` decides operation by operation.
struct PlainAppend {
    /// The operations of one actor in the group: the indexes of the first and the last.
    private struct Run {
        let first: Int
        var last: Int
    }

    /// A statement to send after a head that the writer knows.
    struct Following {
        /// The statement; its row count is the number of operations written.
        let step: Connection.Step
        /// The chain hash after the operations.
        let hash: UInt64
        /// The head before the operations.
        let before: Offset
        /// The actors that the statement checks, because the writer does not know them.
        let strangers: [ActorID]
    }

    private let operations: [PreparedOperation]
    private var runs: [Run] = []

    /// The number of operations.
    var count: Int { operations.count }
    /// The number of operations and their touches together.
    var entries: Int { operations.reduce(count) { $0 + $1.touches.count } }
    /// The last operation of each actor.
    var lasts: some Sequence<PreparedOperation> { runs.lazy.map { operations[$0.last] } }

    /// Calls `body` for each touch with the offset of its operation, counted from this head.
    func forEachTouch(behind head: Offset, _ body: (Touch, Offset) -> Void) {
        for (place, operation) in operations.enumerated() {
            for touch in operation.touches { body(touch, head.advanced(by: place).next) }
        }
    }

    /// Nil when `mimeo_log.append` must decide.
    init?(_ operations: [PreparedOperation]) {
        self.operations = operations
        // A lone appender sends one operation.
        if operations.count == 1 {
            guard operations[0].condition == nil, operations[0].lease == nil else { return nil }
            runs = [Run(first: 0, last: 0)]
            return
        }
        var places: [ActorID: Int] = [:]
        places.reserveCapacity(operations.count)
        for (number, operation) in operations.enumerated() {
            guard operation.condition == nil, operation.lease == nil else { return nil }
            if let place = places[operation.record.actor] {
                let last = operations[runs[place].last]
                guard operation.record.sequence == last.record.sequence.next,
                    utf8Equal(operation.authorKey, last.authorKey)
                else { return nil }
                runs[place].last = number
            } else {
                places[operation.record.actor] = runs.count
                runs.append(Run(first: number, last: number))
            }
        }
    }

    /// For a writer that does not know the head: the server locks, checks, writes and flushes. The
    /// statement returns no row when `mimeo_log.append` must decide after all; else the database's number,
    /// and the head and chain hash before.
    func lockingStep(_ database: DatabaseID) -> Connection.Step {
        var touched: [Touch: Int64] = [:]
        for (number, operation) in operations.enumerated() {
            for touch in operation.touches { touched[touch] = Int64(number + 1) }
        }
        return Connection.Step(
            """
            SELECT home_number, head_before, hash_before FROM mimeo_log.append_plain(
                $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
            """,
            [
                .text(database.text),
                .int8Array(runs.map { Int64(bitPattern: operations[$0.first].record.actor.rawValue) }),
                .textArray(runs.map { operations[$0.first].authorKey }),
                .int8Array(runs.map { Int64(bitPattern: operations[$0.first].record.sequence.rawValue) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.record.sequence.rawValue) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.record.timestamp) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.contentHash) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.actor.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.sequence.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.timestamp) }),
                .int8Array(operations.map { Int64(bitPattern: $0.contentHash) }),
                .int8Array(hashes(after: 0)), .bytesArray(operations.map(\.record.bytes)),
                .int8Array(touched.map { Int64(bitPattern: $0.key.rawValue) }),
                .int8Array(touched.map(\.value)),
            ])
    }

    /// The chain hash after the last operation, from the one before the first.
    func hash(after start: UInt64) -> UInt64 {
        operations.reduce(start) { ChainHash.next(after: $0, digest: $1.digest) }
    }

    /// For a writer that knows the head: one statement that writes nothing unless the head is still the
    /// same, and the actors unknown to the writer stand where their runs begin.
    /// - Parameter unsure: actors of unconfirmed operations that the writer has sent without knowing the
    ///   actors.
    /// - Returns: nil when an actor known to the writer does not stand where its run begins, or an actor is
    ///   unsure.
    func following(_ known: WriterKnowledge, unsure: Set<ActorID>) -> Following? {
        if !unsure.isEmpty, runs.contains(where: { unsure.contains(operations[$0.first].record.actor) }) {
            return nil
        }
        if count == 1, let isNext = known.fits(operations[0]) { return isNext ? followingOne(known) : nil }
        var strangers: [Run] = []
        for run in runs {
            switch known.fits(operations[run.first]) {
            case .some(true): continue
            case .some(false): return nil
            case nil: strangers.append(run)
            }
        }
        let hashes = hashes(after: known.hash)
        let (hash, head) = (hashes[count - 1], Int64(bitPattern: known.head.rawValue))
        let place: [Parameter] = [
            .int8(known.number), .int8(head + Int64(count)), .int8(hash), .int8(head),
            .int8(Int64(bitPattern: known.hash)),
        ]
        func following(_ statement: Connection.Statement, _ parameters: [Parameter]) -> Following {
            Following(
                step: Connection.Step(statement, parameters), hash: UInt64(bitPattern: hash),
                before: known.head, strangers: strangers.map { operations[$0.first].record.actor })
        }
        var parameters = place + columns(hashes)
        guard !strangers.isEmpty else { return following(Self.many, parameters) }
        var keys = Array(repeating: "", count: count)
        for run in strangers { keys[run.first] = operations[run.first].authorKey }
        parameters += [
            .textArray(keys),
            .int8Array(strangers.map { Int64(bitPattern: operations[$0.first].record.actor.rawValue) }),
            .textArray(strangers.map { operations[$0.first].authorKey }),
            .int8Array(strangers.map { Int64(bitPattern: operations[$0.first].record.sequence.rawValue) }),
        ]
        return following(Self.manyOfStrangers, parameters)
    }

    /// The same for one operation of an actor that the writer knows. A lone appender waits for this, so it
    /// is made in one step.
    private func followingOne(_ known: WriterKnowledge) -> Following {
        let (operation, record) = (operations[0], operations[0].record)
        let hash = ChainHash.next(after: known.hash, digest: operation.digest)
        let step = Connection.Step(
            Self.one,
            [
                .int8(known.number), .int8(Int64(bitPattern: known.head.rawValue) + 1),
                .int8(Int64(bitPattern: hash)), .int8(Int64(bitPattern: known.head.rawValue)),
                .int8(Int64(bitPattern: known.hash)), .int8(Int64(bitPattern: record.actor.rawValue)),
                .int8(Int64(bitPattern: record.sequence.rawValue)),
                .int8(Int64(bitPattern: record.timestamp)),
                .bytes(record.bytes), .int8(Int64(bitPattern: operation.contentHash)),
                .int8Array(operation.touches.map { Int64(bitPattern: $0.rawValue) }),
            ])
        return Following(step: step, hash: hash, before: known.head, strangers: [])
    }

    // MARK: the statements

    private static let one = Connection.Statement(
        "one",
        """
        WITH home AS (
            UPDATE mimeo_log.databases d SET head = $2, hash = $3
            WHERE d.number = $1 AND d.head = $4 AND d.hash = $5 RETURNING d.number
        )
        INSERT INTO mimeo_log.operations
            (database, "offset", actor, sequence, "timestamp", hash, bytes, content, touches)
        SELECT home.number, $2, $6, $7, $8, $3, $9, $10, $11 FROM home
        """)

    /// Set-returning functions in the select list produce row by row; each one in FROM would be stored
    /// whole first.
    private static let many = Connection.Statement(
        "many",
        """
        WITH home AS (
            UPDATE mimeo_log.databases d SET head = $2, hash = $3
            WHERE d.number = $1 AND d.head = $4 AND d.hash = $5 RETURNING d.number
        )
        INSERT INTO mimeo_log.operations
            (database, "offset", actor, sequence, "timestamp", hash, bytes, content, touches)
        SELECT o.number, o.place, o.actor, o.sequence, o.stamp, o.hash, o.bytes, o.content,
            $12[o.first : o.last]
        FROM (
            SELECT home.number, generate_series($4 + 1, $2) AS place, unnest($6) AS actor,
                unnest($7) AS sequence, unnest($8) AS stamp, unnest($9) AS hash, unnest($10) AS bytes,
                unnest($11) AS content, unnest($13) AS first, unnest($14) AS last
            FROM home
        ) AS o
        """)

    /// The row of an actor's first operation has its key, for flushing.
    private static let manyOfStrangers = Connection.Statement(
        "many strangers",
        """
        WITH home AS (
            UPDATE mimeo_log.databases d SET head = $2, hash = $3
            WHERE d.number = $1 AND d.head = $4 AND d.hash = $5 AND NOT EXISTS (
                SELECT 1 FROM unnest($16, $17, $18) AS w (actor, key, first)
                LEFT JOIN mimeo_log.actors a ON a.database = $1 AND a.actor = w.actor
                WHERE CASE WHEN a.actor IS NULL THEN w.first <> 1
                    ELSE a.key <> w.key OR a.sequence <> w.first - 1 END
            ) RETURNING d.number
        )
        INSERT INTO mimeo_log.operations
            (database, "offset", actor, sequence, "timestamp", hash, bytes, content, touches, key)
        SELECT o.number, o.place, o.actor, o.sequence, o.stamp, o.hash, o.bytes, o.content,
            $12[o.first : o.last], o.key
        FROM (
            SELECT home.number, generate_series($4 + 1, $2) AS place, unnest($6) AS actor,
                unnest($7) AS sequence, unnest($8) AS stamp, unnest($9) AS hash, unnest($10) AS bytes,
                unnest($11) AS content, unnest($13) AS first, unnest($14) AS last, unnest($15) AS key
            FROM home
        ) AS o
        """)

    /// One step of each statement, for a connection to prepare: after another group only prepared
    /// statements can be sent.
    static var kinds: [Connection.Step] {
        let number = Parameter.int8(0)
        let numbers = Parameter.int8Array([])
        let place = [number, number, number, number, number]
        let columns = [
            numbers, numbers, numbers, numbers, .bytesArray([]), numbers, numbers, numbers, numbers,
        ]
        return [
            Connection.Step(one, place + [number, number, number, .bytes([]), number, numbers]),
            Connection.Step(many, place + columns),
            Connection.Step(
                manyOfStrangers, place + columns + [.textArray([]), numbers, .textArray([]), numbers]),
        ]
    }

    /// The columns of all operations; each operation's touches are a slice of all touches.
    private func columns(_ hashes: [Int64]) -> [Parameter] {
        var touches: [Int64] = []
        var (firsts, lasts): ([Int64], [Int64]) = ([], [])
        for operation in operations {
            firsts.append(Int64(touches.count + 1))
            touches += operation.touches.lazy.map { Int64(bitPattern: $0.rawValue) }
            lasts.append(Int64(touches.count))
        }
        return [
            .int8Array(operations.map { Int64(bitPattern: $0.record.actor.rawValue) }),
            .int8Array(operations.map { Int64(bitPattern: $0.record.sequence.rawValue) }),
            .int8Array(operations.map { Int64(bitPattern: $0.record.timestamp) }),
            .int8Array(hashes), .bytesArray(operations.map(\.record.bytes)),
            .int8Array(operations.map { Int64(bitPattern: $0.contentHash) }), .int8Array(touches),
            .int8Array(firsts), .int8Array(lasts),
        ]
    }

    /// The chain hash at each operation after this one. A step of the chain rotates and XORs, so starting
    /// at 0 yields the group's contribution for any start: the hash there, rotated once per operation, XOR
    /// this.
    private func hashes(after start: UInt64) -> [Int64] {
        var hash = start
        return operations.map { operation in
            hash = ChainHash.next(after: hash, digest: operation.digest)
            return Int64(bitPattern: hash)
        }
    }
}
