import CLibPQ
import CRDT
import Glibc
import Machine
import OperationLog

/// One connection to PostgreSQL. Blocks the calling thread; its owner makes sure that one thread at a time
/// uses it (a serial queue).
///
/// Invariant: once a call has thrown with `isConnectionLost`, the connection is unusable.
final class Connection {
    /// A statement that is sent often, under a short name: otherwise its whole text would be hashed each
    /// time.
    struct Statement: Sendable {
        let name: String
        let sql: String

        init(_ name: String, _ sql: String) { (self.name, self.sql) = (name, sql) }
    }

    /// A statement with its parameters.
    struct Step: Sendable {
        let sql: String
        let parameters: [Parameter]
        /// The key of the prepared statement.
        fileprivate let key: String

        init(_ sql: String, _ parameters: [Parameter] = []) {
            (self.sql, self.parameters, key) = (sql, parameters, sql)
        }

        init(_ statement: Statement, _ parameters: [Parameter]) {
            (sql, self.parameters, key) = (statement.sql, parameters, statement.name)
        }
    }

    private let handle: OpaquePointer
    /// Reports when this connection waits for the server.
    let watch: AnswerWatch.Entry
    /// The server's names of the prepared statements, by key.
    private var prepared: [String: String] = [:]
    /// Memory for the parameters.
    private let values = ParameterBuffer()
    private var lastStatement = 0
    /// The number of steps in each `send` that still needs its `receive`.
    private var underWay: [Int] = []
    /// True while the answer to the end of a transaction is still to be read, see `leave`.
    private var owesEnd = false
    /// Asked now and then while an answer is awaited; true asks the server to cancel what it does.
    var isUnwanted: (() -> Bool)?
    /// A collection in a schema of the projection. Names are compared by bytes, which text would not be.
    struct KnownCollection: Hashable {
        let schema: Int64
        let name: CollectionName
    }
    /// Numbers of collections that were found on this connection.
    var knownTables: [KnownCollection: Int64] = [:]
    /// The catalog of indexes that was read last on this connection.
    var knownIndexes: KnownIndexes?
    /// Pushed statements that had few rows when they ran last on this connection.
    var fewRows = FewRows()
    /// See `PostgresLimits`.
    var firstPushedRows = PostgresLimits.firstPushedRows
    /// The generation from which each database's readers were answered last.
    var knownGenerations: [DatabaseID: ExpectedGeneration] = [:]
    /// The server's place when it was admitted; nil where nothing keeps away from replaced ones.
    var place: ServerFence.Place?
    /// True if the session plans as snapshots need it.
    var isForSnapshots = false
    /// How many processes more the server may use for a statement, as it is set up.
    var workers = "0"
    /// The log's numbers of databases, as they were read last: one that was restored has another one.
    var knownLogs: [DatabaseID: Int64] = [:]
    /// How often this connection has waited for the server's answer.
    private(set) var roundTrips = 0

    /// Connects. `url` is anything libpq takes (`postgres://`, TLS by `sslmode`). Timeouts and keep-alives
    /// that it does not name get our values, on the server's side too, so that the server does not keep the
    /// locks of a client that has vanished.
    /// - Parameter patience: how long the server may take to answer before the connection counts as lost.
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
        // libpq would print what the server says unasked, such as the reason of its end, into our log as
        // text. A statement after it fails with the same reason.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
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

    /// The socket, for waiting for notifications.
    var socket: Int32 { PQsocket(handle) }
    /// True unless the server is known to have hung up; does not ask it. Normally there is nothing to read.
    /// A server that ends a connection gives its reason: the first read finds that, the second the end.
    var isAlive: Bool {
        var byte: UInt8 = 0
        let isQuiet = recv(socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) < 0 && errno == EAGAIN
        return PQstatus(handle) == CONNECTION_OK
            && (isQuiet || PQconsumeInput(handle) == 1 && PQconsumeInput(handle) == 1)
    }
    /// The server's version, as 150004 for 15.4.
    var serverVersion: Int { Int(PQserverVersion(handle)) }

