import Foundation

/// Runs seeds one after the other and tells what came of them.
struct Runner {
    let options: Options
    private(set) var failures = 0
    private var steps = 0
    private var events = 0
    private var virtual: UInt64 = 0

    init(_ options: Options) { self.options = options }

    private struct Outcome {
        let hash: UInt64
        let failure: String?
        let world: World
    }

    mutating func run() throws {
        let clock = ContinuousClock()
        let start = clock.now
        for (place, seed) in options.seeds.enumerated() {
            let first = try once(seed)
            steps += first.world.steps
            events += first.world.events
            virtual += first.world.now - first.world.beginning
            if let failure = first.failure {
                report(seed, place + 1, failure, first)
            } else if options.isChecked {
                let second = try once(seed)
                if second.hash != first.hash {
                    let failure = "two runs differ: \(hex(first.hash)) and \(hex(second.hash))"
                    report(seed, place + 1, failure, first)
                    Self.compare(first.world.trace, second.world.trace)
                }
            }
            if options.seeds.count == 1 || options.isVerbose {
                say(
                    "seed \(seed): \(first.world.steps) steps, trace \(hex(first.hash)), "
                        + "\(first.world.profile.faults); \(first.world.statistics)")
            }
            if failures > 0, options.endsAtFirst { break }
        }
        let seconds = (clock.now - start) / .seconds(1)
        let runs = Double(options.isChecked ? 2 : 1)
        say(
            "\(options.seeds.count) seeds, \(failures) failed; \(steps) steps (\(events) events), "
                + "\(Int(Double(steps) * runs / seconds)) steps/s; "
                + "\(virtual / 1_000) s of virtual time in \(Int(seconds * 10) / 10) s")
    }

    private func once(_ seed: UInt64) throws -> Outcome {
        let folder = "\(options.folder)/mimeo-simulation-\(getpid())"
        Files.remove(folder)
        defer { Files.remove(folder) }
        let world = try World(seed: seed, options: options, folder: folder)
        defer { world.end() }
        do {
            try world.run()
            return Outcome(hash: world.trace.hash, failure: nil, world: world)
        } catch {
            return Outcome(hash: world.trace.hash, failure: "\(error)", world: world)
        }
    }

    private mutating func report(_ seed: UInt64, _ count: Int, _ failure: String, _ outcome: Outcome) {
        failures += 1
        let world = outcome.world
        say(
            "FAILED seed \(seed) (the \(count). tried) at step \(world.steps), "
                + "event \(world.events): \(failure)")
        say("  faults \(world.profile.faults), \(world.peers.count) peers, trace \(hex(outcome.hash))")
        guard options.seeds.count == 1 else { return }
        for line in world.trace.lines.suffix(options.isVerbose ? .max : 60) {
            say("  \(line.step) \(line.milliseconds) ms: \(line.text)")
        }
    }

    /// Where two runs of one seed part.
    private static func compare(_ first: Trace, _ second: Trace) {
        for (left, right) in zip(first.lines, second.lines) where left.text != right.text {
            say("  first difference: \(left.step) \(left.text)")
            say("                    \(right.step) \(right.text)")
            return
        }
    }
}

func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
}

func hex(_ number: UInt64) -> String { String(number, radix: 16) }
