import CRDT
import Logging
import OperationLog
import ServiceKit

/// Follows a log for followers where the projection does not fold in this process: in PostgreSQL. A
/// materialization in a folder of this machine, opened for the first follower and kept until the end.
actor ChangeTail {
    private let database: DatabaseID
    private let log: any OperationLog
    private let folder: String
    private let recent: RecentChanges
    private let logger: Logger
    private var opening: Task<Materializer, any Error>?
    private var run: Task<Void, Never>?

    init(
        _ database: DatabaseID, log: any OperationLog, folder: String, recent: RecentChanges, logger: Logger
    ) {
        self.database = database
        self.log = log
        self.folder = folder
        self.recent = recent
        self.logger = logger
    }

    /// Returns when the log's present head is folded, and `recent` begins there.
    func begin() async throws {
        if let opening {
            _ = try await opening.value
            return
        }
        let recent = recent
        let opening = Task { [database, log, folder, logger] in
            let materializer = try await Materializer.open(
                database, log: log, folder: "\(folder)/\(database)", logger: logger,
                onFold: { recent.append($0) })
            do {
                recent.begin(at: await materializer.position.offset)
                try await materializer.advance()
            } catch {
                await materializer.close()
                throw error
            }
            return materializer
        }
        self.opening = opening
        do {
            let materializer = try await opening.value
            run = Task {
                await materializer.run()
                // Without its history it tells nothing any more: followers come again, to another one.
                if await materializer.hasLostHistory { await self.restart(materializer) }
            }
        } catch {
            self.opening = nil
            throw error
        }
    }

    private func restart(_ materializer: Materializer) async {
        opening = nil
        run = nil
        await materializer.close()
        recent.endFollowers(isFinal: false)
    }

    /// Frees the space in which removed content may stand: of the open materialization, else of what an
    /// earlier process left.
    func compact(through offset: Offset) async throws {
        guard let opening else { return try DatabaseFolders.remove(database, in: folder) }
        try await opening.value.compact(through: offset)
    }

    /// Ends it.
    func close() async {
        run?.cancel()
        if let materializer = try? await opening?.value { await materializer.close() }
        opening = nil
    }
}
