import CLibPQ
import Glibc
import OperationLog

/// One connection to PostgreSQL. Blocks the calling thread; used by one thread at a time, which its owner
/// sees to (a serial queue).
///
/// Invariant: once a call has thrown with `isConnectionLost`, the connection is of no use any more.
final class Connection {
    /// A statement that is sent again and again, with a short name of its own: by its text alone, all of that
    /// would be hashed each time.
    struct Statement {
        let name: String
        let sql: String

        init(_ name: String, _ sql: String) { (self.name, self.sql) = (name, sql) }
    }

    /// A statement with its parameters.
    struct Step {
        let sql: String
        let parameters: [Parameter]
        /// What a connection knows the statement by.
        fileprivate let key: String

        init(_ sql: String, _ parameters: [Parameter] = []) {
            (self.sql, self.parameters, key) = (sql, parameters, sql)
        }

        init(_ statement: Statement, _ parameters: [Parameter]) {
            (sql, self.parameters, key) = (statement.sql, parameters, statement.name)
        }
    }

    private let handle: OpaquePointer
    /// Says when this waits for the server.
    let watch: AnswerWatch.Entry
    /// The server's names of the statements that it has prepared, by their key.
    private var prepared: [String: String] = [:]
    /// What is sent with a statement.
    private let values = ParameterBuffer()
    private var lastStatement = 0
    /// How many steps each `send` had whose `receive` is to come.
    private var underWay: [Int] = []

    /// Connects. `url` is anything libpq takes (`postgres://`, TLS by `sslmode`). Time-outs and keep-alives
    /// that it does not name are ours, and so are the server's: it is not to keep the locks of a client that
    /// has vanished.
    /// - Parameter patience: how long the server may take to answer; behind that the connection is lost.
    init(
        url: String, patience: Duration = PostgresLimits.answerTimeout
    ) throws(PostgresError) {
        guard let handle = try Self.withSettings(url, { PQconnectdbParams($0, $1, 0) }) else {
            throw PostgresError(state: nil, message: "no memory for a connection", isConnectionLost: true)
        }
        guard PQstatus(handle) == CONNECTION_OK else {
            let message = PostgresError.line(String(cString: PQerrorMessage(handle)))
            PQfinish(handle)
            throw PostgresError(state: nil, message: message, isConnectionLost: true)
        }
        self.handle = handle
        watch = AnswerWatch.shared.watch(PQsocket(handle), patience: patience)
        let seconds = PostgresLimits.unacknowledgedTimeout.components.seconds
        try run(
            """
            SET tcp_keepalives_idle = \(seconds); SET tcp_keepalives_interval = 2;
            SET tcp_keepalives_count = 3; SET tcp_user_timeout = '\(seconds)s';
            SET client_min_messages = warning;
            SET lock_timeout = '\(LogLimits.busyTimeout.components.seconds)s'
            """)
    }

    deinit {
        AnswerWatch.shared.forget(watch)
        PQfinish(handle)
    }

    /// The socket, for whoever waits for notifications.
    var socket: Int32 { PQsocket(handle) }
    /// Whether the server has not hung up, as far as can be told without asking it. As a rule it has said
    /// nothing. A server that ends a connection says why: of the two reads the first has that, the second one
    /// the end.
    var isAlive: Bool {
        var byte: UInt8 = 0
        let isQuiet = recv(socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) < 0 && errno == EAGAIN
        return PQstatus(handle) == CONNECTION_OK
            && (isQuiet || PQconsumeInput(handle) == 1 && PQconsumeInput(handle) == 1)
    }
    /// The server's version, as 150004 for 15.4.
    var serverVersion: Int { Int(PQserverVersion(handle)) }

    /// Whether a server that did not take a connection may take one later: it is starting, stopping, full or
    /// not there; no other URL would help.
    static func mayComeBack(_ url: String) -> Bool {
        switch try? withSettings(url, { PQpingParams($0, $1, 0) }) {
        case PQPING_REJECT, PQPING_NO_RESPONSE: true
        default: false
        }
    }

    /// Runs statements without parameters or results.
    func run(_ script: String) throws(PostgresError) {
        _ = try check(watch.waiting { PQexec(handle, script) })
    }

    /// Runs one statement, prepared at its first use.
    func query(_ sql: String, _ parameters: [Parameter] = []) throws(PostgresError) -> Rows {
        try query(Step(sql, parameters))
    }

    private func query(_ step: Step) throws(PostgresError) -> Rows {
        forgetStatements(unlessRoomFor: 1)
        let name = try prepare(step)
        return try check(
            values.with(step.parameters) { count, values, lengths, formats in
                watch.waiting { PQexecPrepared(handle, name, count, values, lengths, formats, 1) }
            })
    }

    /// Runs steps one after the other.
    func run(_ steps: [Step]) throws(PostgresError) -> [Rows] {
        var results: [Rows] = []
        for step in steps { results.append(try query(step)) }
        return results
    }

