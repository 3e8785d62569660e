import CRDT
import Logging
import Machine
import OperationLog

/// Keeps one database's projection at the head of its log, or watches the worker that does.
///
/// One of a database's workers leads, across all processes: it folds. The others follow: they check the
/// leader's progress, and one of them leads when it has gone. So `advance` means the same to its caller in
/// every process: the projection moves towards the log's head.
///
/// The log is the truth. A generation is built beside the one that readers use when the log lacks the
/// folded position (it was restored, or is another one), when the tables have an older layout, when a
/// stored document is damaged, or on request (`SELECT mimeo_projection.rebuild('id')`). It is built in
/// slices between folds of the current one, and replaces it at the head.
///
/// Actor isolation guards all variables; the session works on the lane's thread. At most one advance runs and
/// one more is queued, however many callers wait for it.
actor ProjectionWorker {
    /// The position of the readers' projection, as far as this worker knows; the log's beginning while it
    /// shows another history.
    private(set) var position: LogPosition { didSet { reached.change { $0.offset = position.offset } } }
    /// The reason why the last advance failed; nil after a success.
    private(set) var failure: String?
    /// True if readers can be answered: not while the projection shows another history than the log's.
    private(set) var isReady = true { didSet { reached.change { $0.isReady = isReady } } }

    private let database: DatabaseID
    private let log: any OperationLog
    private let lane: WorkerLane
    private let builder: IndexBuilder
    private let logger: Logger
    private var advancing: Task<Void, any Error>?
    private var queued: Task<Void, any Error>?
    /// True while this process folds.
    private(set) var isLeading = false
    private var building: Generation?
    /// True if this worker has checked the current generation against the log since it leads.
    private var isChecked = false
    private var isDamaged = false
    /// True while the generation beside is being worked on; and whether that has a damaged document.
    private var isWorkingBeside = false
    private var isBesideDamaged = false
    private var isClean = false
    private var stalledLooks = 0
    /// The work on indexes beside the fold; nil while there is none.
    private var indexing: Task<Void, Never>?
    /// The reason why indexes could not be built lately; nil since they can, and while another process builds
    /// them.
    private(set) var indexFailure: IndexFailure?
    /// True if the last comparison with the definitions lacked a right.
    private var isIndexRefused = false
    /// True if a rebuild waits for a right that the role lacks, and if the log has been told.
    private var lacksRight = false
    private var hasToldOfRight = false
    /// True while a new generation is complete but for its indexes.
    private var awaitsIndexes = false
    private var isClosed = false
    /// The number of `write`s under way, and of steps since the last success that met the log's failure then.
    private var ownWrites = 0
    /// The generation as the last ride of this process has left it; nil if the last look began after that.
    private var ridden: Generation?
    private var readsBesideWrites = 0
    private nonisolated let reached: Monitor<ProjectionReach>

    init(
        _ database: DatabaseID, log: any OperationLog, start: LogPosition, lane: WorkerLane,
        builder: IndexBuilder, logger: Logger
    ) {
        self.builder = builder
        self.database = database
        self.log = log
        self.lane = lane
        self.logger = logger
        position = start
        reached = Monitor(ProjectionReach(offset: start.offset))
    }

    // MARK: Following the log

    /// Follows the log until the task is cancelled, the log closes, or `close`. Failures are retried less
    /// and less often.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.follow() }
            group.addTask { await self.beat() }
            await group.next()
            group.cancelAll()
        }
    }

    private func follow() async {
        for await _ in log.changes(in: database) {
            var pause = PostgresLimits.firstReconnectPause
            while !Task.isCancelled, !isClosed {
                do {
                    try await advance()
                    if try await isIdle() { break }
                    if !isLeading { await lane.pause(for: PostgresLimits.followerPause) }
                    if awaitsIndexes || lacksRight { await lane.pause(for: buildPause) }
                } catch let error as OperationLogError where error.code == .closed {
                    return
                } catch {
                    await lane.pause(for: pause)
                    pause = min(pause * 2, PostgresLimits.lastReconnectPause)
                }
            }
            if isClosed || Task.isCancelled { return }
        }
    }

    /// Looks now and then for events that no append announces: a leader that has gone, a request for a
    /// rebuild, readers that delayed a removal.
    private func beat() async {
        while !Task.isCancelled, !isClosed {
            await lane.pause(for: PostgresLimits.projectionBeat)
            guard !Task.isCancelled, !isClosed else { return }
            try? await advance()
        }
    }

    /// How long a generation beside that is complete waits for the next look at what it lacks.
    private var buildPause: Duration {
        lacksRight || indexFailure != nil ? PostgresLimits.refusedLooks : PostgresLimits.buildLooks
    }

    /// Returns whether there is nothing to do before the log changes.
    private func isIdle() async throws -> Bool {
        if isLeading { return building == nil }
        return try await position.offset >= log.head(of: database).offset
    }

    /// Brings the projection towards the log's present head: folds when this worker leads, checks the
    /// leader's progress otherwise.
    func advance() async throws {
        if let queued { return try await queued.value }
        let previous = advancing
        let task = Task {
            _ = try? await previous?.value
            // The head is read from here on, so later callers need an advance of their own.
            self.queued = nil
            try await self.step()
        }
        queued = task
        advancing = task
        try await task.value
    }

    /// Runs an append to the log, and folds the entries that it has added after the position which it is
    /// given, if this worker leads and is still there: they need no look at the log and at the catalog. A
    /// failure of the fold is met again by the next advance.
    /// - Parameter ride: their fold, which may be committed with the append.
    func write<Result: Sendable>(
        with ride: FoldRide?,
        _ append: @Sendable (LogPosition) async throws -> (result: Result, entries: [LogEntry])
    ) async throws -> Result {
        ownWrites += 1
        defer { ownWrites -= 1 }
        let start = position
        let (result, entries) = try await append(start)
        if let ride, ride.hasArrived { note(ride.result) } else { await fold(entries, after: start) }
        return result
    }

    private func fold(_ entries: [LogEntry], after start: LogPosition) async {
        guard !entries.isEmpty, isLeading else { return }
        let previous = advancing
        let task = Task {
            _ = try? await previous?.value
            try await self.foldNow(entries, after: start)
        }
        advancing = task
        _ = try? await task.value
    }

    /// Notes that a ride of this process has moved the generation of readers.
    private func note(_ moved: Generation) {
        guard isReady, position.logID == moved.position.logID, position.offset < moved.position.offset else {
            return
        }
        ridden = moved
        position = moved.position
    }

    private func foldNow(_ entries: [LogEntry], after start: LogPosition) async throws {
        guard !isClosed, isLeading, isReady, isChecked, !isDamaged, position == start else { return }
        do {
            let folded = try await lane.run { [ridden] session in
                try session.foldNow(entries, after: start, ridden: ridden).map { ($0, session.hasIndexWork) }
            }
            guard let (generation, hasIndexWork) = folded else { return }
            reach(generation.position)
            if hasIndexWork { try await alignIndexes() }
        } catch {
            await fail(error)
            throw error
        }
    }

    private func step() async throws {
        guard !isClosed else { throw ProjectionError(.closed, "the projection was closed") }
        do {
            ridden = nil
            let look = try await lane.run { try $0.look() }
            lacksRight = false
            // After the look: the folded entries were in the log then, or the log was restored.
            let head = try await log.head(of: database)
            // A session may lead since it was opened, before this worker's first look.
            let isNew = look.isLeading && (look.isNew || !isLeading)
            isLeading = look.isLeading
            if isNew { (isChecked, isClean, building) = (false, false, look.building) }
            if look.isLeading { try await lead(look, head) } else { try await watch(look, head) }
            (failure, readsBesideWrites) = (nil, 0)
        } catch {
            await fail(error)
            throw error
        }
    }

    private func fail(_ error: any Error) async {
        // The fold of an own write follows, and reads nothing: perhaps the log's failure hides nothing else.
        // A generation that was begun and not filled is found by a new session only.
        let isOfLog = (error as? OperationLogError)?.code == .storageFailed && !isWorkingBeside
        if isOfLog, ownWrites > 0, readsBesideWrites < PostgresLimits.readsBesideWrites {
            return readsBesideWrites += 1
        }
        // The log was truncated past this worker: the next look notices it, and builds from the snapshot.
        if let error = error as? OperationLogError, error.code == .truncated { isChecked = false }
        // Another worker that is able to may lead.
        await lane.drop()
        (isLeading, awaitsIndexes) = (false, false)
        (indexFailure, isIndexRefused) = (nil, false)
        if let error = error as? ProjectionError, error.code == .damaged {
            if isWorkingBeside { isBesideDamaged = true } else { isDamaged = true }
        }
        isWorkingBeside = false
        let reason = "\(error)"
        if failure != reason, !isClosed {
            logger.error(
                "the projection cannot follow the log, retrying",
                metadata: ["database": "\(database)", "error": "\(reason)"])
        }
        failure = reason
    }

    // MARK: Watching

    private func watch(_ look: ProjectionSession.Look, _ head: LogPosition) async throws {
        (indexFailure, isIndexRefused) = (nil, false)
        let before = position
        if agrees(look.current.position, head) { reach(look.current.position) } else { isReady = false }
        stalledLooks = position == before && position.offset < head.offset ? stalledLooks + 1 : 0
        guard stalledLooks >= PostgresLimits.stalledLooks else { return }
        stalledLooks = 0
        try await lane.run { try $0.unseatIdleLeader() }
    }

    /// Returns whether a position may be one of the log with this head.
    private func agrees(_ position: LogPosition, _ head: LogPosition) -> Bool {
        position.logID == head.logID && (position.offset < head.offset || position == head)
    }

    // MARK: Leading

    private func lead(_ look: ProjectionSession.Look, _ head: LogPosition) async throws {
        let isGood = try await isGood(look.current, head)
        if isGood, !isDamaged {
            reach(look.current.position)
            try await foldCurrent(from: look.current.position, to: head)
        } else {
            isReady = false
        }
        try await build(look, head, isUrgent: !isGood || isDamaged)
        if building == nil, !isClean { isClean = try await lane.run { try $0.cleanUp() } }
        try await keepIndexes(look)
    }

    /// Returns whether the log has the history folded in the current generation.
    private func isGood(_ current: Generation, _ head: LogPosition) async throws -> Bool {
        guard agrees(current.position, head) else { return false }
        if isChecked { return true }
        isChecked = try await hasAll(after: current.position)
        return isChecked
    }

    private func foldCurrent(from position: LogPosition, to head: LogPosition) async throws {
        guard position.offset < head.offset else { return }
        var entries = try await read(after: position.offset)
        while let last = entries.last, !isClosed {
            // The next entries are read while these are written.
            async let next = last.offset < head.offset ? read(after: last.offset) : []
            let folding = entries
            let (folded, hasIndexWork) = try await lane.run { (try $0.fold(folding), $0.hasIndexWork) }
            reach(folded.position)
            if hasIndexWork { try await alignIndexes() }
            entries = try await next
        }
    }

    // MARK: Indexes

    private func keepIndexes(_ look: ProjectionSession.Look) async throws {
        if look.hasIndexWork || building != nil { try await alignIndexes() }
    }

    /// Makes the catalogs of indexes those of the definitions, and lets a builder do what that needs. One
    /// piece of work is done at a time; what is noted meanwhile comes after it.
    private func alignIndexes() async throws {
        let (isCurrentGood, isTaken) = (!isDamaged, indexing == nil && !isClosed)
        let (work, refusal) = try await lane.run { session in
            let found = try session.indexWork(isCurrentGood: isCurrentGood, isTaken: isTaken)
            return (found, session.indexRefusal)
        }
        isIndexRefused = refusal != nil
        if let refusal {
            // The fold goes on, and so does what needs no right.
            noteIndexFailure(.rightMissing, "\(ProjectionError.translated(refusal))")
        } else if work.isEmpty, indexing == nil {
            indexFailure = nil
        }
        // Another piece of work may have begun in between.
        guard isTaken, indexing == nil, !work.isEmpty, !isClosed else { return }
        indexing = Task { await self.build(work) }
    }

    private func build(_ works: [IndexWork]) async {
        var isFailing = false
        for work in works {
            let outcome = await builder.run(work)
            if !outcome.built.isEmpty || outcome.failure != nil {
                // A session that has lost its lead leaves this to the next leader.
                try? await lane.run { session in
                    guard try session.look().isLeading else { return }
                    try session.finish(outcome.built, in: work.generation)
                    if !outcome.isComplete { session.takeBack(work) }
                }
            }
            isFailing = isFailing || outcome.failure != nil
            if let failure = outcome.failure, !isClosed {
                if let code = outcome.code { noteIndexFailure(code, failure) }
                await lane.pause(for: PostgresLimits.buildRetry)
            }
        }
        indexing = nil
        if !isFailing, !isIndexRefused { indexFailure = nil }
        guard !isClosed else { return }
        try? await advance()
    }

    private func noteIndexFailure(_ code: ProjectionErrorCode, _ reason: String) {
        if indexFailure?.reason != reason {
            logger.error(
                "indexes cannot be built, retrying",
                metadata: ["database": "\(database)", "error": "\(reason)"])
        }
        indexFailure = IndexFailure(code: code, reason: reason, at: .now)
    }

    /// Returns whether the role may make the schemas of a generation. Without that right the tables in use
    /// stay, and are folded as ever.
    private func mayBuild() async throws -> Bool {
        let may = try await lane.run { try $0.mayBuild() }
        if !may, !hasToldOfRight {
            let error = ProjectionError(.rightMissing, "the role lacks CREATE on the database")
            logger.error(
                "the projection cannot be rebuilt, retrying",
                metadata: ["database": "\(database)", "error": "\(error)"])
        }
        (lacksRight, hasToldOfRight) = (!may, !may)
        return may
    }

    private nonisolated func read(after offset: Offset) async throws -> [LogEntry] {
        let limit = ReadLimit(operations: PostgresLimits.batchDocuments, bytes: LogLimits.readBytes)
        return try await log.read(database, after: offset, limit: limit)
    }

    /// Builds a slice of a generation beside the current one, if one is wanted; all of it when readers have
    /// nothing to read before.
    private func build(_ look: ProjectionSession.Look, _ head: LogPosition, isUrgent: Bool) async throws {
        let isOld = look.current.layout != Generation.currentLayout
        var isWanted = isUrgent || look.isRebuildWanted || isOld
        if let begun = building {
            let isGood = try await isUsable(begun, head)
            // The reason for which it was begun still applies.
            if isBesideDamaged || !isGood { (building, isWanted) = (nil, true) }
        }
        if look.isRebuildWanted || building == nil && isWanted {
            if !isUrgent, try await !mayBuild() { return }
            logger.notice(
                "rebuilding a projection", metadata: ["database": "\(database)"])
            // Remains of an earlier attempt are removed first; otherwise repeated failures would pile them
            // up.
            _ = try await lane.run { try $0.cleanUp() }
            building = try await beside {
                try await self.lane.beginGeneration(of: self.database, self.log, self.logger)
            }
            isBesideDamaged = false
        }
        guard var generation = building else { return }
        var reads = isUrgent ? Int.max : PostgresLimits.buildingReads
        while generation.position.offset < head.offset, reads > 0, !isClosed {
            let entries = try await log.read(database, after: generation.position.offset)
            guard !entries.isEmpty else { break }
            generation = try await beside { try await self.lane.run { try $0.build(entries) } }
            building = generation
            reads -= 1
        }
        guard generation.position.offset >= head.offset else { return }
        try await alignIndexes()
        awaitsIndexes = try await lane.run { !$0.isBesideIndexed }
        if awaitsIndexes { return }
        if !isUrgent, try await !mayBuild() { return }
        guard let switched = try await lane.run({ try $0.switchOver(isUrgent: isUrgent) }) else { return }
        building = nil
        (isChecked, isDamaged, isClean) = (true, false, false)
        logger.notice("rebuilt a projection", metadata: ["database": "\(database)"])
        reach(switched.position)
    }

    /// Works on the generation beside: a damaged document met here belongs to that one.
    private func beside(_ work: () async throws -> Generation) async throws -> Generation {
        isWorkingBeside = true
        let generation = try await work()
        isWorkingBeside = false
        return generation
    }

    /// Returns whether a begun generation can be continued: not if a snapshot may be half loaded.
    private func isUsable(_ begun: Generation, _ head: LogPosition) async throws -> Bool {
        guard begun.layout == Generation.currentLayout, begun.position.offset > 0 || head.offset == 0,
            agrees(begun.position, head)
        else { return false }
        return try await hasAll(after: begun.position)
    }

    /// Returns whether the log has this history, and everything after it.
    private func hasAll(after position: LogPosition) async throws -> Bool {
        guard try await log.position(at: position.offset, in: database) == position else { return false }
        return try await log.truncation(of: database).offset <= position.offset
    }

    // MARK: Waiting

    /// Takes a position that was found, unless a ride has gone further meanwhile.
    private func reach(_ found: LogPosition) {
        let isPast = ridden.map { $0.position.logID == found.logID && $0.position.offset > found.offset }
        if !(isPast ?? false) { position = found }
        isReady = true
    }

    /// Waits until the projection has reached `offset`; false when that takes longer than `timeout`, or the
    /// projection is closed.
    nonisolated func wait(for offset: Offset, timeout: Duration) async -> Bool {
        await reached.take(within: timeout) { $0.answer(offset) } ?? false
    }

    /// Releases every waiter and gives up the lead.
    func close() async {
        isClosed = true
        builder.close()
        _ = try? await advancing?.value
        await indexing?.value
        reached.change { $0.isClosed = true }
        await lane.drop()
    }
}
