import Replica
import Replicator
import Sync

/// Replicators and the log: starting, ending, being put back.
extension World {
    /// A replicator opens its materialization, folds up to the head, and takes sessions.
    func start(_ instance: Instance) {
        guard instance.hub == nil, !instance.isStarting else { return }
        instance.isStarting = true
        let lifetime = instance.lifetime
        note(20) { "replicator \(instance.number) starts" }
        Task { [self] in
            do {
                let hub = try await DatabaseHub.open(
                    SimulatedLog.database, log: log, folder: instance.folder, logger: Self.logger,
                    environment: serverEnvironment, executor: .inline, bounds: profile.bounds)
                instance.isStarting = false
                guard instance.lifetime == lifetime else {
                    await hub.close()
                    return schedule(.start(instance), in: delay(100, 2_000, slow: 0))
                }
                instance.hub = hub
                note(21) { "replicator \(instance.number) is up" }
            } catch {
                instance.isStarting = false
                guard error.isLogGone else {
                    return fail(Violation("replicator \(instance.number) does not start: \(error)"))
                }
                schedule(.start(instance), in: delay(100, 2_000, slow: 0))
            }
        }
    }

    /// A replicator's process ends and starts again; `change` may do something to its folder meanwhile.
    func restart(_ instance: Instance, _ change: @escaping @Sendable () throws -> Void = {}) {
        note(22) { "replicator \(instance.number) is killed" }
        statistics.restarts += 1
        for link in links.values.sorted(by: { $0.number < $1.number }) where link.instance === instance {
            kill(link, atServer: true)
        }
        instance.lifetime += 1
        if profile.faults.contains(.powerCuts), generator.chance(50), !isHealing, instance.hub != nil {
            note(26) { "replicator \(instance.number) loses its power" }
            statistics.cuts += 1
            instance.disk.cutPower()
        }
        guard let hub = instance.hub else { return }
        instance.hub = nil
        let housekeeping = instance.housekeeping
        instance.housekeeping = nil
        housekeeping?.cancel()
        Task { [self] in
            await housekeeping?.value
            await hub.close()
            if instance.disk.isOff { instance.disk.restart() }
            attempt(change)
            schedule(.start(instance), in: isHealing ? 50 : delay(100, 5_000, slow: 0))
        }
    }

    /// Keeps what the log is now.
    func backUpLog() throws {
        let backup = "\(folder)/log.backup"
        try Files.copy(from: log.folder, to: backup, prefix: "log.sqlite", keepsInodes: false)
        logBackup = (backup, archive)
        note(23) { "the log is backed up at \(reference.offset)" }
    }

    /// Puts the log back to what it was when it was backed up; services are started again (see the README
    /// of Sync: they have to be).
    func restoreLog() throws {
        guard let backup = logBackup else { return }
        for instance in instances { restart(instance) }
        for link in links.values.sorted(by: { $0.number < $1.number }) { cut(link) }
        try log.restart {
            log.disk.restart()
            try Files.remove(in: log.folder, prefix: "log.sqlite")
            try Files.copy(from: backup.folder, to: log.folder, prefix: "log.sqlite", keepsInodes: false)
        }
        restores += 1
        note(24) { "the log is restored" }
        archive = backup.archive
        try foldAnew()
    }

    /// The log's machine has lost its power in the midst of a commit, and what runs there with it. What it
    /// had acknowledged is there when it is back.
    func logLostPower() throws {
        note(25) { "the log loses its power" }
        statistics.cuts += 1
        for instance in instances { restart(instance) }
        let acknowledged = reference.position
        try log.restart { log.disk.restart() }
        if let acknowledged {
            let found = try log.file.position(at: acknowledged.offset, in: SimulatedLog.database)
            guard found == acknowledged else {
                throw Violation("the log has lost what it acknowledged at \(acknowledged.offset)")
            }
        }
        try foldAnew()
    }

    /// The reference folds everything again, of what the log has truncated the entries that it once had.
    private func foldAnew() throws {
        let id = try log.file.head(of: SimulatedLog.database).logID
        reference.beginAnew()
        for entry in archive { try reference.fold(entry, id) }
        try committed()
    }

    /// The log has grown: the reference folds what has come.
    func committed() throws {
        let id = try log.file.head(of: SimulatedLog.database).logID
        while case let entries = try log.file.read(
            SimulatedLog.database, after: reference.offset, limit: .standard), !entries.isEmpty
        {
            for entry in entries {
                trace.note(entry.hash)
                try reference.fold(entry, id)
                archive.append(entry)
            }
        }
    }
}

extension Error {
    /// Whether the log went away meanwhile.
    var isLogGone: Bool { "\(self)".contains("LOG-0306") || "\(self)".contains("LOG-0104") }
}
