/// Makes a failing history smaller: fewer things done, fewer kinds of misfortune, fewer peers, as long as
/// something still fails.
extension Runner {
    /// What a history is made of, besides its seed.
    private struct Size {
        var acts: Int
        var peers: Int
        var faults: Faults

        /// Smaller ones, the boldest first.
        var smaller: [Size] {
            var all: [Size] = []
            for acts in [acts / 2, acts * 3 / 4, acts - 5, acts - 1] where acts > 0 && acts < self.acts {
                all.append(Size(acts: acts, peers: peers, faults: faults))
            }
            for (fault, _) in Faults.names where faults.contains(fault) {
                all.append(Size(acts: acts, peers: peers, faults: faults.subtracting(fault)))
            }
            if peers > 1 { all.append(Size(acts: acts, peers: peers - 1, faults: faults)) }
            return all
        }

        var words: String { "--acts \(acts) --peers \(peers) --faults \(faults)" }
    }

    /// Tries at most so many histories; says how to run the smallest that fails, with its last events.
    mutating func shrink(_ seed: UInt64, attempts: Int = 300) throws {
        let first = try once(seed, keepsLines: false)
        guard let failure = first.failure else { return say("seed \(seed) does not fail") }
        say("seed \(seed): \(failure)")
        let profile = first.world.profile
        var best = Size(acts: profile.acts, peers: profile.peers, faults: profile.faults)
        var left = attempts
        search: while true {
            for candidate in best.smaller {
                guard left > 0 else { break search }
                left -= 1
                guard let failure = try attempt(candidate, seed).failure else { continue }
                best = candidate
                say("\(candidate.words): \(failure)")
                continue search
            }
            break
        }
        let smallest = try attempt(best, seed, keepsLines: true)
        report(seed, 1, smallest.failure ?? "it does not fail any more", smallest)
        say("SEED=\(seed) ARGS=\"\(best.words)\" make simulate")
    }

    private mutating func attempt(_ size: Size, _ seed: UInt64, keepsLines: Bool = false) throws -> Outcome {
        let before = options
        defer { options = before }
        options.acts = size.acts
        options.peers = size.peers
        options.faults = size.faults
        return try once(seed, keepsLines: keepsLines)
    }
}
