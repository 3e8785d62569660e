import CAllocations
import Glibc

/// Prints what was measured, a line each.
struct Report {
    /// CPU time of this process in nanoseconds: a busy machine hurts it less than the wall clock.
    static func cpuNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    func line(_ name: String, _ value: Double, _ unit: String) {
        print("{\"name\": \"\(name)\", \"value\": \(value), \"unit\": \"\(unit)\"}")
    }

    /// The CPU time of a body, in nanoseconds.
    static func nanoseconds(_ body: () throws -> Void) rethrows -> Double {
        let start = cpuNanoseconds()
        try body()
        return Double(cpuNanoseconds() - start)
    }

    /// The median over five rounds of `count` runs each, in nanoseconds a run; `body` returns something that
    /// keeps the optimizer from leaving the work out.
    static func nanosecondsEach(_ count: Int, _ body: () throws -> Int) rethrows -> Double {
        var rounds: [Double] = []
        for _ in 0..<5 {
            var sink = 0
            let time = try nanoseconds {
                for _ in 0..<count { sink &+= try body() }
            }
            blackHole(sink)
            rounds.append(time / Double(count))
        }
        return rounds.sorted()[2]
    }

    /// How often a body asks for memory.
    static func allocations(_ body: () throws -> Int) rethrows -> Int {
        let start = allocation_count()
        blackHole(try body())
        return Int(allocation_count() - start)
    }
}

@inline(never)
func blackHole<Value>(_ value: Value) { withExtendedLifetime(value) {} }
