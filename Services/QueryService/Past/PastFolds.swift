import CRDT
import Logging
import Machine
import OperationLog
import Replica
import ServiceKit

/// The folds of the past that this process has open: for reads `asOf` an offset, shared and kept for the next
/// reader, and one each for readers of changes from before the part in memory.
///
/// Actor isolation guards all. A kept fold with users is never moved, closed or lent. `turns` bounds how many
/// are being folded at a time, since each reads the log and writes files.
actor PastFolds {
    private struct Kept {
        let fold: PastFold
        var offset: Offset
        var users = 0
        /// Closed when the last user has left; nobody else gets it.
        var isDoomed = false
        var lastUse = ContinuousClock.now
        var bytes: Int
    }

    private struct Wanted: Hashable {
        let database: DatabaseID
        let offset: Offset
    }

    private let log: any OperationLog
    private let folder: String
    private let logger: Logger
    private var kept: [Kept] = []
    private var openings: [Wanted: Task<Void, any Error>] = [:]
    private let turns = BoundedTurns(Limits.foldTurns, waiting: Limits.waitingFolds, for: nil)
    private var lent = 0
    private var lentFolds: [ObjectIdentifier: PastFold] = [:]
    /// Lent folds that are closed when they come back.
    private var doomed: Set<ObjectIdentifier> = []
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
            if let place = kept.firstIndex(where: { $0.fold === fold }) { kept[place].isDoomed = true }
            throw error
        }
    }

    private func use(_ wanted: Wanted, _ evaluation: Evaluation) async throws -> PastFold {
        while true {
            let found = kept.firstIndex {
                $0.fold.database == wanted.database && $0.offset == wanted.offset && !$0.isDoomed
            }
            if let found {
                kept[found].users += 1
                kept[found].lastUse = .now
                return kept[found].fold
            }
            if let opening = openings[wanted] {
                try await opening.value
                continue
            }
            let opening = Task {
                defer { self.openings[wanted] = nil }
                let fold = try await self.fold(at: wanted, isExclusive: false, evaluation)
                await self.keep(fold)
            }
            openings[wanted] = opening
            try await opening.value
        }
    }

    private func release(_ fold: PastFold) {
        guard let place = kept.firstIndex(where: { $0.fold === fold }) else { return }
        kept[place].users -= 1
        kept[place].lastUse = .now
        if kept[place].isDoomed { Task { await closeDoomed() } }
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
            let fold = try await fold(at: wanted, isExclusive: true, evaluation)
            lentFolds[ObjectIdentifier(fold)] = fold
            return fold
        } catch {
            lent -= 1
            throw error
        }
    }

    /// Takes a fold back, and keeps it for the next reader.
    func giveBack(_ fold: PastFold) async {
        lent -= 1
        lentFolds[ObjectIdentifier(fold)] = nil
        guard doomed.remove(ObjectIdentifier(fold)) == nil else { return await fold.close() }
        await keep(fold)
    }

    /// Takes a fold back that cannot go on, and closes it.
    func drop(_ fold: PastFold) async {
        lent -= 1
        lentFolds[ObjectIdentifier(fold)] = nil
        doomed.remove(ObjectIdentifier(fold))
        await fold.close()
    }

    // MARK: Folding

    /// A fold that stands at the wanted offset: an idle one that was moved there, or a new one.
    private func fold(
        at wanted: Wanted, isExclusive: Bool, _ evaluation: Evaluation
    ) async throws -> PastFold {
        guard await turns.begin() else {
            try Task.checkCancellation()
            throw QueryError(.overloaded)
        }
        defer { turns.end() }
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
            made += 1
            let name = PastFold.name(of: wanted.database, number: made)
            fold = try await PastFold.open(
                wanted.database, log: log, notAfter: wanted.offset, folder: "\(folder)/\(name)",
                logger: logger)
        }
        do {
            try await fold.advance(through: wanted.offset, for: evaluation, isShared: !isExclusive)
            return fold
        } catch {
            await fold.close()
            throw error
        }
    }

    /// An idle fold nearer to the wanted offset than the log's own beginning. For a reader of the past only
    /// where there is no room for one more: the next reader may want the offset at which it stands.
    private func takeIdle(_ wanted: Wanted, since begin: Offset, isExclusive: Bool) -> PastFold? {
        guard isExclusive || kept.count >= Limits.keptFolds else { return nil }
        let places = kept.indices.filter { place in
            let item = kept[place]
            return item.users == 0 && !item.isDoomed && item.fold.database == wanted.database
                && item.offset <= wanted.offset && item.offset >= begin
        }
        guard let place = places.max(by: { kept[$0].offset < kept[$1].offset }) else { return nil }
        return kept.remove(at: place).fold
    }

    /// Adds an idle fold, and closes those that were not used for the longest time where there are too many,
    /// or too many bytes.
    private func keep(_ fold: PastFold) async {
        guard !isClosed else { return await fold.close() }
        let offset = await fold.position.offset
        kept.append(Kept(fold: fold, offset: offset, bytes: fold.bytes))
        while kept.count > Limits.keptFolds || kept.reduce(0, { $0 + $1.bytes }) > Limits.keptFoldBytes {
            // The one just added is kept in any case: somebody waits for it.
            let idle = kept.indices.dropLast().filter { kept[$0].users == 0 }
            guard let oldest = idle.min(by: { kept[$0].lastUse < kept[$1].lastUse }) else { return }
            await kept.remove(at: oldest).fold.close()
        }
    }

    /// Closes folds that nobody has used for some time.
    func expire() async {
        let end = ContinuousClock.now - Limits.keptFoldTime
        let old = kept.filter { $0.users == 0 && $0.lastUse < end }
        kept.removeAll { $0.users == 0 && $0.lastUse < end }
        for item in old { await item.fold.close() }
    }

    /// Closes a database's folds, those in use as soon as they are free: an operator has erased something
    /// in them.
    func forget(_ database: DatabaseID) async {
        PastFold.sweep(folder, logger: logger)
        for place in kept.indices where kept[place].fold.database == database {
            kept[place].isDoomed = true
        }
        for fold in lentFolds.values where fold.database == database {
            doomed.insert(ObjectIdentifier(fold))
        }
        await closeDoomed()
    }

    private func closeDoomed() async {
        let free = kept.filter { $0.isDoomed && $0.users == 0 }
        kept.removeAll { $0.isDoomed && $0.users == 0 }
        for item in free { await item.fold.close() }
    }

    /// Closes all.
    func close() async {
        isClosed = true
        let all = kept
        kept = []
        for item in all { await item.fold.close() }
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
