import TestSupport

@testable import CRDT

/// One step of a random history. Numbers are taken modulo what exists, so that a history with steps left
/// out is a history too: that is what shrinking needs.
enum Step: Sendable, CustomStringConvertible {
    /// A replica's transaction; its wall clock stands at `wall` milliseconds.
    case write(replica: Int, wall: UInt64, [Edit])
    /// The delta with this number reaches a replica; without its base the full state follows, as it was
    /// after the delta (`late`: as its author has it now).
    case deliver(delta: Int, replica: Int, late: Bool)
    /// A full state travels.
    case merge(from: Int, into: Int)
    /// A state as it was after some delta travels.
    case mergeOld(delta: Int, into: Int)
    /// A replica forgets the document and will write with another actor (rule 10).
    case evict(replica: Int)

    var description: String {
        switch self {
        case .write(let replica, let wall, let edits): "\(replica) writes at \(wall): \(edits)"
        case .deliver(let delta, let replica, let late):
            "\(replica) gets delta \(delta), else the \(late ? "current" : "old") state"
        case .merge(let from, let into): "\(into) merges \(from)"
        case .mergeOld(let delta, let into): "\(into) merges the state after delta \(delta)"
        case .evict(let replica): "\(replica) evicts"
        }
    }
}

/// A random history: what its seed says, or what shrinking left of it.
struct History: Sendable, CustomStringConvertible {
    static let actorLimit = 6
    let seed: UInt64
    let replicas: Int
    var steps: [Step]

    init(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        self.seed = seed
        replicas = 2 + random.below(4)
        var wall: UInt64 = 0
        steps = []
        for _ in 0..<(6 + random.below(24)) {
            wall += UInt64(random.below(3))
            let behind = UInt64(random.below(4))
            let replica = random.below(replicas)
            switch random.below(20) {
            case 0..<9:
                steps.append(.write(replica: replica, wall: wall - min(wall, behind), random.transaction()))
            case 9..<15:
                steps.append(
                    .deliver(delta: random.below(1 << 20), replica: replica, late: random.chance(50)))
            case 15..<18: steps.append(.merge(from: random.below(replicas), into: replica))
            case 18: steps.append(.mergeOld(delta: random.below(1 << 20), into: replica))
            default: steps.append(.evict(replica: replica))
            }
        }
    }

    var description: String {
        "seed \(seed), \(replicas) replicas\n" + steps.map { "  \($0)" }.joined(separator: "\n")
    }

    /// What fails in this history, nil when nothing does.
    func failure(_ sabotage: Sabotage? = nil) -> String? {
        var world = World(replicas: replicas, sabotage: sabotage)
        for (number, step) in steps.enumerated() {
            do { try world.perform(step) } catch { return "step \(number) (\(step)): \(error)" }
        }
        do { try world.checkLaws(SplitMix64(seed: seed)) } catch { return "at the end: \(error)" }
        return nil
    }

    /// A history that still fails, without the steps that do not matter.
    func shrunk(_ sabotage: Sabotage? = nil) -> History {
        var best = self
        var size = max(1, steps.count / 2)
        while true {
            var start = 0
            var hasShrunk = false
            while start < best.steps.count {
                var candidate = best
                candidate.steps.removeSubrange(start..<min(start + size, best.steps.count))
                if candidate.failure(sabotage) != nil {
                    best = candidate
                    hasShrunk = true
                } else {
                    start += size
                }
            }
            if size == 1, !hasShrunk { return best }
            size = max(1, size / 2)
        }
    }

    /// The first history of a range of seeds that fails, shrunk and described; nil when all hold.
    static func firstCounterexample(_ seeds: Range<UInt64>, _ sabotage: Sabotage? = nil) -> String? {
        for seed in seeds where History(seed: seed).failure(sabotage) != nil {
            let small = History(seed: seed).shrunk(sabotage)
            return "\(small.failure(sabotage) ?? "passes after shrinking")\n\(small)"
        }
        return nil
    }
}
