import Replicator
import TestSupport

/// What goes wrong in a world besides a slow network and lost connections, which every world has.
struct Faults: OptionSet, CustomStringConvertible {
    let rawValue: Int

    /// The server goes on reading what a lost connection had brought.
    static let ghosts = Faults(rawValue: 1)
    /// Applications write what they may not.
    static let refusals = Faults(rawValue: 2)
    /// Clocks jump by a day, drift, and run apart.
    static let clocks = Faults(rawValue: 4)
    /// Stores are put back to an earlier state, in place or from a copy.
    static let rollBacks = Faults(rawValue: 8)
    /// The server's log is put back to an earlier state.
    static let restores = Faults(rawValue: 16)
    /// One direction of a connection, or both, holds everything back for a while.
    static let partitions = Faults(rawValue: 32)
    /// Peers and replicators are started again in the midst of whatever they do.
    static let restarts = Faults(rawValue: 64)
    /// Replicators lose their materialization.
    static let rebuilds = Faults(rawValue: 128)
    /// Peers are away for days.
    static let absences = Faults(rawValue: 256)
    /// The power goes, in the midst of any call of any disk: what was not synced is lost in part.
    static let powerCuts = Faults(rawValue: 512)
    /// Replicators write snapshots of the log and truncate it.
    static let truncations = Faults(rawValue: 2_048)
    /// Stores are copied, and both go on.
    static let clones = Faults(rawValue: 1_024)
    /// Replicators forget old deletions.
    static let reaping = Faults(rawValue: 4_096)
    /// Rights to read and to write come and go while sessions run.
    static let grants = Faults(rawValue: 8_192)
    /// Applications withhold collections from the server, and release them (sync scopes).
    static let scopes = Faults(rawValue: 16_384)
    /// Rights change with a newer token that a peer sends in the midst of a session.
    static let renewals = Faults(rawValue: 32_768)

    /// Documents too large for one message, which come in parts.
    static let photos = Faults(rawValue: 65_536)
    /// The servers' clock jumps a day ahead, and back.
    static let serverClocks = Faults(rawValue: 131_072)
    /// A store is backed up right before it performs a repair, to be put back after it.
    static let midRepairs = Faults(rawValue: 262_144)

    static let names: [(Faults, String)] = [
        (.ghosts, "ghosts"), (.refusals, "refusals"), (.clocks, "clocks"), (.rollBacks, "rollbacks"),
        (.restores, "restores"), (.partitions, "partitions"), (.restarts, "restarts"),
        (.rebuilds, "rebuilds"), (.absences, "absences"),
        (.powerCuts, "cuts"), (.clones, "clones"), (.truncations, "truncations"),
        (.reaping, "reaping"), (.grants, "grants"), (.scopes, "scopes"), (.renewals, "renewals"),
        (.photos, "photos"), (.serverClocks, "serverclocks"), (.midRepairs, "midrepairs"),
    ]

    /// Some of the faults, as the seed says: a fault that is never alone hides others.
    static func drawn(_ generator: inout SplitMix64, from all: Faults) -> Faults {
        var faults: Faults = []
        for (fault, _) in names where all.contains(fault) && !asked.contains(fault) {
            let isRare = Faults([.rollBacks, .restores, .clocks, .clones]).contains(fault)
            let percent = fault == .photos ? 10 : latest.contains(fault) ? 25 : isRare ? 20 : 45
            if generator.chance(percent) { faults.insert(fault) }
        }
        return faults
    }

    /// Those that came later: drawn apart, so that the worlds without them stayed what they were.
    static let late: Faults = [.reaping, .grants]
    /// Those that came after these, with a number under which no world of `seeds.txt` has them.
    static let latest: Faults = [.scopes, .renewals, .photos]

    /// No seed draws these; small worlds have them, and worlds that are asked for them.
    static let asked: Faults = [.serverClocks, .midRepairs]

    /// The faults of small worlds, one set a seed. One kind of fault alone shows what others would hide.
    static let small: [Faults] = [
        [], [.ghosts], [.refusals, .ghosts], [.clocks, .serverClocks, .ghosts],
        [.rollBacks, .midRepairs, .ghosts], [.restores], [.reaping, .ghosts], [.grants, .ghosts],
        [.restores, .rollBacks, .midRepairs, .refusals, .clocks, .ghosts, .reaping, .grants],
    ]

    init(rawValue: Int) { self.rawValue = rawValue }

    /// From names with commas between.
    init?(names list: String) {
        self = []
        for word in list.split(separator: ",") where word != "none" {
            guard let found = Self.names.first(where: { $0.1 == word }) else { return nil }
            insert(found.0)
        }
    }

    var description: String {
        let found = Self.names.filter { contains($0.0) }.map(\.1)
        return found.isEmpty ? "none" : found.joined(separator: ",")
    }
}

/// How large a world is, and what goes wrong in it.
struct Profile {
    var peers: Int
    var instances: Int
    /// Things that applications do before the world heals.
    var acts: Int
    var faults: Faults
    /// How long a deletion is remembered, in milliseconds: peers stay away for half to three times of it.
    var timeToLive: Int
    /// The seeds up to this one are what they were when the first of them were kept. Most of the later worlds
    /// reap deletions while peers still hold what was deleted.
    static let lastOfFirst: UInt64 = 100_000
    /// Whether deletions are reaped before most of the others have heard of them.
    var reapsSoon: Bool { timeToLive < 4_000 }
    /// How uploads are divided: in half of the worlds into parts of few operations, with folding far behind.
    var bounds = AdmissionBounds()
    /// Whether who follows the log is brought what was appended: in half of the worlds.
    var bringsEntries: Bool

    /// As the seed says, except for what was asked for.
    init(_ generator: inout SplitMix64, seed: UInt64, _ options: Options) {
        peers = 2 + generator.below(4)
        instances = 1 + generator.below(2)
        faults = Faults.drawn(&generator, from: Faults(rawValue: .max).subtracting([.late, .latest]))
        acts = 120 + generator.below(120)
        var later = SplitMix64(seed: seed ^ 0x6D69_6D65_6F21)
        faults.formUnion(.drawn(&later, from: .late))
        var latest = SplitMix64(seed: seed ^ 0x6C_6174_69A3)
        faults.formUnion(.drawn(&latest, from: .latest))
        if options.isSmall {
            peers = 2 + Int(seed % 2)
            acts = 25 + Int(seed % 30)
            faults = Faults.small[Int(seed % UInt64(Faults.small.count))]
        }
        if let wanted = options.acts { acts = wanted }
        if let wanted = options.peers { peers = wanted }
        if let wanted = options.faults { faults = wanted }
        var parts = SplitMix64(seed: seed ^ 0x70_6172_7473)
        if parts.chance(50) {
            bounds.partBytes = 1 + parts.below(600)
            bounds.aheadBytes = parts.below(4_000)
            bounds.unfoldedBytes = bounds.aheadBytes + parts.below(4_000)
        }
        var brought = SplitMix64(seed: seed ^ 0x62_726F_7567)
        bringsEntries = brought.chance(50)
        let days = 86_400_000
        timeToLive = faults.contains(.reaping) ? later.pick([4_000, 15_000, 7 * days]) : 7 * days
        var reaping = SplitMix64(seed: seed ^ 0x7265_6170)
        guard seed > Self.lastOfFirst, options.faults == nil, reaping.chance(90) else { return }
        faults.insert(.reaping)
        timeToLive = reaping.pick(options.isSmall ? [100, 400] : [400, 1_500, 4_000])
    }
}
