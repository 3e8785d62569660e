import CRDT
import Logging
import OperationLog
import Synchronization

/// Commits groups on a connection of its own, which it opens again when it was lost.
///
/// The meaning of a failure is decided here, once:
/// - the server cannot be reached: nothing was sent, nothing is stored (`LOG-0309`);
/// - the connection is lost while a group is under way: the group may be stored or not (`LOG-0308`). The
///   writer continues with a new connection: everything that the server shows after its recovery is
///   durable, so the frontier tells whether the group was stored;
/// - the server refuses: it has undone the whole group (`LOG-0301`, `LOG-0302`, `LOG-0307`, `LOG-0313`).
///
/// There is no poisoned state: a server whose fsync fails stops itself, and recovers from its write-ahead
/// log.
///
/// Used by one thread at a time: the one that has the committer's turn.
final class PostgresLogWriter: @unchecked Sendable {
    // Unchecked: only the holder of the group committer's turn touches a `var`.
    private let url: String
    private let options: PostgresOperationLog.Options
    private let logger: Logger
    /// Counts the connections that were opened.
    private let opened = Atomic<UInt64>(0)
    private let knownActors: Int
    private var connection: Connection?
    /// State of databases as shown by this connection's appends. A restored server has ended all
    /// connections, so the first group of each connection checks that the last entry is the one named by
    /// the head.
    private var known: [DatabaseID: WriterKnowledge] = [:]
    /// The groups that were begun and not finished, in order.
    private var underWay: [BegunGroup] = []

    /// True after the answer to a group was lost: it may be stored, and nobody was told. A caller that
    /// sends it again finds it there, which is not growth.
    private var hasLostAnswer = false
    /// The heads found after a lost answer, to be announced with the next group.
    private var regained: [DatabaseID: Offset] = [:]

    /// See `OperationLog.term`: it begins with a connection, and ends with the next one. Without a
    /// connection the server may fail over, so a check made then belongs to no future term.
    var term: UInt64 { opened.load(ordering: .acquiring) }

    /// A writer to this server that remembers at most `knownActors` actors per database. Connects at its
    /// first group.
    init(
        url: String, options: PostgresOperationLog.Options = PostgresOperationLog.Options(), logger: Logger,
        knownActors: Int = PostgresLimits.knownActors
    ) {
        self.url = url
        self.options = options
        self.logger = logger
        self.knownActors = knownActors
    }

    /// Begins to commit a group. Sends it if it is plain and follows heads that this writer knows, or will
    /// know when its previously sent groups are appended; if those are not, the server does not append this
    /// one either. Several groups may be begun; each must be finished, in the order in which they were
    /// begun.
    func begin(_ calls: [AppendCall]) -> BegunGroup {
        let group = BegunGroup(calls)
        defer { underWay.append(group) }
        // No group may overtake one that was not sent, or not appended.
        guard let connection, underWay.allSatisfy({ !$0.sent.isEmpty && $0.answer == nil }),
            !underWay.isEmpty || connection.isAlive, options.fence?.isCurrent(connection) ?? true,
            calls.allSatisfy({ $0.isInTerm(term) })
        else { return group }
        // It is still unknown whether sent operations of a new actor are stored, and under which key.
        let unsure = underWay.reduce(into: Set<ActorID>()) { $0.formUnion($1.strangers) }
        var steps: [Connection.Step] = []
        var sent: [(plain: PlainAppend, following: PlainAppend.Following, knowledge: WriterKnowledge)] = []
        for part in group.parts {
            guard let knowledge = known[part.database], !knowledge.isShared,
                let plain = PlainAppend(part.operations),
                let following = plain.following(knowledge, unsure: unsure)
            else { return group }
            if knowledge.isFull { steps.append(knowledge.flush) }
            steps.append(following.step)
            sent.append((plain, following, knowledge))
        }
        guard connection.canSend(steps) else { return group }
        do throws(PostgresError) { try connection.send(steps) } catch { group.answer = .failure(error) }
        // The server is working meanwhile.
        for (plain, following, knowledge) in sent {
            group.sent.append(following.before)
            group.strangers.formUnion(following.strangers)
            // Full knowledge was flushed by the first step.
            if knowledge.isFull { knowledge.noteFlushed() }
            knowledge.take(plain, hash: following.hash)
        }
        return group
    }

