import CRDT
import Logging
import OperationLog

/// Moves databases from one log to another while they are served.
///
/// Everything is copied into drafts of the other log, again and again until little is left; the former log
/// is closed to appends, durably; the rest is copied; and the drafts get their names at once. So at no time
/// do two logs take writes, and whatever was acknowledged is in both. Identity, offsets and chain stay, so
/// cursors and replicas go on.
///
/// All state is in the two logs: a move that was interrupted at any point goes on when it is begun again.
/// Only one may run at a time.
public struct LogMover: Sendable {
    /// The steps of a move.
    public enum Step: String, Sendable {
        /// The databases are copied, and served.
        case copying
        /// The former log has begun to refuse appends, and the rest is copied.
        case closed
        /// The other log shows the databases.
        case moved
    }

    /// A database that was copied or moved.
    public struct Moved: Sendable, Equatable {
        /// Its id.
        public let database: DatabaseID
        /// The end of its log there.
        public let end: LogPosition
    }

    private let source: any RestorableLog
    private let target: any RestorableLog
    private let database: DatabaseID?
    private let place: NewPlace
    private let progress: BackupProgress
    private let tell: @Sendable (Step) async -> Void

    /// A move from a log to another one.
    /// - Parameters:
    ///   - database: the only database to move; nil moves all.
    ///   - place: the other log, as the former one remembers it.
    ///   - tell: called before each step.
    public init(
        from source: any RestorableLog, to target: any RestorableLog, database: DatabaseID? = nil,
        place: NewPlace, progress: BackupProgress = .unwatched,
        tell: @escaping @Sendable (Step) async -> Void = { _ in }
    ) {
        (self.source, self.target, self.database) = (source, target, database)
        (self.place, self.progress, self.tell) = (place, progress, tell)
    }

    /// Copies as much as there is, and closes nothing: the move that follows has little left.
    /// - Throws: as `move`.
    public func copy() async throws -> [Moved] {
        let moved = try await moved()
        let all = try await chosen().filter { !moved.contains($0) }
        _ = try await replaceable(all, beside: moved)
        await tell(.copying)
        try await follow(all)
        return try await ends(all.map { ($0, RestoreDraft.name(of: $0)) })
    }

    /// Moves.
    /// - Throws: `BAK-0301`, `BAK-0401`, `BAK-0404`, `BAK-0405`, the logs' errors.
    public func move() async throws -> [Moved] {
        let moved = try await moved()
        var rest = try await chosen().filter { !moved.contains($0) }
        if !rest.isEmpty {
            let replaced = try await replaceable(rest, beside: moved)
            await tell(.copying)
            try await follow(rest)
            await tell(.closed)
            rest = try await close(rest, beside: moved)
            try await complete(rest)
            try await target.publish(rest.map { RestoreDraft.name(of: $0) }, replacing: replaced)
        }
        await tell(.moved)
        return try await ends((moved + rest).map { ($0, $0) })
    }

    /// Takes a move back that has ended, and has not shown the databases yet: the former log takes appends
    /// again.
    /// - Throws: `BAK-0401` once the other log has the databases.
    public func cancel() async throws -> [Moved] {
        let all = try await chosen()
        // A move that still runs finds no draft to publish, unless it begins another one: end it before.
        try await target.discardDrafts()
        guard try await shown(all).isEmpty else {
            throw BackupError(
                .targetNotEmpty, "the other log has the databases already; move them back from there")
        }
        for database in all {
            try await requireThisMove(database)
            try await source.reopen(database)
        }
        return try await ends(all.map { ($0, $0) }, in: source)
    }

    // MARK: Steps

    private func chosen() async throws -> [DatabaseID] {
        let all = try await source.databases()
        guard let database else { return all }
        guard all.contains(database) else {
            throw BackupError(.unknownDatabase, "the log has no database \(database)")
        }
        return [database]
    }

    /// The databases that the other log shows under the same identity.
    private func shown(_ all: [DatabaseID]) async throws -> [DatabaseID] {
        var shown: [DatabaseID] = []
        for database in all where try await target.databaseExists(database) {
            let isSame = try await target.head(of: database).logID == source.head(of: database).logID
            // One that was moved from there to here is closed there.
            if isSame, try await target.newPlace(of: database) == nil { shown.append(database) }
        }
        return shown
    }

