import Replicator

/// The shipped housekeeper's turns: reaping, snapshots, truncation.
extension World {
    /// A replicator's turn, and the next one later.
    func housekeep(_ instance: Instance) {
        guard !isHealing else { return }
        defer { schedule(.housekeep(instance), in: profile.reapsSoon ? pace(150, 900) : pace(1_000, 6_000)) }
        guard let hub = instance.hub else { return }
        let reaps = profile.faults.contains(.reaping) && generator.chance(60)
        let housekeeper = Housekeeper(
            materializer: hub.materializer, log: log, database: SimulatedLog.database,
            options: housekeepingOptions(), logger: Self.logger,
            wallMilliseconds: { [unowned self] in now })
        let lifetime = instance.lifetime
        let earlier = instance.housekeeping
        instance.housekeeping = Task { [self] in
            await earlier?.value
            guard instance.lifetime == lifetime else { return }
            if await hub.materializer.hasLostHistory {
                instance.housekeeping = nil
                return restart(instance)
            }
            do {
                let report = try await housekeeper.turn(reaps: reaps)
                guard let reaped = report?.reaped, reaped > 0 else { return }
                statistics.reaped += reaped
                note(42) { "replicator \(instance.number) has reaped \(reaped)" }
            } catch {
                // Its process has ended, or the log's machine has, or the other replicator was faster.
                let isBeaten = ["LOG-0106", "LOG-0302"].contains { "\(error)".contains($0) }
                guard instance.lifetime == lifetime, !error.isLogGone, !isBeaten else { return }
                fail(Violation("the housekeeping of replicator \(instance.number) failed: \(error)"))
            }
        }
    }

    private func housekeepingOptions() -> HousekeepingOptions {
        var options = HousekeepingOptions()
        options.tombstoneTimeToLive = .milliseconds(profile.timeToLive)
        let truncates = profile.faults.contains(.truncations)
        options.snapshotOperations = truncates ? UInt64(5 + generator.below(30)) : nil
        // So many that a replicator which folds late is seldom overtaken: that one has to be started again.
        options.keptOperations = UInt64(50 + generator.below(40))
        return options
    }

    /// Between two bounds; while nobody does anything for days, a few times in all of them.
    func pace(_ low: Int, _ high: Int) -> UInt64 {
        let usual = delay(low, high, slow: 0)
        return quietUntil > now + usual ? min(quietUntil - now, (quietUntil - now) / 6 + usual) : usual
    }

    // MARK: Peers that stay away

    /// A peer is away for half to three times of what a deletion is remembered; now and then all the
    /// others do nothing meanwhile, so that time passes.
    func stayAway(_ peer: Peer) {
        let times = 0.5 + 2.5 * Double(generator.below(1_000)) / 1_000
        let length = UInt64(times * Double(profile.timeToLive))
        peer.isAwayUntil = now + length
        statistics.absences += 1
        note(32) { "peer \(peer.number) is away for \(times) of the time to live" }
        if let link = peer.link { cut(link) }
        if profile.faults.contains(.reaping), generator.chance(50) {
            quietUntil = max(quietUntil, now + length / UInt64(1 + generator.below(3)))
            note(43) { "all is quiet until \(quietUntil - beginning) ms" }
        }
    }
}
