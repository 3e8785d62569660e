import CRDT
import Logging
import Synchronization

/// What a service has open per database: opened when it is first asked for, shared by all who ask.
///
/// Invariants: at most one opening per database is under way; one that failed is forgotten, so that the
/// next caller tries again; none begins before what was open there is closed. The lock guards the table and
/// is never held across a wait.
public final class OpenDatabases<Opened: Sendable>: Sendable {
    private struct Table {
        var openings: [DatabaseID: Task<Opened, any Error>] = [:]
        var opened: [DatabaseID: Opened] = [:]
        var closings: [DatabaseID: Task<Void, Never>] = [:]
    }

    private let table = Mutex(Table())
    private let logger: Logger
    private let open: @Sendable (_ database: DatabaseID) async throws -> Opened

    /// An empty table; `open` is called once per database, or again after it has failed.
    public init(logger: Logger, open: @escaping @Sendable (_ database: DatabaseID) async throws -> Opened) {
        self.logger = logger
        self.open = open
    }

    /// The database, opened if it is not.
    /// - Throws: what `open` threw, to everyone who waited for that attempt.
    public func callAsFunction(_ database: DatabaseID) async throws -> Opened {
        let task = table.withLock { table in
            if let known = table.openings[database] { return known }
            let closing = table.closings[database]
            let opening = Task {
                await closing?.value
                return try await self.open(database)
            }
            table.openings[database] = opening
            return opening
        }
        do {
            let value = try await task.value
            table.withLock { if $0.openings[database] == task { $0.opened[database] = value } }
            return value
        } catch {
            // Unless another caller has begun to open it anew meanwhile.
            table.withLock { if $0.openings[database] == task { $0.openings[database] = nil } }
            logger.error(
                "a database cannot be opened", metadata: ["database": "\(database)", "error": "\(error)"])
            throw error
        }
    }

    /// Closes a database, if what is open there is meant and no other caller was first: who asks next opens
    /// it anew, behind that.
    public func close(
        _ database: DatabaseID, if isMeant: (Opened) -> Bool,
        _ close: @escaping @Sendable (Opened) async -> Void
    ) async {
        let closing = table.withLock { table -> Task<Void, Never>? in
            guard let opened = table.opened[database], isMeant(opened) else { return nil }
            table.opened[database] = nil
            table.openings[database] = nil
            let closing = Task { await close(opened) }
            table.closings[database] = closing
            return closing
        }
        guard let closing else { return }
        await closing.value
        table.withLock { if $0.closings[database] == closing { $0.closings[database] = nil } }
    }

    /// Everything that is open now, without waiting for what is being opened.
    public var all: [Opened] { table.withLock { Array($0.opened.values) } }

    /// Empties the table and hands out what was in it, to be closed. What is being opened is cancelled,
    /// and waited for, as is what is being closed.
    public func removeAll() async -> [Opened] {
        let (openings, closings) = table.withLock { table in
            defer { table = Table() }
            return (Array(table.openings.values), Array(table.closings.values))
        }
        for opening in openings { opening.cancel() }
        for closing in closings { await closing.value }
        var opened: [Opened] = []
        for opening in openings {
            if let value = try? await opening.value { opened.append(value) }
        }
        return opened
    }
}