    /// Returns whether a server that refused a connection may accept one later: it is starting, stopping,
    /// full or not there, and another URL would not help.
    static func mayComeBack(_ url: String) -> Bool {
        switch try? withSettings(url, { PQpingParams($0, $1, 0) }) {
        case PQPING_REJECT, PQPING_NO_RESPONSE: true
        // It may have become ready since it refused.
        case PQPING_OK: (try? Connection(url: url)) != nil
        default: false
        }
    }

    /// Runs statements without parameters or results.
    func run(_ script: String) throws(PostgresError) {
        try settle()
        roundTrips += 1
        _ = try check(watch.waiting { PQexec(handle, script) })
    }

    /// Runs one statement, prepared at its first use.
    func query(_ sql: String, _ parameters: [Parameter] = []) throws(PostgresError) -> Rows {
        try query(Step(sql, parameters))
    }

    /// The same for a step.
    func query(_ step: Step) throws(PostgresError) -> Rows {
        try settle()
        forgetStatements(unlessRoomFor: 1)
        let name = try prepare(step)
        roundTrips += 1
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

    /// Rolls the open transaction back. Without one it is a no-op, because the server would print a
    /// warning.
    func rollBack() throws(PostgresError) {
        try settle()
        guard PQtransactionStatus(handle) != PQTRANS_IDLE else { return }
        try run("ROLLBACK")
    }

    /// Ends the open transaction, which has only read, and does not wait for the server's answer: that is
    /// read before the next statement. A transaction that has failed is rolled back at once.
    func leave() throws(PostgresError) {
        guard PQtransactionStatus(handle) == PQTRANS_INTRANS, underWay.isEmpty else {
            return try rollBack()
        }
        try send([Step("ROLLBACK")])
        owesEnd = true
    }

    /// Reads the answer that `leave` did not wait for. Normally it is here.
    private func settle() throws(PostgresError) {
        guard owesEnd else { return }
        owesEnd = false
        do throws(PostgresError) {
            _ = try receive()
            roundTrips -= 1
        } catch {
            guard !error.isConnectionLost else { throw error }
            // A request to cancel that came late has met the end.
            try rollBack()
        }
    }

    /// Sends all steps at once and reads all results: one round trip, within the open transaction or the
    /// one that they open. If a step fails, the server skips the others, and the caller must roll back.
    func pipeline(_ steps: [Step]) throws(PostgresError) -> [Rows] {
        try settle()
        precondition(underWay.isEmpty, "a pipeline would read the results of what was sent before")
        try send(steps)
        return try receive()
    }

    /// Sends steps as `body` makes them, and reads all results after the last, like `pipeline`: the server
    /// works on one step while the next one is made.
    /// - Parameter kinds: one step of each statement that will be sent.
    func pipeline(
        of kinds: [Step], _ body: (_ send: (Step) throws(PostgresError) -> Void) throws -> Void
    ) throws -> [Rows] {
        try settle()
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

    /// Prepares the statements of steps, so that they can be sent after others.
    func prepare(_ kinds: [Step]) throws(PostgresError) {
        try settle()
        for kind in kinds { _ = try prepare(kind) }
    }

    /// Returns whether steps can be sent now: while others are under way, only prepared ones can.
    func canSend(_ steps: [Step]) -> Bool {
        underWay.isEmpty || steps.allSatisfy { prepared[$0.key] != nil }
    }

    /// Sends steps without waiting for results, in a transaction of their own unless one is open. Until
    /// `receive` was called as often as this, only these two may be called.
    func send(_ steps: [Step]) throws(PostgresError) {
        try settle()
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

    /// Returns whether the answer to the sent steps begins to arrive within this time; true also for a lost
    /// connection, which `receive` then reports. The rest follows the beginning at once, or soon after an
    /// error.
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

    /// The results of the first `send` that has none yet. If a step failed, the server has skipped the
    /// later ones of the same `send`.
    func receive() throws(PostgresError) -> [Rows] {
        let count = underWay.removeFirst()
        roundTrips += 1
        var results: [Rows] = []
        results.reserveCapacity(count)
        var firstFailure: PostgresError?
        for _ in 0..<count {
            do throws(PostgresError) { results.append(try nextResult()) } catch {
                guard !error.isConnectionLost else { throw error }
                firstFailure = firstFailure ?? error
            }
        }
        // The transaction ends here: a failing commit is reported instead of the end, before it.
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

    /// The payloads of notifications since the last call, without waiting. Throws when the server has hung
    /// up.
    func notifications() throws(PostgresError) -> [String] {
        // Twice, as in `isAlive`: the socket becomes readable once for a server's last message and its end
        // together.
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
        roundTrips += 1
        _ = try check(watch.waiting { PQprepare(handle, name, step.sql, Int32(types.count), types) })
        prepared[step.key] = name
        return name
    }

    /// Drops the prepared statements when there are many: a database may have any number of collections,
    /// each with its own statements, which the server keeps in memory. Prepared statements belong to the
    /// connection, not to a transaction; inside a failed transaction they stay until the next call.
    private func forgetStatements(unlessRoomFor count: Int) {
        guard prepared.count + count > PostgresLimits.preparedStatements, !prepared.isEmpty,
            PQtransactionStatus(handle) != PQTRANS_INERROR
        else { return }
        PQclear(watch.waiting { PQexec(handle, "DEALLOCATE ALL") })
        prepared = [:]
    }

    /// The next result of libpq; nil at the end of a statement's results.
    private func nextAnswer() -> OpaquePointer? {
        if let isUnwanted { awaitAnswer(isUnwanted) }
        return watch.waiting { PQgetResult(handle) }
    }

    /// Waits until a result can be read, or the connection is lost. A server that does not even answer to
    /// the request to cancel is hung up on.
    private func awaitAnswer(_ isUnwanted: () -> Bool) {
        var cancelled: ContinuousClock.Instant?
        while PQisBusy(handle) == 1 {
            var bell = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            let isRung = poll(&bell, 1, Int32(PostgresLimits.wantedLooks.wholeMicroseconds / 1_000)) > 0
            if isRung {
                guard PQconsumeInput(handle) == 1 else { return }
            } else if let cancelled {
                guard ContinuousClock.now - cancelled > PostgresLimits.cancelPatience else { continue }
                return AnswerWatch.shared.hangUp(watch)
            } else if isUnwanted() {
                cancelled = .now
                cancel()
            }
        }
    }

    /// Asks the server to cancel the running statement. It is asked on another connection and a thread of its
    /// own, since a server that is stopped never answers that either: Dispatch's global queue has the threads
    /// of all tasks.
    private func cancel() {
        guard let request = PQgetCancel(handle) else { return }
        let address = UInt(bitPattern: request)
        WorkerThread.start("cancel") {
            guard let request = OpaquePointer(bitPattern: address) else { return }
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { reason in
                _ = PQcancel(request, reason.baseAddress, Int32(reason.count))
            }
            PQfreeCancel(request)
        }
    }

    /// The next result of a pipeline, without the nil that follows it.
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
                // A server that was demoted beneath this connection (25006) is not the one to write to.
                isConnectionLost: PQstatus(handle) != CONNECTION_OK || state == "25006"
                    || (state?.hasPrefix("57P") ?? true))
        }
    }

    /// The error of libpq itself. Without an answer of the server the connection cannot be trusted any
    /// more.
    private func failure() -> PostgresError {
        PostgresError(
            state: nil, message: PostgresError.line(String(cString: PQerrorMessage(handle))),
            isConnectionLost: true)
    }

    /// Runs a body with the URL's settings, and ours where the URL names none, as arrays for libpq.
    private static func withSettings<Result>(
        _ url: String,
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<UnsafePointer<CChar>?>) -> Result
    ) throws(PostgresError) -> Result {
        // libpq's own message quotes the part that it cannot parse, for example a password.
        guard let options = PQconninfoParse(url, nil) else {
            throw PostgresError(
                state: nil,
                message: "the URL cannot be parsed; percent-encode its special characters",
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
        // libpq takes the later of two settings with one name: the URL's.
        let keywords = settings.map { strdup($0.0) }
        let values = settings.map { strdup($0.1) }
        defer { (keywords + values).forEach { free($0) } }
        return body(keywords.map { UnsafePointer($0) } + [nil], values.map { UnsafePointer($0) } + [nil])
    }
}
