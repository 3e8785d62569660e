import CRDT
import Logging
import OperationLog

/// Moves databases from one log to another while they are served.
///
/// Everything is copied into drafts of the other log, again and again until little is left; the former log
/// is closed to appends, durably, and names the draft's number; the rest is copied; and the drafts get their
/// names at once. So at no time do two logs take writes, and whatever was acknowledged is in both. Identity,
/// offsets and chain stay, so cursors and replicas go on.
///
/// All state is in the two logs: a move that was interrupted at any point goes on when it is begun again.
/// Invariants, by which it does not matter who else works on the two logs, or wakes after an hour:
/// - A draft is shown only under the number that the closed log names, and only while it has its hidden name.
/// - Before the closed log names another draft, or opens again, the draft that it named is *retired*: it gets
///   a name under which nobody can show it. Both changes fail if the log names another one by then.
/// - A retired draft is kept until the former log does not name it any more. So a draft that the log names
///   and nobody has was shown, and has gone on since; or it is lost, which only a person can tell.
///
/// Besides, only one process at a time makes drafts in either log (`reserveDrafts`).
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

    /// A database on its way.
    struct Traveller: Sendable {
        let database: DatabaseID
        /// The place that the former log names; nil while it takes appends.
        var closing: NewPlace?
        /// The number of the closed database of the other log that makes way: it came from there.
        let replaced: Int64?
        /// The number of its draft, once this move has found or made it.
        var draft: Int64?

        /// The draft's hidden name.
        var name: DatabaseID { RestoreDraft.moving(database) }

        /// The refusal of a move whose draft was taken away.
        var contended: OperationLogError {
            OperationLogError(
                .contended, "another move or --cancel has taken the copy away; begin again",
                database: database)
        }
    }

    let source: any RestorableLog
    let target: any RestorableLog
    private let database: DatabaseID?
    private let place: NewPlace
    let progress: BackupProgress
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
        try await working {
            var rest = try await look().rest
            await tell(.copying)
            try await follow(&rest)
            return try await ends(rest.map { ($0.database, $0.name) })
        }
    }

    /// Moves.
    /// - Throws: `BAK-0301`, `BAK-0401`, `BAK-0404`, `BAK-0405`, `BAK-0406`, `LOG-0313`, `LOG-0314`, other
    ///   errors of the logs.
    public func move() async throws -> [Moved] {
        try await working {
            let (moved, found) = try await look()
            var rest = found
            if !rest.isEmpty {
                await tell(.copying)
                try await follow(&rest)
                await tell(.closed)
                try await close(&rest, beside: moved)
                try await complete(&rest)
                try await show(rest)
            }
            await tell(.moved)
            let all = moved + rest.map(\.database)
            try await cleanUp(all)
            return try await ends(all.map { ($0, $0) })
        }
    }

    /// Takes a move back that has not shown the databases: the former log takes appends again.
    /// - Parameter isLost: true if the other log has lost the copies: a person has looked, and no log shows
    ///   the databases.
    /// - Throws: `BAK-0401` once the other log has shown the databases, `BAK-0406`, `LOG-0314`.
    public func cancel(isLost: Bool = false) async throws -> [Moved] {
        try await working {
            let all = try await chosen()
            var closed: [(database: DatabaseID, place: NewPlace)] = []
            var retired: [Renaming] = []
            for database in all {
                guard let place = try await source.newPlace(of: database) else { continue }
                try await requireUnshown(database, place, isLost: isLost)
                closed.append((database, place))
                let name = RestoreDraft.moving(database)
                guard let number = place.number, try await target.number(of: name) == number else { continue }
                let identity = try await source.head(of: database).logID
                let grave = RestoreDraft.retired(database, identity, number)
                retired.append(Renaming(name, number: number, to: grave))
            }
            // From here on nobody can show them.
            try await target.rename(retired)
            for (database, place) in closed { try await source.reopen(database, from: place) }
            try await cleanUp(all, beginnings: true)
            return try await ends(all.map { ($0, $0) }, in: source)
        }
    }

    // MARK: Steps

    private func working<Result>(_ body: () async throws -> Result) async throws -> Result {
        try await source.makingDrafts { try await target.makingDrafts(body) }
    }

    private func chosen() async throws -> [DatabaseID] {
        let all = try await source.databases()
        guard let database else { return all }
        guard all.contains(database) else {
            throw BackupError(.unknownDatabase, "the log has no database \(database)")
        }
        return [database]
    }

    /// Tells which databases an earlier attempt has moved. The former server may have made others since.
    private func look() async throws -> (moved: [DatabaseID], rest: [Traveller]) {
        let all = try await chosen()
        let strangers = Set(try await target.databases()).subtracting(all)
        if database == nil, let stranger = strangers.first {
            throw BackupError(
                .targetNotEmpty,
                "the other log has the database \(stranger); move into an empty log, or one database")
        }
        var (moved, rest): ([DatabaseID], [Traveller]) = ([], [])
        for database in all {
            if let traveller = try await look(at: database) {
                rest.append(traveller)
            } else {
                moved.append(database)
            }
        }
        return (moved, rest)
    }

    /// - Returns: nil for a database that was moved.
    private func look(at database: DatabaseID) async throws -> Traveller? {
        let closing = try await source.newPlace(of: database)
        if let closing, closing.log != place.log { throw closing.refusal(of: database) }
        let present = try await target.number(of: database)
        if let present {
            let isOpen = try await target.newPlace(of: database) == nil
            if isOpen, present == closing?.number { return nil }
            try await requireFormer(database, isOpen: isOpen, isShown: present == closing?.number)
        }
        if let closing, try await !isUnshown(database, closing) { throw lost(database) }
        return Traveller(database: database, closing: closing, replaced: present)
    }

    /// Refuses to replace a database of the other log, unless it was moved from there to here: it is closed,
    /// and no further than the log here, which goes on where it ended.
    private func requireFormer(_ database: DatabaseID, isOpen: Bool, isShown: Bool) async throws {
        let (there, here) = (try await target.head(of: database), try await source.head(of: database))
        let isSame = there.logID == here.logID
        guard isOpen || isShown || !isSame || there.offset > here.offset else { return }
        let reason =
            isShown
            ? "database \(database) was moved to the other log, and on from there"
            : isSame && isOpen
                ? "both logs have database \(database) open: stop one of the servers"
                : "the other log has another database \(database); move into an empty log"
        throw BackupError(.targetNotEmpty, reason)
    }

    /// Returns whether the draft that a closed log names is still one, or is retired.
    private func isUnshown(_ database: DatabaseID, _ closing: NewPlace) async throws -> Bool {
        guard let number = closing.number else { return false }
        let identity = try await source.head(of: database).logID
        for name in [RestoreDraft.moving(database), RestoreDraft.retired(database, identity, number)]
        where try await target.number(of: name) == number { return true }
        return false
    }

    private func lost(_ database: DatabaseID) -> BackupError {
        BackupError(
            .moveLost,
            "the other log has neither database \(database) nor the copy that the move to there had made; if "
                + "no log shows it, take the move back with --cancel --lost")
    }

    private func requireUnshown(_ database: DatabaseID, _ closing: NewPlace, isLost: Bool) async throws {
        guard closing.log == place.log else { throw closing.refusal(of: database) }
        if try await isUnshown(database, closing) { return }
        if let present = try await target.number(of: database) {
            let (there, here) = (try await target.head(of: database), try await source.head(of: database))
            let isOpen = try await target.newPlace(of: database) == nil
            let isLater = there.logID == here.logID && (isOpen || there.offset > here.offset)
            guard present != closing.number, !isLater else {
                throw BackupError(
                    .targetNotEmpty, "the other log has the databases already; move them back from there")
            }
        }
        guard isLost else { throw lost(database) }
    }

    /// Copies until little is left, or until as much comes as is copied.
    private func follow(_ all: inout [Traveller]) async throws {
        var (least, rounds) = (UInt64.max, 0)
        while rounds < Limits.moveRounds {
            var copied: UInt64 = 0
            for index in all.indices { copied += try await copy(&all[index]) }
            guard copied > Limits.moveRest else { return }
            rounds = copied < least ? 0 : rounds + 1
            least = min(least, copied)
        }
    }

    /// Closes all databases, those included that were made meanwhile.
    private func close(_ all: inout [Traveller], beside moved: [DatabaseID]) async throws {
        for index in all.indices { try await close(&all[index]) }
        while true {
            let known = Set(moved + all.map(\.database))
            let made = try await chosen().filter { !known.contains($0) }
            guard !made.isEmpty else { return }
            for database in made {
                guard var traveller = try await look(at: database) else {
                    throw BackupError(.restoreFailed, "another move has taken the database \(database) along")
                }
                _ = try await copy(&traveller)
                try await close(&traveller)
                all.append(traveller)
            }
        }
    }

    /// Closes a database, or has the closed one name the draft that it has now.
    private func close(_ traveller: inout Traveller) async throws {
        guard let draft = traveller.draft, try await target.number(of: traveller.name) == draft else {
            throw traveller.contended
        }
        let next = place.with(number: draft)
        guard traveller.closing != next else { return }
        try await source.close(traveller.database, movedTo: next, from: traveller.closing)
        traveller.closing = next
    }

    /// Copies what is left in the closed log.
    private func complete(_ all: inout [Traveller]) async throws {
        for index in all.indices {
            _ = try await copy(&all[index])
            // The rest may have needed a new draft.
            try await close(&all[index])
        }
        for traveller in all {
            let end = try await target.head(of: traveller.name)
            guard try await source.head(of: traveller.database) == end else {
                throw BackupError(.restoreFailed, "the other log does not end where the former one does")
            }
        }
    }

    private func show(_ all: [Traveller]) async throws {
        var renamings: [Renaming] = []
        for traveller in all {
            guard let draft = traveller.draft else { throw traveller.contended }
            if let replaced = traveller.replaced {
                renamings.append(Renaming(traveller.database, number: replaced, to: nil))
            }
            renamings.append(Renaming(traveller.name, number: draft, to: traveller.database))
        }
        try await target.rename(renamings)
    }

    /// Removes retired drafts, which the former log does not name any more.
    /// - Parameter beginnings: true to remove drafts, too.
    private func cleanUp(_ all: [DatabaseID], beginnings: Bool = false) async throws {
        let drafts = try await target.drafts()
        var left: [DatabaseID] = []
        for database in drafts.isEmpty ? [] : all {
            let identity = try await source.head(of: database).logID
            left += drafts.filter { RestoreDraft.isRetired($0, of: database, identity) }
            // Another log's database of the same name may be on its way, too.
            let name = RestoreDraft.moving(database)
            guard beginnings, drafts.contains(name) else { continue }
            if try await target.head(of: name).logID == identity { left.append(name) }
        }
        try await target.remove(left)
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
}
