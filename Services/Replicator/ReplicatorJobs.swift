import CRDT
import Exchange
import Machine
import OperationLog
import ServiceKit
import Sync

/// The replicator's work beside serving: each job runs until the host stops.
extension ReplicatorPart {
    func mountJobs(on mount: inout ServiceMount) {
        mount.background("housekeeping") { [self] in
            let jobs = Housekeeping(
                log: log, options: housekeeping, logger: logger,
                isOpen: { [hubs] database in hubs.all.contains { $0.database == database } },
                hub: { [hubs] database in try await hubs(database) },
                close: { [hubs] hub in
                    guard await hub.retireIfIdle() else { return }
                    await hubs.close(hub.database, if: { $0 === hub }) { await $0.close() }
                },
                open: { [hubs] in hubs.all },
                idle: IdleDatabases(kept: sessions.idleDatabases, patience: sessions.idlePatience),
                holds: { [self] in hold(of: $0) })
            try await jobs.run()
        }
        mount.background("databases of before") { [self] in await foldKnown() }
        mount.background("lag") { [self] in try await watchLag() }
        mount.background("lost histories") { [self] in
            for await hub in lost { await retire(hub, of: hub.database) }
        }
        if let system = authenticator.system { mountErasure(system, on: &mount) }
        mount.background("revocations") { [self] in await followRevocations() }
        // A signing key retires at a time, without a change of the system database.
        mount.background("rights") { [self] in
            while true {
                try await Task.sleep(for: rightsLook)
                await judgeSessions()
            }
        }
        mount.background("contact") { [self] in
            while true {
                try await Task.sleep(for: ServiceKit.Limits.contactLook)
                if let distrust { await endSessions(distrust) }
            }
        }
        mount.background("progress") { [self] in
            var (before, trimmed) = ([Offset](), [Offset]())
            while true {
                try await Task.sleep(for: Limits.progressInterval)
                let heads = hubs.all.map { $0.tellProgress() }.sorted()
                // A burst is over: what it has left free in between is the system's again.
                if heads == before, heads != trimmed {
                    FreeMemory.giveBack()
                    trimmed = heads
                }
                before = heads
            }
        }
    }

    /// The offset after which a backup needs a database's log; nil for none.
    private func hold(of database: DatabaseID) -> Offset? {
        authenticator.system?.directory.hold(of: database, nowSeconds: SystemClock.seconds())
    }

    /// Opens the databases that were folded here before, one after the other and beside the sessions, so that
    /// the first peer after a restart does not wait for the fold of later writes.
    private func foldKnown() async {
        do {
            let known = FoldedBefore.databases(in: materializations.folder, of: try await log.databases())
            for database in known.prefix(sessions.idleDatabases) where !Task.isCancelled {
                // A database that cannot be opened is whole in the log; its first peer tries again.
                _ = try? await hubs(database)
            }
        } catch {
            logger.warning("the databases of before are opened when their peers come: \(error)")
        }
    }

    /// Ends the sessions whose credentials were revoked, as soon as the system database says so.
    private func followRevocations() async {
        guard let changes = authenticator.changes else { return }
        for await _ in changes { await judgeSessions() }
    }

    /// The end of a session whose credential cannot be checked any more; its peer tries again, and behind a
    /// load balancer at another instance. Nil while credentials can be checked.
    var distrust: SyncError? {
        authenticator.distrust.map { SyncError(.unavailable, $0.message) }
    }

    private func endSessions(_ reason: SyncError) async {
        for hub in hubs.all {
            for end in await hub.endings() { end(reason) }
        }
    }

    func judgeSessions() async {
        for hub in hubs.all {
            await hub.changeRights { [authenticator] identity in
                authenticator.refusal(of: identity).map { .ended($0.message) } ?? .same
            }
        }
    }
}
