import CRDT
import OperationLog
import ServiceKit

/// Follows a log for followers where the projection does not fold in this process: in PostgreSQL. It has a
/// share of the process's materialization from the first follower on, and keeps it until the end.
actor ChangeTail {
    private let database: DatabaseID
    private let materializations: Materializations
    private let recent: RecentChanges
    private var opening: Task<Materializations.Share, any Error>?
    private var run: Task<Void, Never>?

    init(_ database: DatabaseID, in materializations: Materializations, recent: RecentChanges) {
        self.database = database
        self.materializations = materializations
        self.recent = recent
    }

    /// Returns when the log's present head is folded, and `recent` begins there or before.
    func begin() async throws {
        if let opening {
            _ = try await opening.value
            return
        }
        let opening = Task { [database, materializations, recent] in
            let share = try await materializations.open(
                database, beginning: { recent.begin(at: $0.offset) }, onFold: { recent.append($0) })
            do {
                try await share.materializer.advance()
            } catch {
                await share.close()
                throw error
            }
            return share
        }
        self.opening = opening
        do {
            let share = try await opening.value
            run = Task {
                await share.waitForEnd()
                // Without its history it tells nothing any more: followers come again, to another one.
                if !Task.isCancelled { await self.restart(share) }
            }
        } catch {
            self.opening = nil
            throw error
        }
    }

    private func restart(_ share: Materializations.Share) async {
        opening = nil
        run = nil
        await share.close()
        recent.endFollowers(isFinal: false)
    }

    /// Frees the space in which removed content may stand, also in the leavings of an earlier process.
    func compact(through offset: Offset) async throws {
        if let opening { return try await opening.value.materializer.compact(through: offset) }
        guard materializations.keeps(database) else { return }
        let share = try await materializations.open(database)
        do {
            try await share.materializer.compact(through: offset)
        } catch {
            await share.close()
            throw error
        }
        await share.close()
    }

    /// Ends it.
    func close() async {
        run?.cancel()
        if let share = try? await opening?.value { await share.close() }
        opening = nil
    }
}
