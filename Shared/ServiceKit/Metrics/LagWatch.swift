import CRDT
import Synchronization

/// How far the copies of databases are behind the log: in operations, and as the age of the oldest operation
/// that is still missing. Both are zero when nothing is missing, however long nobody writes.
///
/// An operation's age is counted from the look that found it, so it is exact to `Limits.lagLook`. The lock
/// guards everything.
public final class LagWatch: Sendable {
    /// The lag of one database.
    public struct Reading: Sendable, Equatable {
        /// The database.
        public var database: DatabaseID
        /// Operations that are missing.
        public var operations: UInt64
        /// Age of the oldest of them.
        public var age: Duration
    }

    private struct Track {
        /// Heads above the folded offset, and when they were first seen, in order.
        var heads: [(offset: Offset, at: ContinuousClock.Instant)] = []
        var head: Offset
        var folded: Offset
    }

    private let tracks = Mutex<[DatabaseID: Track]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    /// An empty watch.
    /// - Parameter now: the clock; a test's own.
    public init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// Notes the head of a database's log and the offset up to which a copy has it.
    public func note(_ database: DatabaseID, head: Offset, folded: Offset) {
        let now = now()
        tracks.withLock { tracks in
            var track = tracks[database] ?? Track(head: head, folded: folded)
            // A log that was put back begins again.
            if head < track.head { track.heads = [] }
            (track.head, track.folded) = (head, folded)
            track.heads.removeAll { $0.offset <= folded }
            if head > folded, track.heads.last.map({ $0.offset < head }) ?? true {
                track.heads.append((head, now))
            }
            if track.heads.count > Limits.watchedHeads {
                // The first stays: it is the age.
                track.heads = track.heads.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
            }
            tracks[database] = track
        }
    }

    /// Forgets all other databases.
    public func keep(only databases: some Sequence<DatabaseID>) {
        let kept = Set(databases)
        tracks.withLock { tracks in tracks = tracks.filter { kept.contains($0.key) } }
    }

    /// The lags, in the order of the databases' ids.
    public func readings() -> [Reading] {
        let now = now()
        return tracks.withLock { $0 }.map { database, track in
            Reading(
                database: database,
                operations: UInt64(min(track.folded, track.head).distance(to: track.head)),
                age: track.heads.first.map { now - $0.at } ?? .zero)
        }.sorted { $0.database < $1.database }
    }

    /// Looks at open databases again and again, until the task is cancelled. Where more are open than
    /// `Limits.watchedDatabases`, they have turns.
    /// - Parameters:
    ///   - open: the open databases.
    ///   - look: the head of a database's log and the folded offset; nil for one that is closed by now.
    public func run(
        open: @Sendable () async -> [DatabaseID],
        look: @Sendable (DatabaseID) async throws -> (head: Offset, folded: Offset)?
    ) async throws {
        var start = 0
        while true {
            let databases = await open().sorted()
            keep(only: databases)
            if start >= databases.count { start = 0 }
            for database in databases.dropFirst(start).prefix(Limits.watchedDatabases) {
                // While the log is away, contact says so, and the lag stays as it was.
                if let found = try? await look(database) {
                    note(database, head: found.head, folded: found.folded)
                }
            }
            start += Limits.watchedDatabases
            try await Task.sleep(for: Limits.lagLook)
        }
    }

    /// Sets the two metrics of these lags.
    /// - Parameter name: the metrics' beginning, `mimeo_fold_lag`.
    public func measure(_ name: String) {
        let readings = readings().map { reading in
            (reading.database, Double(reading.operations), reading.age / .seconds(1))
        }
        Measured.replace("\(name)_operations", byDatabase: readings.map { ($0.0, $0.1) })
        Measured.replace("\(name)_seconds", byDatabase: readings.map { ($0.0, $0.2) })
    }
}
