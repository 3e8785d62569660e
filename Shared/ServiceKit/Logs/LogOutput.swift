import Foundation
import Logging
import Machine
import Synchronization

/// The place of all log lines of this process: their form, the level of each service, and the latest of them.
///
/// A service's level is that of the process (`LOG_LEVEL`), or the one that an operator has set for a time. A
/// line that is below its level costs one atomic read. `state` guards the overriding levels and the kept
/// lines; a line is written with one call, so lines of different threads do not mix.
public final class LogOutput: Sendable {
    /// The output of this process.
    public static let shared = LogOutput { writeToStandardError($0) }

    /// The forms of a line.
    public enum Form: String, Sendable, CaseIterable {
        /// For people.
        case text
        /// An object of JSON.
        case json
    }

    private struct Override {
        var level: Logger.Level
        var end: ContinuousClock.Instant
    }

    private struct State {
        var form = Form.text
        var overrides: [String: Override] = [:]
        var lines: [String] = []
        var repeated = RepeatedLines()
    }

    /// The level that handlers of one label have now, as its rank.
    final class Target: Sendable {
        fileprivate let rank: Atomic<Int>
        fileprivate init(_ level: Logger.Level) { rank = Atomic(LogOutput.rank(level)) }
        var level: Logger.Level { Logger.Level.allCases[rank.load(ordering: .relaxed)] }
    }

    private let state = Mutex(State())
    private let targets = Mutex<[String: Target]>([:])
    private let usual = Atomic(LogOutput.rank(.info))
    /// True while a level is set for a time, so that most requests need no lock.
    private let overridden = Atomic(false)
    private let sink: @Sendable ([UInt8]) -> Void
    private let now: @Sendable () -> ContinuousClock.Instant

    init(
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sink: @escaping @Sendable ([UInt8]) -> Void
    ) {
        (self.now, self.sink) = (now, sink)
    }

    /// The form of the lines from now on.
    public var form: Form {
        get { state.withLock { $0.form } }
        set { state.withLock { $0.form = newValue } }
    }

    /// The level of services for which no other is set.
    public var level: Logger.Level {
        get { Logger.Level.allCases[usual.load(ordering: .relaxed)] }
        set {
            usual.store(Self.rank(newValue), ordering: .relaxed)
            settle()
        }
    }

    /// Sets the level of a service for a time; the process's own comes back by itself.
    func set(_ level: Logger.Level, of label: String, for duration: Duration) {
        let end = now() + duration
        state.withLock { $0.overrides[label] = Override(level: level, end: end) }
        _ = target(label)
        settle()
        Task { [weak self] in
            try? await Task.sleep(for: duration)
            self?.settle()
        }
    }

    /// The level of a service now, and how long it stays; nil for good.
    func level(of label: String) -> (level: Logger.Level, rest: Duration?) {
        settle()
        guard let found = state.withLock({ $0.overrides[label] }) else { return (level, nil) }
        return (found.level, max(.zero, found.end - now()))
    }

    /// The level that is set for a service for a time; nil if none is.
    func changed(of label: String) -> Logger.Level? {
        guard overridden.load(ordering: .relaxed) else { return nil }
        return state.withLock { $0.overrides[label]?.level }
    }

    /// The latest lines, the oldest first.
    func lines(limit: Int) -> [String] { state.withLock { Array($0.lines.suffix(limit)) } }

    /// The level that handlers of a label look at.
    func target(_ label: String) -> Target {
        let level = state.withLock { $0.overrides[label]?.level } ?? level
        return targets.withLock { targets in
            if let known = targets[label] { return known }
            let made = Target(level)
            targets[label] = made
            return made
        }
    }

    /// Forgets levels whose time is over, and tells the handlers.
    private func settle() {
        let (now, usual) = (now(), level)
        let overrides = state.withLock { state in
            state.overrides = state.overrides.filter { $0.value.end > now }
            return state.overrides
        }
        overridden.store(!overrides.isEmpty, ordering: .relaxed)
        targets.withLock { targets in
            for (label, target) in targets {
                target.rank.store(Self.rank(overrides[label]?.level ?? usual), ordering: .relaxed)
            }
        }
    }

    func write(_ line: LogLine) {
        let now = now()
        let (texts, isFirst) = state.withLock { state in
            var lines = state.repeated.ended(at: now)
            let verdict = state.repeated.take(line, at: now)
            if case .isWritten = verdict { lines.append(line) }
            let texts = lines.map { Self.keep($0, &state) }
            if case .isFirstLeftOut = verdict { return (texts, true) }
            return (texts, false)
        }
        for text in texts { sink(Array((text + "\n").utf8)) }
        guard isFirst else { return }
        Task { [weak self] in
            try? await Task.sleep(for: Limits.repeatWindow)
            self?.tellLeftOut()
        }
    }

    /// Tells of the lines that were left out until now.
    func tellLeftOut() {
        let now = now()
        let texts = state.withLock { state in
            state.repeated.ended(at: now).map { Self.keep($0, &state) }
        }
        for text in texts { sink(Array((text + "\n").utf8)) }
    }

    /// The text of a line, which is among the latest from now on.
    private static func keep(_ line: LogLine, _ state: inout State) -> String {
        let text = state.form == .json ? line.json : line.text
        let isLong = text.utf8.count > Limits.keptLineBytes
        let kept = isLong ? "\(text.prefix(Limits.keptLineBytes / 4))…" : text
        state.lines.append(kept)
        // Moves the rest once in many lines.
        if state.lines.count >= 2 * Limits.keptLines { state.lines.removeFirst(Limits.keptLines) }
        return text
    }

    fileprivate static func rank(_ level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 2
    }
}

/// Best effort: a log that cannot be written must not end the server.
private func writeToStandardError(_ line: [UInt8]) {
    line.withUnsafeBytes { bytes in
        var written = 0
        while written < bytes.count {
            let count = write(STDERR_FILENO, bytes.baseAddress.map { $0 + written }, bytes.count - written)
            guard count > 0 || errno == EINTR else { return }
            written += max(0, count)
        }
    }
}

/// A log handler that writes to a `LogOutput`.
public struct ServiceLogHandler: LogHandler {
    private let label: String
    private let output: LogOutput
    private let target: LogOutput.Target
    private var own: Logger.Level?
    /// The fields of every line.
    public var metadata: Logger.Metadata = [:]

    /// A handler of a label, which is the service's name.
    public init(label: String, output: LogOutput = .shared) {
        (self.label, self.output) = (label, output)
        target = output.target(label)
    }

    /// The level of the service, unless this handler has one of its own.
    public var logLevel: Logger.Level {
        get { own ?? target.level }
        set { own = newValue }
    }

    /// A field of every line.
    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes a line.
    public func log(event: LogEvent) {
        let fields = event.metadata.map { metadata.merging($0) { _, new in new } } ?? metadata
        output.write(
            LogLine(
                milliseconds: Int64(clamping: SystemClock.milliseconds()), level: event.level,
                service: label, message: "\(event.message)", source: event.source, fields: fields))
    }
}