    /// The databases that an earlier attempt has moved. The former server may have made others since.
    private func moved() async throws -> [DatabaseID] {
        let shown = try await shown(chosen())
        for database in shown {
            guard try await source.newPlace(of: database)?.log == place.log else {
                throw BackupError(
                    .targetNotEmpty, "both logs take writes of database \(database): stop one of the servers")
            }
        }
        return shown
    }

    /// The databases of the other log that make way, which are closed there: they came from it.
    private func replaceable(
        _ all: [DatabaseID], beside moved: [DatabaseID]
    ) async throws -> [DatabaseID] {
        for database in all { try await requireThisMove(database) }
        var closed: [DatabaseID] = []
        for present in try await target.databases() where database == nil || all.contains(present) {
            if moved.contains(present) { continue }
            guard all.contains(present), try await hasCome(present) else {
                throw BackupError(
                    .targetNotEmpty,
                    "the other log has the database \(present); move into an empty log, or one database")
            }
            closed.append(present)
        }
        return closed
    }

    /// Returns whether a database of the other log was moved from there to here: it is closed, and no further
    /// than the log here, which goes on where it ended.
    private func hasCome(_ present: DatabaseID) async throws -> Bool {
        guard try await target.newPlace(of: present) != nil else { return false }
        let (there, here) = (try await target.head(of: present), try await source.head(of: present))
        return there.logID == here.logID && there.offset <= here.offset
    }

    /// - Throws: `LOG-0313` for a database that was moved to another place.
    private func requireThisMove(_ database: DatabaseID) async throws {
        if let other = try await source.newPlace(of: database), other.log != place.log {
            throw other.refusal(of: database)
        }
    }

    /// Copies until little is left, or until as much comes as is copied.
    private func follow(_ all: [DatabaseID]) async throws {
        var (least, rounds) = (UInt64.max, 0)
        while rounds < Limits.moveRounds {
            var copied: UInt64 = 0
            for database in all { copied += try await copy(database) }
            guard copied > Limits.moveRest else { return }
            rounds = copied < least ? 0 : rounds + 1
            least = min(least, copied)
        }
    }

    /// Closes all databases, those included that were made meanwhile.
    private func close(
        _ all: [DatabaseID], beside moved: [DatabaseID]
    ) async throws -> [DatabaseID] {
        var closed: [DatabaseID] = []
        var open = all
        while !open.isEmpty {
            for database in open { try await source.close(database, movedTo: place) }
            closed += open
            open = try await chosen().filter { !closed.contains($0) && !moved.contains($0) }
        }
        return closed
    }

    /// Copies what is left in the closed log. A draft that had to begin again has dropped the others.
    private func complete(_ all: [DatabaseID]) async throws {
        for _ in 1...Limits.copyAttempts {
            for database in all { _ = try await copy(database) }
            var isWhole = true
            for database in all where isWhole {
                let draft = try await end(of: RestoreDraft.name(of: database))
                isWhole = try await draft == source.head(of: database)
            }
            if isWhole { return }
        }
        throw BackupError(.restoreFailed, "the other log does not end where the former one does")
    }

    private func ends(
        _ all: [(DatabaseID, name: DatabaseID)], in log: (any RestorableLog)? = nil
    ) async throws -> [Moved] {
        var ends: [Moved] = []
        for (database, name) in all {
            ends.append(Moved(database: database, end: try await (log ?? target).head(of: name)))
        }
        return ends
    }

    /// The end of a draft; nil if there is none.
    private func end(of draft: DatabaseID) async throws -> LogPosition? {
        do {
            return try await target.head(of: draft)
        } catch let error as OperationLogError where error.code == .unknownDatabase {
            return nil
        }
    }
}

// MARK: One database

extension LogMover {
    /// Copies what its draft lacks, up to the head that the log has now.
    /// - Returns: the number of operations.
    private func copy(_ database: DatabaseID) async throws -> UInt64 {
        for _ in 1...Limits.copyAttempts {
            do {
                return try await attempt(database)
            } catch let error as OperationLogError
                where [.truncated, .noSnapshot].contains(error.code)
            {
                try await target.discardDrafts()
            }
        }
        throw BackupError(
            .overtaken,
            "the log of database \(database) was truncated \(Limits.copyAttempts) times while it was copied; "
                + "raise --kept-operations")
    }