    /// Sends all steps at once and reads all results: one round trip. The steps are one transaction; if one
    /// fails, the server skips the others and undoes them.
    func transaction(_ steps: [Step]) throws(PostgresError) -> [Rows] {
        do throws(PostgresError) {
            let results = try pipeline([Step("BEGIN")] + steps + [Step("COMMIT")])
            return Array(results.dropFirst().dropLast())
        } catch {
            if !error.isConnectionLost { try rollBack() }
            throw error
        }
    }

    /// Undoes the open transaction. Where none is, nothing: the server would print a warning.
    func rollBack() throws(PostgresError) {
        guard PQtransactionStatus(handle) != PQTRANS_IDLE else { return }
        try run("ROLLBACK")
    }

    /// Sends all steps at once and reads all results: one round trip, within the transaction that is open or
    /// that they open. If one fails, the server skips the others; what is open then is for the caller to roll
    /// back.
    func pipeline(_ steps: [Step]) throws(PostgresError) -> [Rows] {
        precondition(underWay.isEmpty, "a pipeline would read the results of what was sent before")
        try send(steps)
        return try receive()
    }

    /// Sends steps as `body` makes them, and reads all results behind the last, as `pipeline` does: the
    /// server works on one while the next one is made.
    /// - Parameter kinds: a step of each statement that will be sent.
    func pipeline(
        of kinds: [Step], _ body: (_ send: (Step) throws(PostgresError) -> Void) throws -> Void
    ) throws -> [Rows] {
        precondition(underWay.isEmpty, "a pipeline would read the results of what was sent before")
        try enterPipeline(kinds)
        var count = 0
        let made = Result {
            try body { step throws(PostgresError) in
                try put(step)
                count += 1
            }
        }
        try sync(count)
        let results = Result { () throws(PostgresError) in try receive() }
        try made.get()
        return try results.get()
    }

    /// Prepares the statements of steps, so that they can be sent behind others.
    func prepare(_ kinds: [Step]) throws(PostgresError) {
        for kind in kinds { _ = try prepare(kind) }
    }

    /// Whether steps can be sent now: behind others only what is prepared.
    func canSend(_ steps: [Step]) -> Bool {
        underWay.isEmpty || steps.allSatisfy { prepared[$0.key] != nil }
    }

    /// Sends steps without waiting for results, a transaction of their own unless one is open. Until
    /// `receive` was called as often as this, nothing but these two may be.
    func send(_ steps: [Step]) throws(PostgresError) {
        precondition(canSend(steps), "a statement cannot be prepared while results are to come")
        if underWay.isEmpty { try enterPipeline(steps) }
        for step in steps { try put(step) }
        try sync(steps.count)
    }

    private func enterPipeline(_ steps: [Step]) throws(PostgresError) {
        forgetStatements(unlessRoomFor: steps.count)
        for step in steps { _ = try prepare(step) }
        guard PQenterPipelineMode(handle) == 1 else { throw failure() }
    }

    private func put(_ step: Step) throws(PostgresError) {
        let isSent = values.with(step.parameters) { count, values, lengths, formats in
            watch.waiting {
                PQsendQueryPrepared(handle, prepared[step.key], count, values, lengths, formats, 1)
            }
        }
        guard isSent == 1 else { throw failure() }
    }

    private func sync(_ count: Int) throws(PostgresError) {
        guard watch.waiting({ PQpipelineSync(handle) }) == 1 else { throw failure() }
        underWay.append(count)
    }

    /// Whether the server's answer to what was sent begins to come within this time; where the connection was
    /// lost, that is what `receive` says. The rest comes with the beginning, or behind an error soon after.
    func hasAnswer(within patience: Duration) -> Bool {
        let end = ContinuousClock.now + patience
        while PQisBusy(handle) == 1 {
            let rest = (end - .now).wholeMicroseconds
            var bell = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            guard rest > 0, poll(&bell, 1, Int32((rest + 999) / 1_000)) > 0 else { return false }
            guard PQconsumeInput(handle) == 1 else { break }
        }
        return true
    }

    /// The results of the first `send` whose results are to come. If a step failed, the server has skipped
    /// those behind it in the same `send`.
    func receive() throws(PostgresError) -> [Rows] {
        let count = underWay.removeFirst()
        var results: [Rows] = []
        results.reserveCapacity(count)
        var firstFailure: PostgresError?
        for _ in 0..<count {
            do throws(PostgresError) { results.append(try nextResult()) } catch {
                guard !error.isConnectionLost else { throw error }
                firstFailure = firstFailure ?? error
            }
        }
        // The transaction ends here: what fails at its commit is said in place of the end, before it.
        while true {
            guard let result = nextAnswer() else { throw failure() }
            if PQresultStatus(result) == PGRES_PIPELINE_SYNC {
                PQclear(result)
                break
            }
            do throws(PostgresError) { _ = try check(result) } catch {
                guard !error.isConnectionLost else { throw error }
                firstFailure = firstFailure ?? error
            }
            while let rest = nextAnswer() { PQclear(rest) }
        }
        guard !underWay.isEmpty || PQexitPipelineMode(handle) == 1 else { throw failure() }
        if let firstFailure { throw firstFailure }
        return results
    }

