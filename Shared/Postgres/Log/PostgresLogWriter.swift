import CRDT
import Logging
import OperationLog

extension Touch {
    /// As PostgreSQL stores it.
    fileprivate var bits: Int64 { Int64(bitPattern: rawValue) }
}

/// Commits groups on a connection of its own, which it opens again when it was lost.
///
/// What a failure means is decided here, once:
/// - the server cannot be reached: nothing was sent, nothing is stored (`LOG-0309`);
/// - the connection is lost while a group is under way: the group may be stored or not (`LOG-0308`). The
///   writer goes on with a new connection: what the server shows after its recovery is durable, so the
///   frontier tells what became of the group;
/// - the server refuses: it has undone the whole group (`LOG-0301`, `LOG-0302`, `LOG-0307`).
///
/// There is no poisoned state: a server whose fsync fails stops itself, and recovers from its write-ahead
/// log.
///
/// Used by one thread at a time: the committer's.
final class PostgresLogWriter: @unchecked Sendable {
    // Unchecked: `connection` is touched by the group committer's serial queue only.
    private let url: String
    private let logger: Logger
    private var connection: Connection?
    /// What this connection's appends have shown of databases. A server that was put back has ended all
    /// connections, so the first group of each looks whether the last entry is the one that the head names.
    private var known: [String: WriterKnowledge] = [:]

    /// Whether the answer to a group was lost: then it may be stored, and nobody was told. Who sends it again
    /// finds it there, which is no growth.
    private var hasLostAnswer = false
    /// The heads that were found after an answer was lost, for whoever is told of the next group.
    private var regained: [String: UInt64] = [:]

    /// What `mimeo_log.append` says of an operation; negative ones are about the whole database.
    private enum Verdict {
        static let appended: Int64 = 0
        static let duplicate: Int64 = 1
        static let gap: Int64 = 2
        static let foreignActor: Int64 = 3
        static let differentContent: Int64 = 4
        static let condition: Int64 = 5
        static let leaseLost: Int64 = 6
        static let unknownDatabase: Int64 = -1
        static let damagedHead: Int64 = -2
    }

    private static let append = """
        SELECT verdict, value FROM mimeo_log.append(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        """

    /// A writer to this server. Connects at its first group.
    init(url: String, logger: Logger) {
        self.url = url
        self.logger = logger
    }

    /// One database's part of a group.
    private struct Part {
        let database: String
        /// The places of its calls in the group.
        let numbers: [Int]
        let operations: [PreparedOperation]
    }

    /// What became of a group so far.
    private struct Outcome {
        var results: [Result<[AppendOutcome], OperationLogError>]
        /// The new heads of the databases that grew.
        var grown: [String: UInt64] = [:]
    }

    /// Commits one group, databases in a fixed order, so that two processes never wait for each other in a
    /// ring. What is plain goes first, in one round trip; what the server then leaves to decide, or has a
    /// condition or lease, in another.
    /// - Returns: what became of it, and the new heads of the databases that grew.
    func commit(_ calls: [AppendCall]) -> (GroupOutcome, grown: [String: UInt64]) {
        let numbers = Dictionary(grouping: calls.indices) { calls[$0].database }
        let parts = numbers.keys.sorted(by: utf8Precedes).map { database in
            let own = numbers[database] ?? []
            return Part(
                database: database, numbers: own, operations: own.flatMap { calls[$0].operations })
        }
        var outcome = Outcome(results: Array(repeating: .success([]), count: calls.count))
        let rest: [Part]
        do {
            rest = try commitPlain(parts, calls, &outcome)
        } catch {
            return (.refused(failure(error)), [:])
        }
        if !rest.isEmpty {
            do {
                for part in rest { known[part.database] = nil }
                let steps = rest.map { Self.step($0, calls) }
                for (part, rows) in zip(rest, try open().transaction(steps)) {
                    Self.take(rows, part, calls, &outcome)
                }
            } catch {
                // The plain ones are stored.
                let failure = failure(error)
                for number in rest.flatMap(\.numbers) { outcome.results[number] = .failure(failure) }
            }
        }
        defer { regained = [:] }
        return (.committed(outcome.results), outcome.grown.merging(regained) { max($0, $1) })
    }

