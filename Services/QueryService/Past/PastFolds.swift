import CRDT
import DQL
import Logging
import OperationLog
import Replica
import ServiceKit

/// The folds of the past that this process has open: for reads `asOf` an offset, shared and kept for the next
/// reader, and one each for readers of changes from before the part in memory.
///
/// A fold that has to be moved is moved in steps, each a turn of somebody who waits for it; it stops where
/// nobody waits any more, because all have left or their time is over. It is kept there, and the next one who
/// wants it goes on. An account moves one at a time (`FoldPlaces`).
///
/// Actor isolation guards all. A kept fold with users is never moved, closed or lent. All folds are in
/// `folds` from their opening until they are closed, so that `forget` finds each, wherever it is.
actor PastFolds {
    private struct Kept {
        let fold: PastFold
        var offset: Offset
        var users = 0
        /// True for one that stopped on its way: nobody has asked for the offset at which it stands.
        var isUnfinished = false
        var lastUse = ContinuousClock.now
        var bytes: Int
    }

    private struct Wanted: Hashable {
        let database: DatabaseID
        let offset: Offset
    }

    /// A fold that is being moved to an offset, for all who want it there.
    private struct Opening {
        let number: UInt64
        let work: Task<Void, any Error>
        /// The evaluations that wait for it.
        var waiting: [Evaluation]
    }

    /// A fold has stopped on its way: whoever still wants it begins again.
    private struct Stopped: Error {}

    private let log: any OperationLog
    private let folder: String
    private let logger: Logger
    /// All that are open: kept, lent, or moved at this moment.
    private var folds: [ObjectIdentifier: PastFold] = [:]
    /// Folds that nobody else gets; they are closed as soon as they are free.
    private var doomed: Set<ObjectIdentifier> = []
    /// How often something was forgotten: a fold that was opened meanwhile may hold some of it.
    private var forgets: UInt64 = 0
    private var kept: [Kept] = []
    private var openings: [Wanted: Opening] = [:]
    private let places = FoldPlaces()
    private var lent = 0
    private var made: UInt64 = 0
    private var isSwept = false
    private var isClosed = false

    /// - Parameter folder: for the folds' folders; only processes of this service use it.
    init(log: any OperationLog, folder: String, logger: Logger) {
        self.log = log
        self.folder = folder
        self.logger = logger
    }

    // MARK: Reading the past

    /// Runs a closure on the documents as of an offset, in turns of the evaluation. Folds them first unless a
    /// fold at this offset is kept. A kept one that is found damaged is folded again, once.
    /// - Throws: `PastFold.Gone`, `QUERY-0303`.
    func read<Result: Sendable>(
        _ database: DatabaseID, at offset: Offset, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (ReadTransaction) throws -> Result
    ) async throws -> Result {
        let wanted = Wanted(database: database, offset: offset)
        do {
            return try await readOnce(wanted, evaluation, body)
        } catch let error as ReplicaError where error.code == .damaged || error.code == .brokenLog {
            logger.error("a fold of the past is damaged", metadata: ["database": "\(database)"])
            return try await readOnce(wanted, evaluation, body)
        }
    }

    private func readOnce<Result: Sendable>(
        _ wanted: Wanted, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (ReadTransaction) throws -> Result
    ) async throws -> Result {
        let fold = try await use(wanted, evaluation)
        defer { release(fold) }
        let replica = fold.replica
        do {
            return try await evaluation.run { try replica.read { try body($0) } }
        } catch let error as ReplicaError where error.code == .damaged || error.code == .brokenLog {
            doomed.insert(ObjectIdentifier(fold))
            throw error
        }
    }

    private func use(_ wanted: Wanted, _ evaluation: Evaluation) async throws -> PastFold {
        while true {
            let found = kept.firstIndex {
                $0.fold.database == wanted.database && $0.offset == wanted.offset && !isDoomed($0.fold)
            }
            if let found {
                kept[found].users += 1
                kept[found].lastUse = .now
                kept[found].isUnfinished = false
                return kept[found].fold
            }
            let opening = join(wanted, evaluation)
            defer { leave(wanted, opening.number, evaluation) }
            try await Self.wait(evaluation) { try await opening.work.value }
        }
    }

    /// Waits for a fold that is moved, to its end or until it stops.
    /// - Throws: `cancelled`, `timeout` when the evaluation ends, whoever notices that first; the errors of
    ///   the work.
    private static func wait(
        _ evaluation: Evaluation, for work: @escaping @Sendable () async throws -> Void
    ) async throws {
        do {
            if try await evaluation.waits(for: work) { return }
        } catch is Stopped {
            // It may have ended with the one who paid for it.
            if evaluation.end == nil { return }
        }
        throw DQLError.interrupted(evaluation.end == .timeout ? .timeout : .cancelled)
    }

    private func isDoomed(_ fold: PastFold) -> Bool { doomed.contains(ObjectIdentifier(fold)) }

    /// Waits for a fold with those who want the same one, or begins it.
    private func join(_ wanted: Wanted, _ evaluation: Evaluation) -> Opening {
        if let known = openings[wanted] {
            openings[wanted]?.waiting.append(evaluation)
            return known
        }
        made += 1
        let number = made
        let work = Task {
            defer { if self.openings[wanted]?.number == number { self.openings[wanted] = nil } }
            let fold = try await self.fold(at: wanted, isExclusive: false) { $0.payer(of: wanted, number) }
            await self.keep(fold)
        }
        let opening = Opening(number: number, work: work, waiting: [evaluation])
        openings[wanted] = opening
        return opening
    }

    /// Whoever pays for the next step of a fold that several may wait for. Without one it ends: somebody who
    /// comes now begins it again.
    private func payer(of wanted: Wanted, _ number: UInt64) -> Evaluation? {
        guard let opening = openings[wanted], opening.number == number else { return nil }
        let payer = opening.waiting.first { $0.end == nil }
        if payer == nil { openings[wanted] = nil }
        return payer
    }

    private func leave(_ wanted: Wanted, _ number: UInt64, _ evaluation: Evaluation) {
        guard let work = openings[wanted]?.work, openings[wanted]?.number == number else { return }
        openings[wanted]?.waiting.removeAll { $0 === evaluation }
        // It may wait for its place.
        if payer(of: wanted, number) == nil { work.cancel() }
    }

    private func release(_ fold: PastFold) {
        guard let place = kept.firstIndex(where: { $0.fold === fold }) else { return }
        kept[place].users -= 1
        kept[place].lastUse = .now
        if isDoomed(fold) { Task { await closeDoomed() } }
    }

    // MARK: Reading on from the past

    /// Lends a fold that stands at an offset; the borrower moves it and gives it back.
    func borrow(
        _ database: DatabaseID, at offset: Offset, _ evaluation: Evaluation
    ) async throws -> PastFold {
        guard lent < Limits.lentFolds else { throw QueryError(.overloaded) }
        lent += 1
        do {
            let wanted = Wanted(database: database, offset: offset)
            while true { if let fold = try await borrowed(wanted, evaluation) { return fold } }
        } catch {
            lent -= 1
            throw error
        }
    }

    /// A fold that only this evaluation waits for; nil if it has to be begun again.
    private func borrowed(_ wanted: Wanted, _ evaluation: Evaluation) async throws -> PastFold? {
        let work = Task {
            try await self.fold(at: wanted, isExclusive: true) { _ in
                evaluation.end == nil ? evaluation : nil
            }
        }
        do {
            try await Self.wait(evaluation) { _ = try await work.value }
        } catch {
            work.cancel()
            // It may have come there all the same.
            Task { if let fold = try? await work.value { await self.keep(fold) } }
            throw error
        }
        guard let fold = try? await work.value else { return nil }
        guard !isDoomed(fold) else {
            await close(fold)
            return nil
        }
        return fold
    }

    /// Takes a fold back, and keeps it for the next reader.
    func giveBack(_ fold: PastFold) async {
        lent -= 1
        await keep(fold)
    }

    /// Takes a fold back that cannot go on, and closes it.
    func drop(_ fold: PastFold) async {
        lent -= 1
        await close(fold)
    }

    /// How many wait for folds that they may share.
    var waiting: Int { openings.values.reduce(0) { $0 + $1.waiting.count } }

    // MARK: Folding

    /// Whoever pays for the next step of a fold; nil to stop it.
    private typealias Payer = @Sendable (isolated PastFolds) -> Evaluation?

    /// A fold that stands at the wanted offset, once its account has a place.
    private func fold(
        at wanted: Wanted, isExclusive: Bool, _ payer: @escaping Payer
    ) async throws -> PastFold {
        guard let first = payer(self) else { throw Stopped() }
        let account = Account(first.purpose.credential, in: wanted.database)
        guard await places.begin(account) else {
            throw Task.isCancelled ? Stopped() as any Error : QueryError(.overloaded)
        }
        defer { places.end(account) }
        // Nobody cancels it in the midst of a step, whose work would be lost.
        return try await Task { try await self.moved(to: wanted, isExclusive: isExclusive, payer) }.value
    }

    /// An idle fold that was moved to the wanted offset, or a new one.
    private func moved(
        to wanted: Wanted, isExclusive: Bool, _ payer: Payer
    ) async throws -> PastFold {
        guard !isClosed else { throw QueryError(.unavailable, "the service stops") }
        if !isSwept {
            isSwept = true
            PastFold.sweep(folder, logger: logger)
        }
        let snapshot = try await log.snapshot(of: wanted.database)?.position.offset ?? 0
        let begin = snapshot <= wanted.offset ? snapshot : 0
        let fold: PastFold
        if let idle = takeIdle(wanted, since: begin, isExclusive: isExclusive) {
            fold = idle
        } else {
            guard let payer = payer(self) else { throw Stopped() }
            fold = try await open(wanted, for: payer)
        }
        while await fold.position.offset < wanted.offset {
            guard let payer = payer(self), !isDoomed(fold) else {
                await keep(fold, isUnfinished: true)
                throw Stopped()
            }
            do {
                if try await fold.next(through: wanted.offset, for: payer).isEmpty { break }
            } catch {
                await close(fold)
                throw error
            }
        }
        return fold
    }

    private func open(_ wanted: Wanted, for payer: Evaluation) async throws -> PastFold {
        made += 1
        let name = PastFold.name(of: wanted.database, number: made)
        let known = forgets
        do {
            let fold = try await PastFold.open(
                wanted.database, log: log, notAfter: wanted.offset, folder: "\(folder)/\(name)",
                for: payer, logger: logger)
            folds[ObjectIdentifier(fold)] = fold
            guard forgets == known else {
                await close(fold)
                throw Stopped()
            }
            return fold
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            throw Stopped()
        }
    }

    private func close(_ fold: PastFold) async {
        await fold.close()
        folds[ObjectIdentifier(fold)] = nil
        doomed.remove(ObjectIdentifier(fold))
    }

    /// An idle fold nearer to the wanted offset than the log's own beginning. For a reader of the past only
    /// one that stopped on its way, or where there is no room for one more: the next reader may want the
    /// offset at which it stands.
    private func takeIdle(_ wanted: Wanted, since begin: Offset, isExclusive: Bool) -> PastFold? {
        let isAny = isExclusive || kept.count >= Limits.keptFolds
        let places = kept.indices.filter { place in
            let item = kept[place]
            return item.users == 0 && !isDoomed(item.fold) && item.fold.database == wanted.database
                && (isAny || item.isUnfinished) && item.offset <= wanted.offset && item.offset >= begin
        }
        guard let place = places.max(by: { kept[$0].offset < kept[$1].offset }) else { return nil }
        return kept.remove(at: place).fold
    }

    /// Adds an idle fold, and closes those that were not used for the longest time where there are too many,
    /// or too many bytes.
    private func keep(_ fold: PastFold, isUnfinished: Bool = false) async {
        let offset = await fold.position.offset
        guard !isClosed, !isDoomed(fold) else { return await close(fold) }
        kept.append(Kept(fold: fold, offset: offset, isUnfinished: isUnfinished, bytes: fold.bytes))
        while kept.count > Limits.keptFolds || kept.reduce(0, { $0 + $1.bytes }) > Limits.keptFoldBytes {
            // The one just added is kept in any case: somebody waits for it.
            let idle = kept.indices.dropLast().filter { kept[$0].users == 0 }
            guard let oldest = idle.min(by: { kept[$0].lastUse < kept[$1].lastUse }) else { return }
            await close(kept.remove(at: oldest).fold)
        }
    }

    /// Closes folds that nobody has used for some time.
    func expire() async {
        let end = ContinuousClock.now - Limits.keptFoldTime
        let old = kept.filter { $0.users == 0 && $0.lastUse < end }
        kept.removeAll { $0.users == 0 && $0.lastUse < end }
        for item in old { await close(item.fold) }
    }

    /// Closes a database's folds, those in use as soon as they are free: an operator has erased something
    /// in them. A fold that is moved at this moment begins again.
    func forget(_ database: DatabaseID) async {
        PastFold.sweep(folder, logger: logger)
        forgets += 1
        for (id, fold) in folds where fold.database == database { doomed.insert(id) }
        await closeDoomed()
    }

    private func closeDoomed() async {
        let free = kept.filter { isDoomed($0.fold) && $0.users == 0 }
        kept.removeAll { isDoomed($0.fold) && $0.users == 0 }
        for item in free { await close(item.fold) }
    }

    /// Closes all.
    func close() async {
        isClosed = true
        let all = kept
        kept = []
        for item in all { await close(item.fold) }
    }
}

extension ReadTransaction {
    /// Visits the live documents of a collection that changed last at an offset after `offset`, in that
    /// order, until the visit returns false; operations are not torn.
    func page(
        of collection: CollectionName, after offset: UInt64,
        _ visit: (DocumentID, EncodedState) throws -> Bool
    ) throws -> UInt64? {
        var last: UInt64?
        var isFull = false
        var isCut = false
        try changes(in: collection, after: offset) { document in
            if isFull, document.position != last {
                isCut = true
                return false
            }
            last = document.position
            if try !visit(document.id, EncodedState(Array(document.state))) { isFull = true }
            return true
        }
        return isCut ? last : nil
    }
}
