import CRDT
import Logging
import Synchronization

/// One open object per database, opened at first use and shared by all callers.
///
/// Invariants: at most one opening per database is in flight. A failed one is forgotten, so the next caller
/// tries again. None begins before the database's previous object is closed. The lock guards the table and is
/// never held across a wait.
public final class OpenDatabases<Opened: Sendable>: Sendable {
    private struct Table {
        var openings: [DatabaseID: Task<Opened, any Error>] = [:]
        var opened: [DatabaseID: Opened] = [:]
        var closings: [DatabaseID: Task<Void, Never>] = [:]
    }

    private let table = Mutex(Table())
    private let logger: Logger
    private let open: @Sendable (_ database: DatabaseID) async throws -> Opened

    /// Creates an empty table. `open` is called once per database, and again after it failed or was closed.
    public init(logger: Logger, open: @escaping @Sendable (_ database: DatabaseID) async throws -> Opened) {
        self.logger = logger
        self.open = open
    }

    /// Returns the open object of a database, and opens it if necessary.
    /// - Throws: the error of `open`, to every caller that waited for that attempt.
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
            // Unless another caller has begun to open it again meanwhile.
            table.withLock { if $0.openings[database] == task { $0.openings[database] = nil } }
            logger.error(
                "a database cannot be opened", metadata: ["database": "\(database)", "error": "\(error)"])
            throw error
        }
    }

    /// Closes a database's object if `isMeant` returns true for it and no other caller was first. The next
    /// caller opens the database again, after that.
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

    /// The open object of a database; nil if none is open.
    public subscript(database: DatabaseID) -> Opened? { table.withLock { $0.opened[database] } }

    /// All open objects, without waiting for those that are being opened.
    public var all: [Opened] { table.withLock { Array($0.opened.values) } }

    /// Empties the table and returns its objects for the caller to close. Openings in flight are cancelled
    /// and waited for; closings in flight are waited for.
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
