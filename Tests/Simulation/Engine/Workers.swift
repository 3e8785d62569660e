import Glibc

/// Runs the seeds in several processes at once, each with every n-th of them: a simulation has one thread.
///
/// A process that ends by itself (a precondition of the shipped code, say) fails the seed it was at, and
/// another one goes on behind it.
struct Workers {
    private struct Worker {
        var process: pid_t = 0
        /// What it writes comes out here.
        var output: Int32 = -1
        var line: [UInt8] = []
        /// The seeds that it has not begun, and the one that it is at.
        var seeds: ArraySlice<UInt64>
        var current: UInt64?
        var isDone = false
    }

    let options: Options
    private(set) var tally = Tally()
    private var workers: [Worker] = []
    private var isEnding = false

    /// How a worker tells of the seed that it begins, and what came of all.
    static let beginning = "@seed "
    static let ending = "@tally "

    init(_ options: Options) { self.options = options }

    /// Runs all seeds; the failures are in `tally`.
    mutating func run() {
        let clock = ContinuousClock()
        let start = clock.now
        for place in 0..<options.jobs {
            let seeds = stride(from: place, to: options.seeds.count, by: options.jobs)
            workers.append(Worker(seeds: ArraySlice(seeds.map { options.seeds[$0] })))
            launch(place)
        }
        while workers.contains(where: { !$0.isDone }) { listen() }
        say(tally.summary(seeds: options.seeds.count, seconds: (clock.now - start) / .seconds(1)))
    }

    private mutating func launch(_ place: Int) {
        guard !workers[place].seeds.isEmpty, !isEnding else { return workers[place].isDone = true }
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0, fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 else {
            preconditionFailure("no pipe: \(errno)")
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        let words = options.workerWords(for: Array(workers[place].seeds))
        var arguments: [UnsafeMutablePointer<CChar>?] = ([CommandLine.arguments[0]] + words).map {
            strdup($0)
        }
        arguments.append(nil)
        defer { for argument in arguments { free(argument) } }
        var process: pid_t = 0
        let code = posix_spawn(&process, "/proc/self/exe", &actions, nil, arguments, environ)
        precondition(code == 0, "a simulation cannot start another: \(code)")
        close(ends[1])
        workers[place].process = process
        workers[place].output = ends[0]
        workers[place].current = nil
    }

    /// Waits for what any worker writes, and takes note of it.
    private mutating func listen() {
        let running = workers.indices.filter { !workers[$0].isDone }
        var polled = running.map { pollfd(fd: workers[$0].output, events: Int16(POLLIN), revents: 0) }
        guard poll(&polled, nfds_t(polled.count), -1) > 0 else { return }
        for (place, entry) in zip(running, polled) where entry.revents != 0 {
            var bytes = [UInt8](repeating: 0, count: 65_536)
            let count = read(entry.fd, &bytes, bytes.count)
            if count > 0 {
                for byte in bytes[..<count] { take(byte, place) }
            } else {
                finish(place)
            }
        }
    }

    private mutating func take(_ byte: UInt8, _ place: Int) {
        guard byte == UInt8(ascii: "\n") else { return workers[place].line.append(byte) }
        let line = String(decoding: workers[place].line, as: UTF8.self)
        workers[place].line = []
        if line.hasPrefix(Self.beginning) {
            workers[place].current = UInt64(line.dropFirst(Self.beginning.count))
            workers[place].seeds.removeFirst()
        } else if line.hasPrefix(Self.ending) {
            tally += Tally(words: line.dropFirst(Self.ending.count)) ?? Tally()
            workers[place].current = nil
            workers[place].seeds = []
        } else {
            say(line)
            if line.hasPrefix("FAILED"), options.endsAtFirst { isEnding = true }
        }
    }

    /// A worker's output has ended: it is done, or it has died.
    private mutating func finish(_ place: Int) {
        close(workers[place].output)
        var status: Int32 = 0
        waitpid(workers[place].process, &status, 0)
        Files.remove("\(options.folder)/mimeo-simulation-\(workers[place].process)")
        if let seed = workers[place].current {
            say(
                "FAILED seed \(seed)\(options.shape): the simulation ended itself (status \(status)); "
                    + "run this seed alone"
            )
            tally.failures += 1
        } else if !workers[place].seeds.isEmpty {
            say("FAILED: a simulation ended before its first seed (status \(status))")
            tally.failures += 1
            workers[place].seeds = []
        }
        launch(place)
    }
}

/// What came of some seeds.
struct Tally {
    var failures = 0
    var steps = 0
    var events = 0
    var virtualSeconds = 0
    /// Processor time, the kernel's included.
    var processorMilliseconds = 0
    /// How many seeds were run, each twice where traces are compared.
    var runs = 0
    /// How many of the runs reaped deletions.
    var reaping = 0

    init() {}

    init?(words: Substring) {
        let numbers = words.split(separator: " ").compactMap { Int($0) }
        guard numbers.count == 7 else { return nil }
        failures = numbers[0]
        steps = numbers[1]
        events = numbers[2]
        virtualSeconds = numbers[3]
        processorMilliseconds = numbers[4]
        runs = numbers[5]
        reaping = numbers[6]
    }

    var words: String {
        [failures, steps, events, virtualSeconds, processorMilliseconds, runs, reaping].map(String.init)
            .joined(separator: " ")
    }

    static func += (left: inout Tally, right: Tally) {
        left.failures += right.failures
        left.steps += right.steps
        left.events += right.events
        left.virtualSeconds += right.virtualSeconds
        left.processorMilliseconds += right.processorMilliseconds
        left.runs += right.runs
        left.reaping += right.reaping
    }

    /// In words. Steps count as often as they were run.
    func summary(seeds: Int, seconds: Double) -> String {
        let processor = Double(processorMilliseconds) / 1_000
        return "\(seeds) seeds in \(runs) runs, \(failures) failed, \(reaping) reaped; "
            + "\(steps) steps (\(events) events), "
            + "\(Int(Double(steps) / seconds)) steps/s, \(Int(Double(steps) / processor)) per second of a "
            + "processor; \(virtualSeconds) s of virtual time in \(Int(seconds * 10) / 10) s"
    }

    /// Processor time of this process so far.
    static var processorTime: Int {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Int(time.tv_sec) * 1_000 + Int(time.tv_nsec) / 1_000_000
    }
}