    /// Returns whether beginning this call, with no other group under way, waits for nothing: it is sent
    /// alone, and the socket has room for it.
    func isSentAtOnce(_ call: AppendCall) -> Bool {
        guard connection != nil, let knowledge = known[call.database], !knowledge.isShared, !knowledge.isFull,
            call.operations.count <= PostgresLimits.callerBytes / PostgresLimits.columnBytes
        else { return false }
        var bytes = 0
        for operation in call.operations {
            guard operation.condition == nil, operation.lease == nil else { return false }
            // A new actor sends its key twice.
            bytes += operation.record.bytes.count + 2 * operation.authorKey.utf8.count
            bytes += 12 * operation.touches.count + PostgresLimits.columnBytes
        }
        return bytes <= PostgresLimits.callerBytes
    }

    /// Returns whether the server confirms within this time that it has appended the whole group, the only
    /// one that was begun. Then `finish` waits for nothing.
    func hasAppended(_ group: BegunGroup, within patience: Duration) -> Bool {
        precondition(underWay.count == 1, "a caller that commits by itself has begun one group only")
        guard !group.sent.isEmpty, group.answer == nil, connection?.hasAnswer(within: patience) ?? false
        else { return false }
        read(group)
        return (try? group.answer?.get().allSatisfy { $0 }) ?? false
    }

    /// Commits a group that was begun. Plain parts go first, in one round trip. Parts that the server
    /// leaves to be decided, or that have a condition or lease, follow in another.
    /// - Returns: the outcome, and the new heads of the databases that grew.
    func finish(_ group: BegunGroup) -> (GroupOutcome, grown: [DatabaseID: Offset]) {
        precondition(underWay.first === group, "groups are finished in the order in which they were begun")
        read(group)
        underWay.removeFirst()
        let isAppended: [Bool]
        do throws(PostgresError) {
            isAppended = try group.answer?.get() ?? group.parts.map { _ in false }
        } catch {
            guard error.isOfMoved || hasEndedHolder(error) else {
                let failure = failure(error)
                return (failure.code == .unsupportedFormat ? .poisoned(failure) : .refused(failure), [:])
            }
            isAppended = group.parts.map { _ in false }
        }
        var outcome = PartialOutcome(group.calls)
        var rest: [GroupPart] = []
        for (number, part) in group.parts.enumerated() {
            if isAppended[number] {
                outcome.take(part, group.calls, from: group.sent[number])
            } else {
                rest.append(part)
            }
        }
        if !rest.isEmpty {
            // The next commit waits for answers, so those of later groups are read before.
            for later in underWay { read(later) }
            commit(rest, group.calls, &outcome)
        }
        guard !regained.isEmpty else { return (outcome.ended, outcome.grown) }
        defer { regained = [:] }
        return (outcome.ended, outcome.grown.merging(regained) { max($0, $1) })
    }

    /// Reads the server's answer to a group that was sent.
    private func read(_ group: BegunGroup) {
        guard !group.sent.isEmpty, group.answer == nil, let connection else { return }
        do throws(PostgresError) {
            var isAppended: [Bool] = []
            isAppended.reserveCapacity(group.parts.count)
            // A flushing step writes no rows of its own; each part's other step does.
            for rows in try connection.receive() where rows.isChange {
                isAppended.append(group.parts[isAppended.count].operations.count == rows.written)
            }
            group.answer = .success(isAppended)
        } catch {
            group.answer = .failure(error)
            if error.isConnectionLost { lose(error) }
        }
        for (number, part) in group.parts.enumerated() {
            if (try? group.answer?.get()[number]) == true {
                let actors = known[part.database]?.actorCount ?? 0
                if actors > knownActors { known[part.database] = nil }
            } else {
                known[part.database]?.refuse(at: group.sent[number])
            }
        }
    }

    /// Commits parts that were not sent or not appended. If a lock could not be had because its holder is
    /// stalled, the holder is ended and the commit retried. If a database was moved, the parts are committed
    /// one by one, so that it alone is refused.
    private func commit(_ parts: [GroupPart], _ calls: [AppendCall], _ outcome: inout PartialOutcome) {
        // The failed parts; committed ones stay committed.
        var rest = parts
        var mayTryAgain = true
        while true {
            do {
                return try commit(&rest, calls, &outcome)
            } catch {
                if mayTryAgain, hasEndedHolder(error) {
                    mayTryAgain = false
                    continue
                }
                let failure = failure(error)
                if failure.code == .moved, rest.count > 1 {
                    return rest.forEach { commit([$0], calls, &outcome) }
                }
                for number in rest.flatMap(\.numbers) { outcome.results[number] = .failure(failure) }
                return
            }
        }
    }