    /// Commits the parts that are plain.
    /// - Returns: the others, in their order.
    private func commitPlain(
        _ parts: [Part], _ calls: [AppendCall], _ outcome: inout Outcome
    ) throws -> [Part] {
        let connection = try open()
        let plain = parts.map { PlainAppend($0.operations, knowing: known[$0.database]) }
        let steps = zip(parts, plain).compactMap { part, plain in plain?.step(part.database) }
        // One statement is a transaction by itself.
        var answers = try (steps.count > 1 ? connection.transaction(steps) : connection.run(steps))[...]
        var rest: [Part] = []
        for (part, plain) in zip(parts, plain) {
            guard let plain, let rows = answers.popFirst(), !rows.isNull(0, 0) else {
                rest.append(part)
                continue
            }
            var offset = rows.bits(0, 0)
            for number in part.numbers {
                outcome.results[number] = .success(
                    calls[number].operations.map { _ in
                        offset += 1
                        return .appended(offset: offset)
                    })
            }
            outcome.grown[part.database] = offset
            learn(plain, from: rows.bits(0, 0), part.database)
        }
        return rest
    }

    /// Takes note of a group that was appended behind `before`.
    private func learn(_ plain: PlainAppend, from before: UInt64, _ database: String) {
        var knowledge = known.removeValue(forKey: database)
        knowledge?.take(plain, from: before)
        let latest = knowledge ?? WriterKnowledge(after: plain, from: before)
        if !latest.isTooMuch { known[database] = latest }
    }

    /// Takes what `mimeo_log.append` said of a part.
    private static func take(_ rows: Rows, _ part: Part, _ calls: [AppendCall], _ outcome: inout Outcome) {
        var row = 0
        let failure = failure(rows, part.database)
        for number in part.numbers {
            if let failure {
                outcome.results[number] = .failure(failure)
                continue
            }
            let outcomes = (row..<row + calls[number].operations.count).map { Self.outcome(rows, $0) }
            row += outcomes.count
            for case .appended(let offset) in outcomes { outcome.grown[part.database] = offset }
            outcome.results[number] = .success(outcomes)
        }
    }

    /// An error of a commit as the log's; a connection that was lost is opened again next time.
    private func failure(_ error: any Error) -> OperationLogError {
        known = [:]
        switch error {
        case let error as OperationLogError: return error
        case let error as PostgresError:
            if error.isConnectionLost {
                connection = nil
                hasLostAnswer = true
                logger.warning("the connection to PostgreSQL was lost during a commit: \(error.message)")
            }
            return Self.translated(error)
        default: preconditionFailure("a group failed with a foreign error: \(error)")
        }
    }

    /// Gives the connection back.
    func close() { connection = nil }

    /// What the writer's own connection has a server setting at.
    func setting(_ name: String) throws -> String {
        try open().query("SELECT current_setting($1)", [.text(name)]).text(0, 0)
    }

    /// An error of PostgreSQL as one of the log, during a change.
    static func translated(_ error: PostgresError) -> OperationLogError {
        if error.isConnectionLost {
            return OperationLogError(
                .outcomeUnknown, "PostgreSQL went away, ask the frontier what was stored: \(error.message)")
        }
        switch error.state ?? "" {
        case "53100": return OperationLogError(.storageFull, "the server's storage is full")
        case "55P03", "40P01", "40001":
            return OperationLogError(.busy, "another process holds the lock of the log: \(error)")
        default: return OperationLogError(.storageFailed, error.description)
        }
    }

