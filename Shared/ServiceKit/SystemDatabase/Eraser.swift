import CRDT
import Foundation
import Logging
import Machine

/// Erases what one holder keeps of deleted databases and of erased documents, and writes the receipts.
///
/// It looks after every change of the system database and every `Limits.erasureLook`. The second covers what
/// appears after an erasure: an upload that ended late, a folder that was put back. A failed erasure is
/// repeated at the next look.
public struct Eraser: Sendable {
    /// The holder's part.
    public struct Work: Sendable {
        /// Returns whether anything of a deleted database is there.
        public var isHeld: @Sendable (DatabaseID) async throws -> Bool
        /// Removes it; must bear that some or all of it is gone.
        public var erase: @Sendable (DatabaseID) async throws -> Void
        /// Removes what is left of documents that are gone from the log; nil if nothing can be.
        public var clean: (@Sendable (DocumentErasure) async throws -> Void)?

        /// A part that does this.
        public init(
            isHeld: @escaping @Sendable (DatabaseID) async throws -> Bool,
            erase: @escaping @Sendable (DatabaseID) async throws -> Void,
            clean: (@Sendable (DocumentErasure) async throws -> Void)? = nil
        ) {
            self.isHeld = isHeld
            self.erase = erase
            self.clean = clean
        }
    }

    private let system: SystemDatabase
    private let holder: String
    private let place: String
    private let work: Work
    private let logger: Logger

    /// - Parameters:
    ///   - holder: see `ErasureRecord.holder`.
    ///   - place: see `ErasureRecord.place`.
    public init(system: SystemDatabase, holder: String, place: String, logger: Logger, work: Work) {
        self.system = system
        self.holder = holder
        self.place = place
        self.logger = logger
        self.work = work
    }

    /// A folder as the place of an erasure: with the host's name, since folders of several hosts have one
    /// name.
    public static func place(folder: String) -> String {
        "\(ProcessInfo.processInfo.hostName):\(URL(fileURLWithPath: folder).path)"
    }

    /// Looks until the task is cancelled.
    public func run() async { await Self.looking(at: system) { await look() } }

    /// Runs `look` at once, after every change of the system database, and every `Limits.erasureLook`.
    public static func looking(at system: SystemDatabase, _ look: @Sendable () async -> Void) async {
        let (looks, continuation) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in system.changes { continuation.yield() }
            }
            group.addTask {
                while !Task.isCancelled {
                    try? await Task.sleep(for: Limits.erasureLook)
                    continuation.yield()
                }
            }
            for await _ in looks where !Task.isCancelled { await look() }
            group.cancelAll()
        }
    }

    private func look() async {
        let directory = system.directory
        for record in directory.databases.values where record.isErased {
            await attempt(record.databaseID, nil) {
                // Without a receipt it is erased although nothing seems to be there: a process that was
                // killed in an erasure may have left content under no name.
                let id = ErasureRecord.id(record.databaseID, nil, holder, place)
                let isLeft = try await work.isHeld(record.databaseID) || system.directory.erasures[id] == nil
                if isLeft { try await work.erase(record.databaseID) }
                return isLeft
            }
        }
        guard let clean = work.clean else { return }
        for erasure in directory.documentErasures.values
        where erasure.erasedThrough != nil && !directory.hasErased(erasure, holder, place) {
            await attempt(erasure.databaseID, erasure.id) {
                try await clean(erasure)
                return true
            }
        }
    }

    /// - Parameter body: returns false if nothing was done.
    private func attempt(
        _ database: DatabaseID, _ subject: String?, _ body: @Sendable () async throws -> Bool
    ) async {
        do {
            let isDone = try await body()
            let id = ErasureRecord.id(database, subject, holder, place)
            guard isDone || system.directory.erasures[id] == nil else { return }
            let receipt = ErasureRecord(
                database: database, subject: subject, holder: holder, place: place,
                erasedAtSeconds: SystemClock.seconds())
            try await system.write { try $0.put(receipt) }
            logger.notice(
                "erased here",
                metadata: [
                    "database": "\(database)", "documents": "\(subject ?? "all")", "holder": "\(holder)",
                    "place": "\(place)",
                ])
        } catch {
            logger.warning(
                "an erasure is not done yet; the next attempt follows",
                metadata: [
                    "database": "\(database)", "documents": "\(subject ?? "all")", "holder": "\(holder)",
                    "error": "\(error)",
                ])
        }
    }
}
