import CRDT
import Exchange
import Foundation
import Logging
import Machine
import OperationLog
import Replica

/// The materializations of one process: one per database, shared by all services in it. `mimeo serve` folds a
/// log once, and has a database on disk once.
///
/// The first service that opens a database begins to follow its log, and the last one that closes its share
/// ends that. If the log was restored, the files are damaged or somebody wants them rebuilt
/// (`Materializer.hasLostHistory`), the materializer is closed under everybody, and the next opening builds
/// another one.
///
/// Invariants: at most one materializer per database is open or being opened; none is opened before the one
/// before it is closed. Actor isolation guards `folds` and `closings`.
public actor Materializations {
    /// A database's materializer while services have shares of it.
    fileprivate final class Fold: Sendable {
        let opening: Task<Materializer, any Error>
        let isOver = Monitor(false)
        init(_ opening: Task<Materializer, any Error>) { self.opening = opening }
    }

    private struct Open {
        let fold: Fold
        /// The numbers of the shares, those that are being opened included.
        var shares: Set<UInt64> = []
        /// Follows the log; nil until the materializer is open.
        var following: Task<Void, Never>?
    }

    /// One service's share of a materializer.
    public struct Share: Sendable {
        /// The materializer. Only its owner, `Materializations`, runs and closes it.
        public let materializer: Materializer
        fileprivate let fold: Fold
        fileprivate let number: UInt64
        fileprivate let listener: UInt64
        fileprivate let owner: Materializations

        /// Waits until the materializer follows its log no more, or the task is cancelled.
        public func waitForEnd() async { await fold.isOver.wait(within: nil) { $0 } }

        /// Gives the share back; later calls do nothing. Nothing is told to its listener any more.
        /// - Parameter discards: true to close the materializer under everybody and delete its files, so that
        ///   the next opening begins from the log.
        public func close(discards: Bool = false) async { await owner.close(self, discards: discards) }
    }

    /// The folder of the materializations, a folder each.
    public nonisolated let folder: String
    private let log: any OperationLog
    private let logger: Logger
    private var folds: [DatabaseID: Open] = [:]
    private var closings: [DatabaseID: Task<Void, Never>] = [:]
    private var lastShare: UInt64 = 0

    /// Materializations of this log in a folder.
    public init(of log: any OperationLog, folder: String, logger: Logger) {
        self.log = log
        self.folder = folder
        self.logger = logger
    }

    /// A share of a database's materializer, which is opened if it is not. `onFold` gets every operation
    /// folded after a position, in log order; `beginning` is told that position before.
    public func open(
        _ database: DatabaseID, beginning: @escaping @Sendable (LogPosition) -> Void = { _ in },
        onFold: @escaping @Sendable ([FoldedOperation]) async -> Void = { _ in }
    ) async throws -> Share {
        lastShare += 1
        let number = lastShare
        while true {
            while let closing = closings[database] { await closing.value }
            let fold = folds[database]?.fold ?? begin(database)
            folds[database]?.shares.insert(number)
            let materializer: Materializer
            do {
                materializer = try await fold.opening.value
            } catch {
                // Nobody else can use it either: the next caller tries again.
                if folds[database]?.fold === fold { folds[database] = nil }
                throw error
            }
            guard folds[database]?.fold === fold, await !materializer.hasLostHistory else {
                await end(fold, of: database)
                continue
            }
            follow(materializer, fold)
            let listener = await materializer.join(beginning: beginning, onFold: onFold)
            return Share(
                materializer: materializer, fold: fold, number: number, listener: listener, owner: self)
        }
    }

    /// Returns whether anything of a database is stored.
    public nonisolated func keeps(_ database: DatabaseID) -> Bool {
        !DatabaseFolders.of(database, in: folder).isEmpty
    }

    /// Removes the materialization of a deleted database, whoever has shares of it.
    public func erase(_ database: DatabaseID) async throws {
        if let open = folds[database] { await end(open.fold, of: database) }
        while let closing = closings[database] { await closing.value }
        try DatabaseFolders.remove(database, in: folder)
    }

    /// Removes the materializations in a folder that no service has any more, but those that another process
    /// has open. Other things there are somebody else's, and stay. The folder goes when nothing is left.
    public static func removeUnused(in folder: String) {
        let manager = FileManager.default
        for name in (try? manager.contentsOfDirectory(atPath: folder)) ?? [] {
            let old = "\(folder)/\(name)"
            let database = "\(old)/\(DocumentStore.databaseName)"
            guard manager.fileExists(atPath: database) else { continue }
            Materializer.removeUnused(old)
            let isGone = !manager.fileExists(atPath: database)
            if isGone { try? manager.removeItem(atPath: old) }
        }
        // Fails while anything is left in it.
        rmdir(folder)
    }

    private func begin(_ database: DatabaseID) -> Fold {
        let (log, folder, logger) = (log, "\(folder)/\(database)", logger)
        let fold = Fold(
            Task { try await Materializer.open(database, log: log, folder: folder, logger: logger) })
        folds[database] = Open(fold: fold)
        return fold
    }

    private func follow(_ materializer: Materializer, _ fold: Fold) {
        let database = materializer.database
        guard let open = folds[database], open.fold === fold, open.following == nil else { return }
        folds[database]?.following = Task {
            await materializer.run()
            if await materializer.hasLostHistory { await self.end(fold, of: database) }
            fold.isOver.change { $0 = true }
        }
    }

    private func close(_ share: Share, discards: Bool) async {
        await share.materializer.leave(share.listener)
        let database = share.materializer.database
        guard folds[database]?.fold === share.fold,
            folds[database]?.shares.remove(share.number) != nil
        else { return }
        guard discards || folds[database]?.shares.isEmpty ?? false else { return }
        await end(share.fold, of: database, discards: discards)
    }

    /// Closes a materializer, whatever shares of it there are.
    private func end(_ fold: Fold, of database: DatabaseID, discards: Bool = false) async {
        guard let open = folds[database], open.fold === fold else { return }
        folds[database] = nil
        let closing = Task {
            open.following?.cancel()
            let materializer = try? await fold.opening.value
            await materializer?.close(discards: discards)
            fold.isOver.change { $0 = true }
            // Before anybody who waits for this goes on, and looks whether it is still closing.
            closings[database] = nil
        }
        closings[database] = closing
        await closing.value
    }
}

extension Materializer {
    /// Removes a materialization that no process has open.
    static func removeUnused(_ folder: String) {
        // Opening takes the folder's lock; a folder in use throws.
        guard
            let unused = try? Materialization(
                directory: folder, environment: .system, logger: Logger(label: "mimeo.materializer"))
        else { return }
        try? Materialization.discard(directory: folder)
        try? unused.close()
    }
}