    private func open() throws(OperationLogError) -> Connection {
        // A server that restarted while nothing was under way is no reason for an unknown outcome.
        if let connection, connection.isAlive { return connection }
        do throws(PostgresError) {
            let connection = try Connection(url: url)
            // An acknowledged operation is on disk, whatever the server's or the role's default is; a standby
            // that was asked for stays asked for.
            try connection.run(
                """
                SELECT set_config('synchronous_commit', 'on', false)
                WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
                """)
            try connection.run("SET lock_timeout = '\(LogLimits.busyTimeout.components.seconds)s'")
            let settings = try connection.query("SELECT current_setting('fsync') = 'on'")
            if !settings.bool(0, 0) {
                logger.error("this PostgreSQL runs with fsync = off: what it acknowledges can be lost")
            }
            // Statements are planned while tables are empty and run when they are not: never by reading all.
            // They are planned once; the server would plan anew at every call, since arrays of a known length
            // look cheaper.
            try connection.run(
                """
                SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
                SET jit = off; SET plan_cache_mode = force_generic_plan
                """)
            if hasLostAnswer {
                regained = Dictionary(uniqueKeysWithValues: try PostgresLogReader.heads(connection))
                hasLostAnswer = false
            }
            self.connection = connection
            known = [:]
            return connection
        } catch {
            throw OperationLogError(.unreachable, "PostgreSQL cannot be reached: \(error.message)")
        }
    }

    private static func step(_ part: Part, _ calls: [AppendCall]) -> Connection.Step {
        let operations = part.numbers.flatMap { number in calls[number].operations.map { (number, $0) } }
        return Connection.Step(
            append,
            [
                .text(part.database), .int8Array(operations.map { Int64($0.0) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.record.actor.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.record.sequence) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.record.timestamp) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.contentHash) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.digest) }),
                .textArray(operations.map(\.1.authorKey)), .bytesArray(operations.map(\.1.record.bytes)),
                .int8Array(operations.flatMap { $0.1.touches.map(\.bits) }),
                .int8Array(ends(operations.map(\.1.touches.count))),
                .int8Array(operations.flatMap { $0.1.condition?.reads.map(\.bits) ?? [] }),
                .int8Array(ends(operations.map { $0.1.condition?.reads.count ?? 0 })),
                .int8Array(operations.map { $0.1.condition.map { Int64(clamping: $0.readAt) } ?? -1 }),
                .int8Array(operations.map { Int64($0.1.lease?.number ?? 0) }),
                .int8Array(operations.map { Int64($0.1.lease?.epoch ?? 0) }),
            ])
    }

    /// Where the parts end that have these lengths.
    private static func ends(_ lengths: [Int]) -> [Int64] {
        var end: Int64 = 0
        return lengths.map { length in
            end += Int64(length)
            return end
        }
    }

    private static func failure(_ rows: Rows, _ database: String) -> OperationLogError? {
        guard rows.count == 1 else { return nil }
        switch rows.int8(0, 0) {
        case Verdict.unknownDatabase:
            return OperationLogError(.unknownDatabase, "there is no database of this id", database: database)
        case Verdict.damagedHead:
            return OperationLogError(
                .corrupt, "the last entry is missing or is not the one the head names", database: database,
                offset: rows.bits(0, 1))
        default: return nil
        }
    }

    private static func outcome(_ rows: Rows, _ row: Int) -> AppendOutcome {
        let value = rows.bits(row, 1)
        switch rows.int8(row, 0) {
        case Verdict.appended: return .appended(offset: value)
        case Verdict.duplicate: return .duplicate(through: value)
        case Verdict.gap: return .gap(expected: value)
        case Verdict.foreignActor: return .conflict(.foreignActor)
        case Verdict.differentContent: return .conflict(.differentContent(sequence: value))
        case Verdict.condition: return .conflict(.condition(offset: value))
        case Verdict.leaseLost: return .conflict(.leaseLost)
        case let verdict: preconditionFailure("mimeo_log.append gave the verdict \(verdict)")
        }
    }
}