    private func commit(
        _ rest: inout [GroupPart], _ calls: [AppendCall], _ outcome: inout PartialOutcome
    ) throws {
        let first = try open(for: &rest, calls, &outcome)
        guard !rest.isEmpty else { return }
        rest = try commitPlain(rest, calls, &outcome, on: first)
        guard !rest.isEmpty else { return }
        for part in rest { known[part.database] = nil }
        // Opens another connection if the server went away meanwhile, or if the plain parts showed that the
        // log was restored under the first.
        let connection = try open(for: &rest, calls, &outcome)
        guard !rest.isEmpty else { return }
        if try commitRiding(rest, calls, &outcome, on: connection) { return }
        let steps = rest.map { DecidedAppend.step($0, calls) }
        for (part, rows) in zip(rest, try connection.transaction(steps)) {
            DecidedAppend.take(rows, part, calls, &outcome)
        }
    }

    /// Commits parts with the folds that ride along, in one transaction. If anything is not as those expect,
    /// the server undoes all of it.
    /// - Returns: false if nothing was stored: no fold rides along, or one was refused.
    private func commitRiding(
        _ parts: [GroupPart], _ calls: [AppendCall], _ outcome: inout PartialOutcome,
        on connection: Connection
    ) throws -> Bool {
        // Further calls of a part would be after the position that its fold leaves, or before it.
        let rides = parts.map { $0.numbers.count == 1 ? calls[$0.numbers[0]].rider as? FoldRide : nil }
        guard rides.contains(where: { $0 != nil }) else { return false }
        var steps: [Connection.Step] = []
        var places: [Int] = []
        for (part, ride) in zip(parts, rides) {
            steps += ride?.before ?? []
            places.append(steps.count)
            steps.append(DecidedAppend.step(part, calls))
            steps += ride?.after ?? []
        }
        let answers: [Rows]
        do throws(PostgresError) {
            answers = try connection.transaction(steps)
        } catch {
            // The append alone finds out whether the failure concerns it.
            if error.isConnectionLost { throw error }
            return false
        }
        for (place, part) in zip(places, parts) { DecidedAppend.take(answers[place], part, calls, &outcome) }
        for ride in rides { ride?.noteArrival() }
        return true
    }

    /// The connection, and the parts without those that depend on the term of another one: everything
    /// committed on it belongs to its term.
    private func open(
        for parts: inout [GroupPart], _ calls: [AppendCall], _ outcome: inout PartialOutcome
    ) throws(OperationLogError) -> Connection {
        let connection = try open()
        let term = term
        parts = parts.compactMap { $0.inTerm(term, calls) }
        outcome.refuse(calls, notIn: term)
        return connection
    }

    /// Returns whether an error is due to a stalled lock holder, which was ended.
    private func hasEndedHolder(_ error: any Error) -> Bool {
        guard let error = error as? PostgresError, error.state == "55P03", let connection else {
            return false
        }
        for later in underWay { read(later) }
        known = [:]
        guard (try? connection.endStalledWriters(after: options.stalledWriterTimeout)) ?? false else {
            return false
        }
        logger.warning("ended a stalled connection that held the lock of the log")
        return true
    }

    /// Commits the plain parts.
    /// - Returns: the others, in their order.
    private func commitPlain(
        _ parts: [GroupPart], _ calls: [AppendCall], _ outcome: inout PartialOutcome,
        on connection: Connection
    ) throws -> [GroupPart] {
        let plain = parts.map { PlainAppend($0.operations) }
        let steps = zip(parts, plain).compactMap { part, plain in plain?.lockingStep(part.database) }
        // One statement is a transaction by itself.
        var answers = try (steps.count > 1 ? connection.transaction(steps) : connection.run(steps))[...]
        var rest: [GroupPart] = []
        var hasGoneBack = false
        for (part, plain) in zip(parts, plain) {
            guard let plain, let rows = answers.popFirst(), rows.count == 1 else {
                rest.append(part)
                continue
            }
            let (before, former) = (Offset(rows.bits(0, 1)), known[part.database]?.head)
            outcome.take(part, calls, from: before)
            known[part.database] = WriterKnowledge(
                after: plain, from: before, hash: plain.hash(after: rows.bits(0, 2)), number: rows.int8(0, 0),
                former: former)
            hasGoneBack = hasGoneBack || former.map { before < $0 } ?? false
        }
        // The log was restored under open connections: a new one checks for further changes.
        if hasGoneBack { giveUp() }
        return rest
    }

