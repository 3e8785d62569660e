import CRDT
import Logging
import OperationLog

/// Keeps one database's projection at the head of its log, or watches whoever does.
///
/// Of all workers of a database, in however many processes, one leads: it folds. The others follow: they
/// look how far the leader is, and one of them leads when it has gone. So `advance` means the same to its
/// caller in every process: the projection is on its way to what was in the log.
///
/// The log is the truth. When it does not have the position that is folded (it was restored, or is another
/// one), when the tables have an older layout, when a stored document is damaged, or when somebody asks
/// (`SELECT mimeo_projection.rebuild('id')`), a generation is built beside the one that readers use, slice by
/// slice between the folds of that one, and takes its place at the head.
///
/// Actor isolation guards all variables; the session works on the lane's thread. At most one advance runs and
/// one more is queued, however many callers wait for it.
actor ProjectionWorker {
    /// How far the projection that readers use is, as far as this worker knows; the log's beginning while it
    /// shows another history.
    private(set) var position: LogPosition
    /// Why the last advance failed; nil after one that did not.
    private(set) var failure: String?
    /// Whether readers can be answered: not while what they would see is of another history than the log's.
    private(set) var isReady = true

    private let database: DatabaseID
    private let log: any OperationLog
    private let lane: WorkerLane
    private let logger: Logger
    private var advancing: Task<Void, any Error>?
    private var queued: Task<Void, any Error>?
    private var isLeading = false
    private var building: Generation?
    /// Whether the current generation's history was checked against the log since this worker leads.
    private var isChecked = false
    private var isDamaged = false
    /// Whether the generation beside is being worked on, and whether that has a damaged document.
    private var isWorkingBeside = false
    private var isBesideDamaged = false
    private var isClean = false
    private var stalledLooks = 0
    private var isClosed = false
    private var waiters: [(id: UInt64, offset: Offset, continuation: CheckedContinuation<Bool, Never>)] = []
    private var nextWaiter: UInt64 = 0

    init(_ database: DatabaseID, log: any OperationLog, start: LogPosition, lane: WorkerLane, logger: Logger)
    {
        self.database = database
        self.log = log
        self.lane = lane
        self.logger = logger
        position = start
    }

    // MARK: Following the log

    /// Follows the log until the task is cancelled, the log closes, or `close`. What fails is tried again,
    /// less and less often.
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

    /// A look now and then, for what no append wakes anybody for: a leader that has gone, a wish for a
    /// rebuild, readers that kept what is to be removed.
    private func beat() async {
        while !Task.isCancelled, !isClosed {
            await lane.pause(for: PostgresLimits.projectionBeat)
            guard !Task.isCancelled, !isClosed else { return }
            try? await advance()
        }
    }

    /// Whether there is nothing to do before the log changes.
    private func isIdle() async throws -> Bool {
        if isLeading { return building == nil }
        return try await position.offset >= log.head(of: database).offset
    }

    /// Takes the projection towards the log's head of this moment: folds when this worker leads, looks how
    /// far the leader is when it does not.
    func advance() async throws {
        if let queued { return try await queued.value }
        let previous = advancing
        let task = Task {
            _ = try? await previous?.value
            // The head is read from here on: who comes later needs an advance of its own.
            self.queued = nil
            try await self.step()
        }
        queued = task
        advancing = task
        try await task.value
    }

    private func step() async throws {
        guard !isClosed else { throw ProjectionError(.closed, "the projection was closed") }
        do {
            let look = try await lane.run { try $0.look() }
            // After the look: what is folded was in the log then, or the log went back.
            let head = try await log.head(of: database)
            // A session may lead since its opening, before this worker's first look.
            let isNew = look.isLeading && (look.isNew || !isLeading)
            isLeading = look.isLeading
            if isNew { (isChecked, isClean, building) = (false, false, look.building) }
            if look.isLeading { try await lead(look, head) } else { try await watch(look, head) }
            failure = nil
        } catch {
            await fail(error)
            throw error
        }
    }

    private func fail(_ error: any Error) async {
        // This worker was slower than the log is kept: the next look finds out, and builds from the snapshot.
        if let error = error as? OperationLogError, error.code == .truncated { isChecked = false }
        // Whoever else can work may lead.
        await lane.drop()
        isLeading = false
        if let error = error as? ProjectionError, error.code == .damaged {
            if isWorkingBeside { isBesideDamaged = true } else { isDamaged = true }
        }
        isWorkingBeside = false
        let reason = "\(error)"
        if failure != reason, !isClosed {
            logger.error(
                "the projection cannot follow",
                metadata: ["database": "\(database)", "error": "\(reason)"])
        }
        failure = reason
    }

    // MARK: Watching

    private func watch(_ look: ProjectionSession.Look, _ head: LogPosition) async throws {
        let before = position
        if agrees(look.current.position, head) { reach(look.current.position) } else { isReady = false }
        stalledLooks = position == before && position.offset < head.offset ? stalledLooks + 1 : 0
        guard stalledLooks >= PostgresLimits.stalledLooks else { return }
        stalledLooks = 0
        try await lane.run { try $0.unseatIdleLeader() }
    }

    /// Whether a position can be one of the log that has this head.
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
    }

    /// Whether the log has the history that is folded in the current generation.
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
            // The next ones are read while these are written.
            async let next = last.offset < head.offset ? read(after: last.offset) : []
            let folding = entries
            reach(try await lane.run { try $0.fold(folding) }.position)
            entries = try await next
        }
    }

    private nonisolated func read(after offset: Offset) async throws -> [LogEntry] {
        let limit = ReadLimit(operations: PostgresLimits.batchDocuments, bytes: LogLimits.readBytes)
        return try await log.read(database, after: offset, limit: limit)
    }

    /// Builds a slice of a generation beside the current one, if one is wanted; all of it when readers have
    /// nothing to read before it is done.
    private func build(_ look: ProjectionSession.Look, _ head: LogPosition, isUrgent: Bool) async throws {
        let isOld = look.current.layout != Generation.currentLayout
        var isWanted = isUrgent || look.isRebuildWanted || isOld
        if let begun = building {
            let isGood = try await isUsable(begun, head)
            // Whatever it was begun for still wants one.
            if isBesideDamaged || !isGood { (building, isWanted) = (nil, true) }
        }
        if look.isRebuildWanted || building == nil && isWanted {
            logger.notice(
                "a projection is built anew", metadata: ["database": "\(database)"])
            // What an earlier attempt has left goes first: one that fails each time leaves one each time.
            _ = try await lane.run { try $0.cleanUp() }
            building = try await beside { try await self.startBuilding() }
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
        let switched = try await lane.run { try $0.switchOver() }
        building = nil
        (isChecked, isDamaged, isClean) = (true, false, false)
        logger.notice("a projection was built anew", metadata: ["database": "\(database)"])
        reach(switched.position)
    }

    /// Works on the generation beside: a document that is damaged is one of that.
    private func beside(_ work: () async throws -> Generation) async throws -> Generation {
        isWorkingBeside = true
        let generation = try await work()
        isWorkingBeside = false
        return generation
    }

    /// Whether building can go on where somebody stopped. Not where a snapshot may be half loaded.
    private func isUsable(_ begun: Generation, _ head: LogPosition) async throws -> Bool {
        guard begun.layout == Generation.currentLayout, begun.position.offset > 0 || head.offset == 0,
            agrees(begun.position, head)
        else { return false }
        return try await hasAll(after: begun.position)
    }

    /// Whether the log has this history, and everything after it.
    private func hasAll(after position: LogPosition) async throws -> Bool {
        guard try await log.position(at: position.offset, in: database) == position else { return false }
        return try await log.truncation(of: database).offset <= position.offset
    }

    /// Begins at the log's beginning, or with its snapshot where it has one: it is the fold of all before.
    private func startBuilding() async throws -> Generation {
        guard let start = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "a log has no beginning", database: database)
        }
        return try await Self.fill(log, database, from: start, lane, logger)
    }

    private static func fill(
        _ log: any OperationLog, _ database: DatabaseID, from start: LogPosition, _ lane: WorkerLane,
        _ logger: Logger
    ) async throws -> Generation {
        let begun = try await lane.run { try $0.startBuilding(at: start) }
        let loaded = try await log.beginWithSnapshot(of: database, logger: logger) { isAgain in
            if isAgain { _ = try await lane.run { try $0.startBuilding(at: start) } }
            return SnapshotStart?.none
        } verifying: {
            try await lane.run { try $0.showLife() }
        } load: { place, chunk in
            let records = try records(in: chunk)
            if case .begin(let begun)? = records.first { place = begun }
            let documents = records.compactMap { record in
                if case .document(let document) = record { document } else { SnapshotDocument?.none }
            }
            // A chunk of histories has no documents; there may be gigabytes of them.
            try await lane.run {
                try $0.showLife()
                try $0.load(documents)
            }
        } position: {
            $0?.position
        }
        guard let loaded, let loaded else { return begun }
        return try await lane.run { try $0.finishLoading(loaded) }
    }

    private static func records(in chunk: [UInt8]) throws(ProjectionError) -> [SnapshotRecord] {
        do {
            return try SnapshotChunk.records(in: chunk)
        } catch {
            throw ProjectionError(.brokenLog, "a chunk of the snapshot cannot be read: \(error)")
        }
    }

    // MARK: Waiting

    private func reach(_ position: LogPosition) {
        self.position = position
        isReady = true
        let reached = waiters.filter { $0.offset <= position.offset }
        waiters.removeAll { $0.offset <= position.offset }
        for waiter in reached { waiter.continuation.resume(returning: true) }
    }

    /// Waits until the projection has reached `offset`; false when that takes longer than `timeout`, or the
    /// projection is closed.
    func wait(for offset: Offset, timeout: Duration) async -> Bool {
        if isReady, position.offset >= offset { return true }
        guard !isClosed else { return false }
        nextWaiter += 1
        let id = nextWaiter
        let limit = lane.after(timeout) { Task { await self.giveUp(id) } }
        defer { limit.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReached = isReady && position.offset >= offset
                if isReached || Task.isCancelled {
                    continuation.resume(returning: isReached)
                } else {
                    waiters.append((id, offset, continuation))
                }
            }
        } onCancel: {
            Task { await self.giveUp(id) }
        }
    }

    private func giveUp(_ id: UInt64) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(returning: false)
    }

    /// Lets every waiter go and gives up the lead.
    func close() async {
        isClosed = true
        _ = try? await advancing?.value
        for waiter in waiters { waiter.continuation.resume(returning: false) }
        waiters = []
        await lane.drop()
    }
}
