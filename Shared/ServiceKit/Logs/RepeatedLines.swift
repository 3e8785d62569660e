import Logging

/// Leaves out warnings and errors that repeat: in an outage each request has one, and they would hide all
/// else and fill the disk.
///
/// Lines are the same if service, level, message and `status` are; their other fields may differ. The first
/// `Limits.repeatedLines` of a window are written, and how many were left out once it has ended. A line of
/// the audit is never left out: while the log of operations is away, it is the only one of its action.
struct RepeatedLines: Sendable {
    private struct Key: Hashable {
        var service: String
        var level: Logger.Level
        var message: String
        /// The status of a request that failed: one of another kind would be lost among many of an outage.
        var status: String?

        init(_ line: LogLine) {
            (service, level, message) = (line.service, line.level, line.message)
            status = line.fields["status"].map { "\($0)" }
        }
    }

    private struct Window {
        let start: ContinuousClock.Instant
        var count = 0
        /// The latest line that was left out.
        var latest: LogLine?
        var leftOut: Int { max(0, count - Limits.repeatedLines) }

        func hasEnded(_ now: ContinuousClock.Instant) -> Bool { now - start >= Limits.repeatWindow }
    }

    /// The fate of a line.
    enum Verdict {
        case isWritten
        /// It is the first one of its window that is left out: somebody must ask for `ended` after it.
        case isFirstLeftOut
        case isLeftOut
    }

    private var windows: [Key: Window] = [:]

    /// Counts a line.
    mutating func take(_ line: LogLine, at now: ContinuousClock.Instant) -> Verdict {
        // A critical line is never one of many.
        guard line.level == .warning || line.level == .error, line.message != AuditEntry.lineMessage
        else { return .isWritten }
        let key = Key(line)
        if windows[key] == nil {
            if windows.count >= Limits.repeatWindows {
                windows = windows.filter { !$0.value.hasEnded(now) || $0.value.leftOut > 0 }
            }
            guard windows.count < Limits.repeatWindows else { return .isWritten }
        }
        var window = windows[key] ?? Window(start: now)
        // `ended`, which comes first, tells of a window that has left lines out.
        if window.hasEnded(now), window.leftOut == 0 { window = Window(start: now) }
        window.count += 1
        if window.leftOut > 0 { window.latest = line }
        windows[key] = window
        return window.leftOut == 0 ? .isWritten : window.leftOut == 1 ? .isFirstLeftOut : .isLeftOut
    }

    /// The lines that tell of windows that have ended, each once.
    mutating func ended(at now: ContinuousClock.Instant) -> [LogLine] {
        var lines: [LogLine] = []
        for (key, window) in windows where window.leftOut > 0 && window.hasEnded(now) {
            windows[key] = nil
            guard var line = window.latest else { continue }
            line.message += " (and \(window.leftOut) more of these lines, which were left out)"
            line.fields = line.fields.filter { $0.key == "status" }
            line.fields["count"] = "\(window.leftOut)"
            lines.append(line)
        }
        return lines.sorted { $0.milliseconds < $1.milliseconds }
    }
}
