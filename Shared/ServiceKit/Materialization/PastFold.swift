import CRDT
import DQL
import Exchange
import Foundation
import Logging
import Machine
import OperationLog
import Replica

/// The documents of a database as of one offset of its log, folded in a folder of its own, apart from every
/// materialization: for reads of the past, and for readers of changes that begin there.
///
/// Begins with the log's snapshot if that is not after the wanted offset, else with the log's beginning. Only
/// moves forward. One caller at a time moves it; any number may read `replica` while nobody does. `close`
/// deletes the folder.
public actor PastFold {
    /// The documents at `position`.
    public nonisolated let replica: Materialization
    /// Opens and closes it.
    private nonisolated let executor: BlockingExecutor
    /// The database.
    public nonisolated let database: DatabaseID
    /// The place in the log that `replica` is the fold of.
    public private(set) var position: LogPosition

    private let log: any OperationLog
    private let folder: String
    /// Entries that were read and are not folded yet.
    private var pending: ArraySlice<Materialization.LogItem> = []

    /// The log does not reach back to an offset any more.
    public struct Gone: Error {
        /// The oldest offset whose documents can be had.
        public let oldest: Offset
    }

    /// The oldest offset whose documents a fold can begin with: 0 while no operation was removed from the
    /// log, else that of its snapshot.
    public static func oldest(in log: any OperationLog, of database: DatabaseID) async throws -> Offset {
        let truncated = try await log.truncation(of: database).offset
        guard truncated > 0 else { return 0 }
        return try await log.snapshot(of: database)?.position.offset ?? truncated
    }

    /// Opens a fold at the latest place that the log offers at or before an offset. A snapshot is loaded in
    /// turns of the evaluation's credential, and not to its end if the evaluation has ended.
    /// - Parameter folder: a new folder for its files.
    /// - Throws: `Gone`, and the log's errors; `cancelled`, `timeout`.
    public static func open(
        _ database: DatabaseID, log: any OperationLog, notAfter offset: Offset, folder: String,
        for evaluation: Evaluation, logger: Logger
    ) async throws -> PastFold {
        guard let start = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "the log has no position 0; restore it from a backup")
        }
        let oldest = try await oldest(in: log, of: database)
        guard oldest <= offset else { throw Gone(oldest: oldest) }
        let executor = BlockingExecutor(label: "mimeo.past", isSerial: false)
        let make: @Sendable () throws -> Materialization = {
            try Materialization(
                directory: folder, environment: .system, logger: logger)
        }
        var replica = try await executor.run(make)
        do {
            var position: LogPosition?
            if let snapshot = try await log.snapshot(of: database), snapshot.position.offset <= offset {
                let renew: @Sendable (Materialization) throws -> Materialization = { old in
                    try Materialization.discard(directory: folder)
                    try old.close()
                    return try make()
                }
                (replica, position) = try await Materializer.loadSnapshot(
                    into: replica, log, database, evaluation, logger, renew: renew)
                // A newer snapshot may have replaced it meanwhile.
                if let position, position.offset > offset { throw Gone(oldest: position.offset) }
            }
            return PastFold(database, log, replica, position ?? start, executor, folder)
        } catch {
            await discard(replica, folder, executor)
            throw error
        }
    }

    private init(
        _ database: DatabaseID, _ log: any OperationLog, _ replica: Materialization, _ position: LogPosition,
        _ executor: BlockingExecutor, _ folder: String
    ) {
        self.database = database
        self.log = log
        self.replica = replica
        self.position = position
        self.executor = executor
        self.folder = folder
    }

    /// Folds the next operations, none after `offset`, and returns them; none at the log's head. Some
    /// megabytes at most, in one turn of the evaluation's credential.
    /// - Throws: `Gone` if the log was truncated beyond the position, and the log's errors.
    public func next(through offset: Offset, for evaluation: Evaluation) async throws -> [FoldedOperation] {
        guard position.offset < offset else { return [] }
        if pending.isEmpty { pending = try await read()[...] }
        let items = Array(pending.prefix { $0.position.offset <= offset })
        guard !items.isEmpty else { return [] }
        let replica = replica
        let folded = try await evaluation.apart { try replica.fold(items) }
        // A slice keeps all that it is of.
        pending = folded.count == pending.count ? [] : pending.dropFirst(folded.count)
        if let last = folded.last { position = last.position }
        return folded
    }

    private func read() async throws -> [Materialization.LogItem] {
        let entries: [LogEntry]
        do {
            entries = try await log.read(database, after: position.offset)
        } catch let error as OperationLogError where error.code == .truncated {
            throw Gone(oldest: try await Self.oldest(in: log, of: database))
        }
        guard let first = entries.first else { return [] }
        let digest = ChainHash.digest(
            actor: first.actor, sequence: first.sequence, timestamp: first.timestamp,
            contentHash: ChainHash.content(first.bytes))
        guard first.offset == position.offset.next,
            first.hash == ChainHash.next(after: position.hash, digest: digest)
        else {
            throw OperationLogError(
                .corrupt, "the log was reset to an earlier state; read again", database: database,
                offset: position.offset)
        }
        return entries.map {
            Materialization.LogItem(
                position: LogPosition(logID: position.logID, offset: $0.offset, hash: $0.hash),
                bytes: $0.bytes)
        }
    }

    /// The bytes of its files.
    public nonisolated var bytes: Int {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return files.reduce(0) { sum, name in
            let facts = try? FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)")
            return sum + (facts?[.size] as? Int ?? 0)
        }
    }

    /// Closes it and deletes its files.
    public func close() async { await Self.discard(replica, folder, executor) }

    private static func discard(_ replica: Materialization, _ folder: String, _ executor: BlockingExecutor)
        async
    {
        try? await executor.run {
            defer { try? FileManager.default.removeItem(atPath: folder) }
            try replica.close()
        }
    }

    /// The name of a new fold's folder.
    /// - Parameter number: counts the folds of this process.
    public static func name(of database: DatabaseID, number: UInt64) -> String {
        "\(database)-\(number)-\(UInt64.random(in: .min ... .max))"
    }

    /// Returns whether a folder is one of a fold, by its name and by the names of all that is in it. `parent`
    /// may have folders of somebody else, and links to them.
    private static func isFold(_ name: String, in parent: String) -> Bool {
        let path = "\(parent)/\(name)"
        let numbers = name.split(separator: "-", omittingEmptySubsequences: false).suffix(2)
        guard numbers.count == 2, numbers.allSatisfy({ UInt64($0) != nil }) else { return false }
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
            let files = try? FileManager.default.contentsOfDirectory(atPath: path)
        else { return false }
        return files.allSatisfy { $0 == "lock" || $0.hasPrefix(DocumentStore.databaseName) }
    }

    /// Deletes the folders below `parent` that an earlier process's folds left; those of a living one are
    /// locked.
    public static func sweep(_ parent: String, logger: Logger) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
        where isFold(name, in: parent) {
            let folder = "\(parent)/\(name)"
            guard
                let left = try? Materialization(
                    directory: folder, environment: .system, logger: logger)
            else { continue }
            try? left.close()
            try? FileManager.default.removeItem(atPath: folder)
        }
    }
}

extension Evaluation: LoadingPlace {
    /// - Throws: `cancelled`, `timeout` once it has ended.
    func load<Result: Sendable>(_ step: @escaping @Sendable () throws -> Result) async throws -> Result {
        if let end { throw DQLError.interrupted(end == .timeout ? .timeout : .cancelled) }
        return try await apart(step)
    }
}
