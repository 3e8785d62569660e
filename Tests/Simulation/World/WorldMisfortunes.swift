import CRDT
import Replica

/// What goes wrong, and how the world heals.
extension World {
    static let dayMilliseconds: Int64 = 86_400_000
    func misfortune() throws {
        guard !isHealing else { return }
        defer { schedule(.misfortune, in: pace(300, 4_000)) }
        let all = Faults.names.map(\.0).filter {
            profile.faults.contains($0) && $0 != .photos && $0 != .midRepairs
        }
        guard !all.isEmpty else { return }
        let fault = generator.pick(all)
        let peer = generator.pick(peers)
        switch fault {
        case .clocks:
            peer.skew = generator.pick([0, -Self.dayMilliseconds, Self.dayMilliseconds])
            note(30) { "the clock of peer \(peer.number) jumps to \(peer.skew)" }
        case .serverClocks:
            // What a server admits while its clock is ahead must bar nobody when that is over.
            serverSkew = generator.pick([0, UInt64(Self.dayMilliseconds)])
            note(41) { "the servers' clock jumps to \(serverSkew)" }
        case .rollBacks: try rollBack(peer)
        case .restores: if generator.chance(50) { try backUpLog() } else { try restoreLog() }
        case .partitions: partition(peer)
        case .restarts:
            if generator.chance(50) { try restart(peer) } else { restart(generator.pick(instances)) }
        case .rebuilds:
            let instance = generator.pick(instances)
            restart(instance) { try Materialization.discard(directory: instance.folder) }
        case .powerCuts:
            let disk = generator.chance(30) ? log.disk : peer.disk
            let calls = generator.below(80)
            note(36) { "a power cut comes in \(calls) calls" }
            disk.cutPower(duringCall: 1 + calls)
        case .clones where peers.count < 8 && generator.chance(30):
            note(37) { "peer \(peers.count) is a copy of peer \(peer.number)" }
            statistics.clones += 1
            try addPeer(peers.count, copyOf: peer)
        case .absences where generator.chance(20): stayAway(peer)
        case .grants: changeRights(peer)
        case .renewals: changeRights(peer, byToken: true)
        case .scopes: changeScopes(peer)
        default: break
        }
    }

    private func partition(_ peer: Peer) {
        guard let link = peer.link else { return }
        let until = now + delay(100, 20_000, slow: 60_000)
        let sides = generator.pick([[true], [false], [true, false]])
        for atServer in sides { link.end(atServer: atServer).blockedUntil = until }
        note(31, link, false) { "is partitioned \(sides) until \(until - beginning)" }
        guard generator.chance(40) else { return }
        // One end gives up before.
        schedule(.lost(link, atServer: generator.chance(50)), in: delay(1_000, 30_000, slow: 0))
    }

    // MARK: Peers

    /// A peer's process ends and starts again.
    func restart(_ peer: Peer, _ change: () throws -> Void = {}) throws {
        note(33) { "peer \(peer.number) is killed" }
        statistics.restarts += 1
        if let link = peer.link { kill(link, atServer: false) }
        peer.kept.message = nil
        try? peer.replica.close()
        if peer.disk.isOff { peer.disk.restart() }
        try change()
        peer.replica = try opened(peer)
        // What the application withholds it says anew, or forgets to.
        if !peer.withheld.isEmpty, generator.chance(30) { peer.withheld = [] }
        peer.replica.withhold(peer.withheld)
        do {
            try launch(peer)
        } catch {
            // The power went again in the midst of it: the machine starts once more.
            guard peer.disk.isOff else { throw error }
        }
        planConnect(peer, in: delay(0, 2_000, slow: 0))
    }

    /// A peer's store, opened; again where the power goes in the midst of that.
    private func opened(_ peer: Peer) throws -> PeerReplica {
        while true {
            do {
                return try PeerReplica(
                    directory: peer.folder, environment: environment(of: peer.number),
                    logger: Self.logger)
            } catch {
                guard peer.disk.isOff else { throw error }
                note(39) { "peer \(peer.number) loses its power while it starts" }
                statistics.cuts += 1
                peer.disk.restart()
            }
        }
    }

    /// A peer's machine starts again after its power went: what was stored is there.
    func bootAgain(_ peer: Peer) throws {
        note(38) { "peer \(peer.number) loses its power" }
        statistics.cuts += 1
        try restart(peer)
    }

    /// Keeps a copy of a store, to be put back later.
    func backUp(_ peer: Peer) throws {
        let backup = "\(folder)/peer-\(peer.number).backup"
        Files.remove(backup)
        try Files.copy(from: peer.folder, to: backup, prefix: "replica.sqlite", keepsInodes: false)
        peer.earlier = Peer.Backup(folder: backup, commits: peer.commits, repairedAt: peer.repairedAt)
        note(34) { "peer \(peer.number) is backed up" }
    }

    /// A store is put back to what it was; or what it is now is kept for later.
    private func rollBack(_ peer: Peer) throws {
        guard let earlier = peer.earlier else { return try backUp(peer) }
        let isInPlace = generator.chance(50)
        note(35) { "peer \(peer.number) is put back \(isInPlace ? "in place" : "from a copy")" }
        statistics.rollBacks += 1
        try noteRefusals(peer)
        forgetStamps(of: peer)
        try restart(peer) {
            peer.disk.restart()
            if !isInPlace { try Files.remove(in: peer.folder, prefix: "replica.sqlite") }
            try Files.copy(
                from: earlier.folder, to: peer.folder, prefix: "replica.sqlite", keepsInodes: isInPlace)
            peer.earlier = nil
            peer.commits = earlier.commits
            peer.repairedAt = earlier.repairedAt
            peer.stored = [:]
            peer.seenMarks = []
            peer.rollBacks += 1
            peer.isForgetful = true
            let kept = Set(earlier.commits.values)
            book.rolledBack(peer.number, kept: kept) { self.reference.marks.contains($0) }
        }
    }

    // MARK: Healing

    /// Everything works from now on, and everybody connects.
    func heal() {
        note(40) { "everything heals" }
        log.disk.sparePower()
        serverSkew = 0
        for peer in peers {
            peer.disk.sparePower()
            peer.isAwayUntil = 0
            peer.drift = 0
            if profile.faults.contains(.clocks) { peer.skew = generator.pick([0, peer.skew]) }
            if peer.link == nil {
                peer.isConnectPlanned = false
                planConnect(peer, in: delay(0, 500, slow: 0))
            }
            if profile.faults.contains(.scopes) { endScopes(peer) }
        }
        for link in links.values {
            link.near.blockedUntil = 0
            link.far.blockedUntil = 0
        }
    }
}
