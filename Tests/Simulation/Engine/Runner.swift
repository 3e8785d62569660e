import Foundation

/// Runs seeds one after the other and tells what came of them.
struct Runner {
    var options: Options
    private(set) var tally = Tally()

    init(_ options: Options) { self.options = options }

    struct Outcome {
        let hash: UInt64
        let failure: String?
        let world: World
    }

    /// Each seed once, and again where the traces are to be compared.
    mutating func run() throws {
        let clock = ContinuousClock()
        let start = clock.now
        // One seed alone is looked at; of many, only those that fail.
        let isAlone = options.seeds.count == 1 && !options.isWorker
        for (place, seed) in options.seeds.enumerated() {
            if options.isWorker { say("\(Workers.beginning)\(seed)") }
            let first = try once(seed, keepsLines: isAlone)
            if let failure = first.failure {
                report(seed, place + 1, failure, first)
            } else if options.isChecked {
                let second = try once(seed, keepsLines: false)
                if second.hash != first.hash {
                    let failure = "two runs differ: \(hex(first.hash)) and \(hex(second.hash))"
                    report(seed, place + 1, failure, first)
                    try compare(seed)
                }
            }
            if isAlone || options.isVerbose {
                say(
                    "seed \(seed): \(first.world.steps) steps, trace \(hex(first.hash)), "
                        + "\(first.world.profile.faults); \(first.world.statistics)")
            }
            if tally.failures > 0, options.endsAtFirst { break }
        }
        tally.processorMilliseconds = Tally.processorTime
        if options.isWorker { return say("\(Workers.ending)\(tally.words)") }
        say(tally.summary(seeds: options.seeds.count, seconds: (clock.now - start) / .seconds(1)))
    }

    /// - Parameter keepsLines: whether events are put into words, which takes longer than the events.
    mutating func once(_ seed: UInt64, keepsLines: Bool) throws -> Outcome {
        let folder = "\(options.folder)/mimeo-simulation-\(getpid())"
        Files.remove(folder)
        defer { Files.remove(folder) }
        let world = try World(seed: seed, options: options, folder: folder, keepsLines: keepsLines)
        defer {
            world.end()
            tally.runs += 1
            if world.statistics.reaped > 0 { tally.reaping += 1 }
            tally.steps += world.steps
            tally.events += world.events
            tally.virtualSeconds += Int(world.now - world.beginning) / 1_000
        }
        do {
            try world.run()
            return Outcome(hash: world.trace.hash, failure: nil, world: world)
        } catch {
            return Outcome(hash: world.trace.hash, failure: "\(error)", world: world)
        }
    }

    mutating func report(_ seed: UInt64, _ count: Int, _ failure: String, _ outcome: Outcome) {
        tally.failures += 1
        let world = outcome.world
        say(
            "FAILED seed \(seed)\(options.shape) (the \(count). tried) at step \(world.steps), "
                + "event \(world.events): \(failure)")
        say("  faults \(world.profile.faults), \(world.peers.count) peers, trace \(hex(outcome.hash))")
        guard options.seeds.count == 1, !options.isWorker else { return }
        for line in world.trace.lines.suffix(options.isVerbose ? .max : 60) {
            say("  \(line.step) \(line.milliseconds) ms: \(line.text)")
        }
    }

    /// Where two runs of one seed part, if they do again.
    private mutating func compare(_ seed: UInt64) throws {
        let first = try once(seed, keepsLines: true).world.trace
        let second = try once(seed, keepsLines: true).world.trace
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
