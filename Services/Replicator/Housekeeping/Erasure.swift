import CRDT
import Foundation
import Logging
import Machine
import OperationLog
import ServiceKit

/// Erasure of deleted databases and of documents.
extension ReplicatorPart {
    func mountErasure(_ system: SystemDatabase, on mount: inout ServiceMount) {
        let eraser = Eraser(
            system: system, holder: name, place: Eraser.place(folder: materializations.folder),
            logger: logger,
            work: Eraser.Work(
                isHeld: { [materializations] in materializations.keeps($0) },
                erase: { [self] in try await erase($0) },
                clean: { [self] in try await clean($0) }))
        mount.background("erasure") { await eraser.run() }
        mount.background("erasure of documents") { [self] in
            await Eraser.looking(at: system) { await eraseDocuments(system) }
        }
    }

    /// A database cannot be erased while sessions have it open.
    private struct SessionsRemain: Error, CustomStringConvertible {
        var description: String { "sessions of the database have not ended yet" }
    }

    /// Removes the materialization of a deleted database. Its sessions were told to end; the eraser comes
    /// again while some have not.
    private func erase(_ database: DatabaseID) async throws {
        await judgeSessions()
        let deadline = ContinuousClock.now + Limits.drainTimeout
        while let hub = openHub(of: database) {
            if await hub.retireIfIdle() {
                await hubs.close(database, if: { $0 === hub }) { await $0.close() }
                break
            }
            guard ContinuousClock.now < deadline else { throw SessionsRemain() }
            try await Task.sleep(for: Limits.drainPause)
        }
        try await materializations.erase(database)
    }

    /// Rewrites the materialization, so that its free pages keep nothing of erased documents.
    private func clean(_ erasure: DocumentErasure) async throws {
        let database = erasure.databaseID
        guard materializations.keeps(database) else { return }
        try await visiting(database) { hub in
            try await hub.materializer.compact(through: Offset(erasure.erasedThrough ?? 0))
        }
    }

    /// Does the work on the log for all erasures that are not through. Any instance may; one at a time does.
    private func eraseDocuments(_ system: SystemDatabase) async {
        for erasure in system.directory.documentErasures.values where erasure.erasedThrough == nil {
            do {
                while true {
                    do {
                        try await erase(erasure, system)
                        break
                    } catch let error as OperationLogError where error.code == .busy {
                        // Another process keeps house, or its lease has not run out since it ended.
                        try await Task.sleep(for: Limits.erasureRetry)
                    }
                }
            } catch {
                logger.warning(
                    "an erasure of documents is not done yet; the next attempt follows",
                    metadata: [
                        "database": "\(erasure.databaseID)", "erasure": "\(erasure.id)", "error": "\(error)",
                    ])
            }
        }
    }

    private func erase(_ erasure: DocumentErasure, _ system: SystemDatabase) async throws {
        let database = erasure.databaseID
        guard try await log.databaseExists(database) else { return }
        let erased = ErasedDocuments(erasure.digests, of: database)
        // At once, for readers; and again when nothing of them can come any more.
        try await erase(erased, in: database, isLast: false)
        let age = SystemClock.seconds() - erasure.requestedAtSeconds
        let settling = housekeeping.erasureSettling - .seconds(max(0, age))
        if settling > .zero { try await Task.sleep(for: settling) }
        guard let offset = try await erase(erased, in: database, isLast: true) else { return }
        try await system.write { writer in
            guard var record = try writer.get(erasure.id, as: DocumentErasure.self) else { return }
            record.erasedThrough = offset.rawValue
            record.erasedAtSeconds = SystemClock.seconds()
            try writer.put(record)
        }
    }

    @discardableResult
    private func erase(
        _ erased: ErasedDocuments, in database: DatabaseID, isLast: Bool
    ) async throws -> Offset? {
        try await visiting(database) { hub in
            let housekeeper = Housekeeper(
                materializer: hub.materializer, log: log, database: database, options: housekeeping,
                logger: logger, wallMilliseconds: hub.environment.wallMilliseconds)
            return try await housekeeper.erase(erased, isLast: isLast)
        }
    }

    /// Runs a body on a database's hub, which nobody closes meanwhile: the visit counts as a session.
    private func visiting<Result>(
        _ database: DatabaseID, _ body: (DatabaseHub) async throws -> Result
    ) async throws -> Result {
        let hub = try await hubs(database)
        guard let visit = await hub.enter() else { throw ReplicatorError.busy }
        do {
            let result = try await body(hub)
            await hub.leave(visit)
            return result
        } catch {
            await hub.leave(visit)
            throw error
        }
    }
}
