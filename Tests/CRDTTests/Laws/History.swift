import TestSupport

@testable import CRDT

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
        let places = (0..<1 + random.below(3)).map { _ in random.path() }
        // Some applications write the same INITIAL document at every launch, everywhere.
        if random.chance(20) {
            let seed = random.seed()
            for replica in 0..<replicas where random.chance(70) {
                steps.append(.write(number: replica, replica: replica, wall: 0, [seed]))
            }
        }
        for number in replicas..<replicas + 6 + random.below(24) {
            wall += UInt64(random.below(3))
            steps.append(History.step(&random, number: number, wall: wall, replicas: replicas, places))
        }
    }

    private static func step(
        _ random: inout SplitMix64, number: Int, wall: UInt64, replicas: Int, _ places: [[String]]
    ) -> Step {
        let behind = UInt64(random.below(4))
        let replica = random.below(replicas)
        let delta = random.below(number)
        switch random.below(40) {
        case 0..<18:
            let late = wall - min(wall, behind)
            return .write(number: number, replica: replica, wall: late, random.transaction(places))
        case 18..<30: return .deliver(delta: delta, replica: replica, late: random.chance(50))
        case 30..<36: return .merge(from: random.below(replicas), into: replica)
        case 36..<38: return .mergeOld(delta: delta, into: replica)
        case 38: return .evict(replica: replica)
        default: return .changeActor(replica: replica)
        }
    }

    var description: String {
        "seed \(seed), \(replicas) replicas\n" + steps.map { "  \($0)" }.joined(separator: "\n")
    }

    /// The first failure in this history; nil if there is none.
    func failure(_ sabotage: Sabotage? = nil) -> String? {
        var world = World(replicas: replicas, sabotage: sabotage)
        for (number, step) in steps.enumerated() {
            do { try world.perform(step) } catch { return "step \(number) (\(step)): \(error)" }
        }
        do { try world.checkLaws(SplitMix64(seed: seed)) } catch { return "at the end: \(error)" }
        return nil
    }

    /// A history that still fails, without the steps and statements that do not matter.
    func shrunk(_ sabotage: Sabotage? = nil) -> History {
        var best = self
        var size = max(1, steps.count / 2)
        while true {
            let before = best.steps.count
            best = best.withoutRuns(of: size, sabotage)
            if size == 1, best.steps.count == before { return best.withFewerStatements(sabotage) }
            size = max(1, size / 2)
        }
    }

    private func withoutRuns(of size: Int, _ sabotage: Sabotage?) -> History {
        var best = self
        var start = 0
        while start < best.steps.count {
            var candidate = best
            candidate.steps.removeSubrange(start..<min(start + size, best.steps.count))
            if candidate.failure(sabotage) != nil { best = candidate } else { start += size }
        }
        return best
    }

    private func withFewerStatements(_ sabotage: Sabotage?) -> History {
        var best = self
        var place = 0
        while place < best.steps.count {
            let smaller = best.steps[place].smaller.lazy.map { step in
                var candidate = best
                candidate.steps[place] = step
                return candidate
            }
            if let found = smaller.first(where: { $0.failure(sabotage) != nil }) {
                best = found
            } else {
                place += 1
            }
        }
        return best
    }

    /// The rest of a failing history after shrinking, with its failure.
    func report(_ sabotage: Sabotage? = nil) -> String {
        let small = shrunk(sabotage)
        return "\(small.failure(sabotage) ?? "passes after shrinking")\n\(small)"
    }

    /// The first of these seeds whose history fails; nil when all hold. Works on every core.
    static func firstFailure(_ seeds: Range<UInt64>, workers: Int, _ sabotage: Sabotage? = nil) async
        -> UInt64?
    {
        await withTaskGroup(of: UInt64?.self) { group in
            for worker in 0..<UInt64(workers) {
                group.addTask {
                    stride(from: seeds.lowerBound + worker, to: seeds.upperBound, by: workers)
                        .first { History(seed: $0).failure(sabotage) != nil }
                }
            }
            return await group.compactMap { $0 }.min()
        }
    }
}
