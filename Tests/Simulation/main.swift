import FaultDisk
import Glibc

// Sets of the standard library are ordered by a seed of the process unless this is set before it starts.
if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
    setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
    execv("/proc/self/exe", CommandLine.unsafeArgv)
    fatalError("cannot start again with deterministic hashing")
}
guard let options = Options(Array(CommandLine.arguments.dropFirst())) else {
    say("usage: \(Options.help)")
    exit(2)
}
if options.jobs > 1, options.seeds.count > 1 {
    var workers = Workers(options)
    workers.run()
    exit(workers.tally.failures == 0 ? 0 : 1)
}
FaultDisk.useOneThread()
Jobs.capture()
var runner = Runner(options)
do {
    if options.shrinks, let seed = options.seeds.first {
        try runner.shrink(seed)
    } else {
        try runner.run()
    }
} catch {
    say("the simulation itself failed: \(error)")
    exit(3)
}
exit(runner.tally.failures == 0 ? 0 : 1)