    /// What was notified since the last call, without waiting: the payloads. Throws when the server has hung
    /// up.
    func notifications() throws(PostgresError) -> [String] {
        // Twice, as in `isAlive`: the socket rings once for a server's last words and its end together.
        guard PQconsumeInput(handle) == 1, PQconsumeInput(handle) == 1 else { throw failure() }
        var payloads: [String] = []
        while let notification = PQnotifies(handle) {
            if let payload = notification.pointee.extra { payloads.append(String(cString: payload)) }
            PQfreemem(notification)
        }
        return payloads
    }

    // MARK: libpq

    private func prepare(_ step: Step) throws(PostgresError) -> String {
        if let known = prepared[step.key] { return known }
        lastStatement += 1
        let name = "s\(lastStatement)"
        let types = step.parameters.map { Oid($0.typeID) }
        _ = try check(watch.waiting { PQprepare(handle, name, step.sql, Int32(types.count), types) })
        prepared[step.key] = name
        return name
    }

    /// Drops what is prepared once it is much: a database may have any number of collections, and each has
    /// statements of its own, which the server keeps in its memory. Prepared statements belong to the
    /// connection, not to a transaction; inside of one that has failed they stay for the next time.
    private func forgetStatements(unlessRoomFor count: Int) {
        guard prepared.count + count > PostgresLimits.preparedStatements, !prepared.isEmpty,
            PQtransactionStatus(handle) != PQTRANS_INERROR
        else { return }
        PQclear(watch.waiting { PQexec(handle, "DEALLOCATE ALL") })
        prepared = [:]
    }

    /// What libpq has next; nil at the end of a statement's results.
    private func nextAnswer() -> OpaquePointer? { watch.waiting { PQgetResult(handle) } }

    /// The next result of a pipeline, with the nil that ends it.
    private func nextResult() throws(PostgresError) -> Rows {
        guard let result = nextAnswer() else { throw failure() }
        defer { while let rest = nextAnswer() { PQclear(rest) } }
        return try check(result)
    }

    private func check(_ result: OpaquePointer?) throws(PostgresError) -> Rows {
        guard let result else { throw failure() }
        switch PQresultStatus(result) {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK: return Rows(result)
        case PGRES_PIPELINE_ABORTED:
            PQclear(result)
            throw PostgresError(state: nil, message: "an earlier step failed", isConnectionLost: false)
        default:
            defer { PQclear(result) }
            // SQLSTATE is the field 'C'.
            let state = PQresultErrorField(result, 0x43).map { String(cString: $0) }
            throw PostgresError(
                state: state, message: PostgresError.line(String(cString: PQresultErrorMessage(result))),
                isConnectionLost: PQstatus(handle) != CONNECTION_OK || (state?.hasPrefix("57P") ?? true))
        }
    }

    /// What libpq itself says. Without an answer of the server the connection is not to be trusted again.
    private func failure() -> PostgresError {
        PostgresError(
            state: nil, message: PostgresError.line(String(cString: PQerrorMessage(handle))),
            isConnectionLost: true)
    }

    /// Runs what connects, with the URL's settings and ours where it names none, as libpq takes them.
    private static func withSettings<Result>(
        _ url: String,
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<UnsafePointer<CChar>?>) -> Result
    ) throws(PostgresError) -> Result {
        // libpq's own message quotes the part that it does not understand: a password, for one.
        guard let options = PQconninfoParse(url, nil) else {
            throw PostgresError(
                state: nil,
                message: "the URL cannot be read; a character that is special in URLs has to be encoded",
                isConnectionLost: true)
        }
        defer { PQconninfoFree(options) }
        let timeout = PostgresLimits.unacknowledgedTimeout.components.seconds
        var settings: [(String, String)] = [
            ("connect_timeout", "\(PostgresLimits.connectTimeoutSeconds)"),
            ("tcp_user_timeout", "\(timeout * 1_000)"), ("keepalives_idle", "\(timeout)"),
            ("application_name", "mimeo"),
        ]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val {
                settings.append((String(cString: keyword), String(cString: value)))
            }
            option += 1
        }
        // Of two settings of one name libpq takes the later one: the URL's.
        let keywords = settings.map { strdup($0.0) }
        let values = settings.map { strdup($0.1) }
        defer { (keywords + values).forEach { free($0) } }
        return body(keywords.map { UnsafePointer($0) } + [nil], values.map { UnsafePointer($0) } + [nil])
    }
}