    private func attempt(_ database: DatabaseID) async throws -> UInt64 {
        let end = try await source.head(of: database).offset
        var writer = DraftWriter(log: target, draft: try await draft(of: database))
        let start = try await target.head(of: writer.draft).offset
        var offset = start
        while offset < end {
            let entries = try await source.read(database, after: offset)
            let actors = Set(entries.map(\.actor)).subtracting(writer.keys.keys)
            for (actor, known) in try await frontiers(of: Array(actors), in: database) {
                writer.keys[actor] = known.authorKey
            }
            for entry in entries { try await writer.append(entry.record, at: entry.offset) }
            try await writer.flush()
            offset = entries.last?.offset ?? end
            progress.tell("copying \(database)", offset.rawValue, of: end.rawValue)
            try Task.checkCancellation()
        }
        // The chain says that each operation is the same.
        let copy = try await target.head(of: writer.draft)
        guard try await source.position(at: copy.offset, in: database) == copy else {
            throw BackupError(.restoreFailed, "the copy of database \(database) is not the log's")
        }
        return offset.rawValue - start.rawValue
    }

    /// The draft of an earlier round or attempt, if the log goes on where it ends; else a new one.
    private func draft(of database: DatabaseID) async throws -> DatabaseID {
        let name = RestoreDraft.name(of: database)
        if let end = try await end(of: name) {
            let cut = try await target.truncation(of: name)
            let base = cut.offset == 0 ? cut : try await target.snapshot(of: name)?.position
            if base == cut, try await source.position(at: end.offset, in: database) == end { return name }
            try await target.discardDrafts()
        }
        guard try await source.truncation(of: database).offset > 0 else {
            let logID = try await source.head(of: database).logID
            return try await target.beginRestore(of: database, after: 0, hash: 0, as: logID)
        }
        guard let snapshot = try await source.snapshot(of: database) else {
            throw OperationLogError.noSnapshot(database, 0)
        }
        return try await begin(database, with: snapshot)
    }

    /// Makes a draft that begins with the log's snapshot.
    private func begin(_ database: DatabaseID, with snapshot: LogSnapshot) async throws -> DatabaseID {
        let place = snapshot.position
        let draft = try await target.beginRestore(
            of: database, after: place.offset, hash: place.hash, as: place.logID)
        let copy = try await target.beginSnapshot(of: draft, at: place)
        var actors = SnapshotActors()
        var known: [ActorID: FrontierEntry] = [:]
        try await source.readSnapshot(snapshot, of: database) { chunk in
            try actors.take(chunk)
            var named: [ActorID] = []
            for case .actor(let actor) in try SnapshotChunk.records(in: chunk) { named.append(actor.actor) }
            known.merge(try await frontiers(of: named, in: database)) { $1 }
            try await target.add(chunk, to: copy, in: draft)
            progress.tell("copying \(database)", 0, of: place.offset.rawValue)
        }
        actors.keys = known.mapValues(\.authorKey)
        // The log knows the checksum of an operation that was its actor's last one.
        let ends = try actors.frontiers().map { actor, frontier in
            (actor, known[actor].flatMap { $0.sequence == frontier.sequence ? $0 : nil } ?? frontier)
        }
        try await DraftWriter(log: target, draft: draft)
            .register(Dictionary(uniqueKeysWithValues: ends))
        _ = try await target.finish(copy, in: draft)
        return draft
    }

    private func frontiers(
        of actors: [ActorID], in database: DatabaseID
    ) async throws -> [ActorID: FrontierEntry] {
        var found: [ActorID: FrontierEntry] = [:]
        for start in stride(from: 0, to: actors.count, by: Limits.actorsAtOnce) {
            let some = Array(actors[start..<min(start + Limits.actorsAtOnce, actors.count)])
            found.merge(try await source.frontier(of: some, in: database)) { $1 }
        }
        return found
    }
}
