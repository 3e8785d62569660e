import Foundation

/// Figures of the process from the operating system, read when somebody asks for them. Where the system does
/// not say them in a file, they are missing.
enum ProcessFigures {
    /// Sets the metrics `mimeo_budget_…` of what clients hold.
    static func measureBudgets() {
        for (kind, budget) in [("memory", ClientBudget.memory), ("disk", .disk)] {
            Measured.set("mimeo_budget_held_bytes", [("kind", kind)], Double(budget.used))
            Measured.set("mimeo_budget_bytes", [("kind", kind)], Double(budget.bytes))
        }
    }

    /// Sets the metrics `process_…`.
    static func measure() {
        if let bytes = residentBytes() { Measured.set("process_resident_memory_bytes", bytes) }
        if let files = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            Measured.set("process_open_fds", Double(files.count))
        }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            Measured.set("process_max_fds", Double(limit.rlim_cur))
        }
        var usage = rusage()
        if getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            PrometheusRegistry.shared.setCounter(
                "process_cpu_seconds_total", to: seconds(usage.ru_utime) + seconds(usage.ru_stime))
        }
        Measured.set("process_start_time_seconds", start)
    }

    /// Memory of the process that is not on disk; nil where the system does not say so in a file.
    static func residentBytes() -> Double? {
        guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8),
            let pages = text.split(separator: " ").dropFirst().first.flatMap({ Double($0) })
        else { return nil }
        return pages * Double(sysconf(Int32(_SC_PAGESIZE)))
    }

    private static func seconds(_ time: timeval) -> Double {
        Double(time.tv_sec) + Double(time.tv_usec) / 1e6
    }

    /// The start of the process: the kernel's ticks since the machine's start, and the machine's start.
    private static let start: Double = {
        guard let own = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let machine = try? String(contentsOfFile: "/proc/stat", encoding: .utf8),
            // The name of the program is in parentheses and may have blanks.
            let end = own.lastIndex(of: ")"),
            let ticks = own[end...].split(separator: " ").dropFirst(20).first.flatMap({ Double($0) }),
            let line = machine.split(separator: "\n").first(where: { $0.hasPrefix("btime ") }),
            let boot = Double(line.dropFirst("btime ".count))
        else { return 0 }
        return boot + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
    }()
}