    /// A commit's error as an error of the log.
    private func failure(_ error: any Error) -> OperationLogError {
        known = [:]
        switch error {
        case let error as OperationLogError: return error
        case let error as PostgresError:
            if error.isConnectionLost { lose(error) }
            return Self.translated(error)
        default: return OperationLogError(.storageFailed, "the log cannot be written: \(error)")
        }
    }

    /// Gives up a lost connection and the groups sent on it; the next group opens another.
    private func lose(_ error: PostgresError) {
        guard connection != nil else { return }
        giveUp()
        hasLostAnswer = true
        for group in underWay where !group.sent.isEmpty && group.answer == nil {
            group.answer = .failure(error)
        }
        logger.warning("the connection to PostgreSQL was lost during a commit: \(error.message)")
    }

    /// Drops the connection and all knowledge: the next connection may show another history.
    private func giveUp() { (connection, known) = (nil, [:]) }

    /// How often the present connection has waited for the server; 0 without one.
    var roundTrips: Int { connection?.roundTrips ?? 0 }

    /// Gives the connection back.
    func close() { connection = nil }

    /// The value of a server setting on the writer's own connection.
    func setting(_ name: String) throws -> String {
        try open().query("SELECT current_setting($1)", [.text(name)]).text(0, 0)
    }

    /// A PostgreSQL error during a change, as an error of the log.
    static func translated(_ error: PostgresError) -> OperationLogError {
        if error.isConnectionLost {
            return OperationLogError(
                .outcomeUnknown, "lost PostgreSQL; the frontier tells if it was stored: \(error.message)")
        }
        switch error.state ?? "" {
        case PostgresError.moved: return NewPlace(error.message).refusal()
        case "53100": return OperationLogError(.storageFull, "the server's storage is full")
        case "55P03", "40P01", "40001":
            return OperationLogError(.busy, "another process holds the lock of the log: \(error)")
        default: return otherFormat(error) ?? OperationLogError(.storageFailed, error.description)
        }
    }

    /// An error for statements that miss one of our tables, columns or functions; nil for all other errors.
    static func otherFormat(_ error: PostgresError) -> OperationLogError? {
        guard ["42883", "42P01", "42703"].contains(error.state) else { return nil }
        return OperationLogError(
            .unsupportedFormat,
            "another build has migrated the schema mimeo_log; restart with that build: \(error)")
    }

    /// Acknowledged operations must be on disk, whatever the server's or the role's default is; a configured
    /// synchronous standby stays configured.
    /// - Parameter isLocal: true for the transaction, false for the connection.
    static func waitingForDisk(isLocal: Bool) -> String {
        """
        SELECT set_config('synchronous_commit', 'on', \(isLocal))
        WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
        """
    }

    private func open() throws(OperationLogError) -> Connection {
        // A server that restarted while the connection was idle must not make the outcome unknown.
        if let connection {
            if connection.isAlive, options.fence?.isCurrent(connection) ?? true { return connection }
            giveUp()
        }
        do {
            let connection = try Connection(url: url, patience: options.answerTimeout)
            try options.fence?.admit(connection)
            try connection.run(Self.waitingForDisk(isLocal: false))
            let settings = try connection.query("SELECT current_setting('fsync') = 'on'")
            if !settings.bool(0, 0) {
                logger.error("this PostgreSQL runs with fsync = off: acknowledged writes can be lost")
            }
            // Statements are planned while tables are empty and run when they are not, so full scans are
            // disabled. They are planned once; the server would plan again at every call, because arrays of
            // a known length look cheaper.
            try connection.run(
                """
                SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
                SET jit = off; SET plan_cache_mode = force_generic_plan;
                SET lock_timeout = '\(options.lockTimeout.wholeMicroseconds / 1_000)ms'
                """)
            if try connection.query("SELECT mimeo_log.arrive()").bool(0, 0) {
                logger.notice(
                    "the log was restored or moved: the actors leased by services are retired")
            }
            try connection.prepare(PlainAppend.kinds + [WriterKnowledge.flushKind])
            if hasLostAnswer {
                regained = Dictionary(uniqueKeysWithValues: try PostgresLogReader.heads(connection))
                hasLostAnswer = false
            }
            self.connection = connection
            known = [:]
            opened.add(1, ordering: .acquiringAndReleasing)
            return connection
        } catch let error as PostgresError {
            guard error.isConnectionLost else { throw Self.translated(error) }
            throw OperationLogError(.unreachable, "PostgreSQL cannot be reached: \(error.message)")
        } catch let error as OperationLogError {
            throw error
        } catch {
            throw OperationLogError(.storageFailed, "PostgreSQL cannot be used: \(error)")
        }
    }
}
