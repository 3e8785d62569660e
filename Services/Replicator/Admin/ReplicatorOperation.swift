import CRDT
import Exchange
import Identity
import Logging
import OperationLog
import ServiceKit
import Sync

extension ReplicatorPart {
    /// Not ready while it drains, while the log takes no writes, and while every open database is behind.
    public func readiness() async -> [Unreadiness] {
        if isDraining {
            return [
                Unreadiness(
                    part: name, code: ReplicatorError.draining.publicCode,
                    message: "the replicator drains: sessions go to other instances")
            ]
        }
        if let refusal = log.status.refusal { return [.ofLog(name, code: refusal.code.rawValue)] }
        var failures: [Bool] = []
        for hub in hubs.all {
            let isFailing = await hub.materializer.failure != nil
            failures.append(isFailing ? await !hub.materializer.hasLostHistory : false)
        }
        return Unreadiness.ofFolds(name, failures: failures, lag: foldLag)
    }

    /// Compares folds with the log's heads, until the task is cancelled.
    func watchLag() async throws {
        try await foldLag.run(
            open: { [hubs] in hubs.all.map(\.database) },
            look: { [self] database in
                guard let hub = openHub(of: database) else { return nil }
                let head = try await log.head(of: database).offset
                return (head, await hub.materializer.position.offset)
            })
    }

    /// Tells lags, sessions and what waits for peers.
    public func measure() async {
        foldLag.measure("mimeo_fold_lag")
        var (waiting, catchingUp, live) = (0, 0, 0)
        for hub in hubs.all {
            let reports = await hub.sessionReports()
            waiting += reports.reduce(0) { $0 + $1.load.unsentBytes }
            let behind = reports.filter { $0.load.catchingUp > 0 }.count
            (catchingUp, live) = (catchingUp + behind, live + reports.count - behind)
            guard let slowest = reports.map(\.offset).min(),
                let head = try? await log.head(of: hub.database).offset
            else { continue }
            sessionLag.note(hub.database, head: head, folded: min(slowest, head))
        }
        sessionLag.keep(only: hubs.all.map(\.database))
        sessionLag.measure("mimeo_sync_lag")
        Measured.set("mimeo_sync_queue_bytes", Double(waiting))
        Measured.set("mimeo_sync_sessions", [("state", "catching_up")], Double(catchingUp))
        Measured.set("mimeo_sync_sessions", [("state", "live")], Double(live))
    }
}

// MARK: Sessions in the log

extension ReplicatorPart {
    /// The first of a session's two lines, which have the same name. Nothing is kept between them: there may
    /// be many sessions.
    func noteStart(of number: UInt64, _ identity: Identity) {
        Measured.count("mimeo_sync_session_starts_total")
        logger.info("a session begins", metadata: fields(of: number, identity))
    }

    /// The second line: the reason of the end, and how long the session was open.
    func noteEnd(
        of number: UInt64, _ identity: Identity, since start: ContinuousClock.Instant, _ reason: SyncError
    ) {
        // The other side may send any code.
        let label = SyncErrorCode(rawValue: reason.code) == nil ? "other" : reason.code
        Measured.count("mimeo_sync_session_ends_total", [("reason", label)])
        let more: Logger.Metadata = [
            "code": "\(reason.code)", "reason": "\(reason.message)",
            "duration_ms": "\(Int64((ContinuousClock.now - start) / .milliseconds(1)))",
        ]
        logger.info("a session ended", metadata: fields(of: number, identity).merging(more) { _, new in new })
    }

    private func fields(of number: UInt64, _ identity: Identity) -> Logger.Metadata {
        var fields: Logger.Metadata = [
            "session": "\(names.name(of: number))", "database": "\(identity.databaseID)",
        ]
        // Enough to tell peers apart; a user's name is nobody's business in a log.
        if let peer = identity.peerKey { fields["peer"] = "\(peer.prefix(8))" }
        return fields
    }
}
