import Dispatch
import Foundation
import Logging
import Synchronization

/// The urgency of a message.
public enum DittoLogLevel: Int, Sendable {
    /// Something failed.
    case error = 1
    /// Something is probably unintended, or will fail.
    case warning
    /// An occasional event.
    case info
    /// Details for finding a cause.
    case debug
    /// Everything.
    case verbose
}

/// The SDK's log, for the whole process.
///
/// A message goes to the application's swift-log backend (standard error by default) and to the custom
/// callback if its level is at least `minimumLogLevel`. From `debug` on it also goes to files in the
/// persistence directory of its instance, whatever the minimum is. `export(to:)` collects these files.
public final class DittoLogger: Sendable {
    private init() {}

    /// True if anything is logged at all.
    public static var isEnabled: Bool {
        get { LogSettings.shared.isEnabled }
        set { LogSettings.shared.isEnabled = newValue }
    }

    /// The name of `isEnabled` up to 4.10.
    public static var enabled: Bool {
        get { isEnabled }
        set { isEnabled = newValue }
    }

    /// The least urgent level that is shown; the default is `info`. Until it is set, the swift-log backend
    /// uses its own level.
    public static var minimumLogLevel: DittoLogLevel {
        get { LogSettings.shared.minimum ?? .info }
        set { LogSettings.shared.minimum = newValue }
    }

    /// Calls a closure with each message that is shown, on the thread that logs it; nil removes it. The
    /// closure must not call the SDK.
    @preconcurrency public static func setCustomLogCallback(
        _ callback: (@Sendable (DittoLogLevel, String) -> Void)?
    ) {
        LogSettings.shared.callback = callback
    }

    /// Writes the log files of all open instances into one gzip file of JSON lines, oldest first within an
    /// instance. Returns its size in bytes.
    /// - Parameter url: a file that does not exist yet, in a directory that exists.
    /// - Throws: `ioError`: `.alreadyExists`, `.notFound` (the directory), `.permissionDenied`,
    ///   `.operationFailed`.
    @discardableResult
    public static func export(to url: URL) async throws -> UInt64 {
        do {
            return try await LogFiles.exporting.run { try LogExport.write(to: url) }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }
}

/// The application's log settings, and the files of the open instances. `state` guards all of it; nothing is
/// called while it is held.
final class LogSettings: Sendable {
    private struct State {
        var isEnabled = true
        var minimum: DittoLogLevel?
        var callback: (@Sendable (DittoLogLevel, String) -> Void)?
        var files: [LogFiles] = []
        var extra: ExtraLogFile?
        var hasHeadings = false
    }

    static let shared = LogSettings()
    private let state = Mutex(State())

    var isEnabled: Bool {
        get { state.withLock { $0.isEnabled } }
        set { state.withLock { $0.isEnabled = newValue } }
    }
    var minimum: DittoLogLevel? {
        get { state.withLock { $0.minimum } }
        set { state.withLock { $0.minimum = newValue } }
    }
    var callback: (@Sendable (DittoLogLevel, String) -> Void)? {
        get { state.withLock { $0.callback } }
        set { state.withLock { $0.callback = newValue } }
    }
    /// The file that the application named.
    var extra: ExtraLogFile? {
        get { state.withLock { $0.extra } }
        set { state.withLock { $0.extra = newValue } }
    }
    /// An option of 4.x that is kept and has no effect.
    var hasHeadings: Bool {
        get { state.withLock { $0.hasHeadings } }
        set { state.withLock { $0.hasHeadings = newValue } }
    }
    var files: [LogFiles] { state.withLock { $0.files } }

    func add(_ files: LogFiles) { state.withLock { $0.files.append(files) } }
    func remove(_ files: LogFiles) { state.withLock { $0.files.removeAll { $0 === files } } }
}

/// The SDK's swift-log backend: one per instance, in front of the application's backend.
struct SDKLogHandler: LogHandler {
    var metadata: Logging.Logger.Metadata = [:]
    private var console: any LogHandler
    private let files: LogFiles

    init(label: String, files: LogFiles) {
        console = Logging.Logger(label: label).handler
        self.files = files
    }

    /// The files also take messages that are not shown.
    var logLevel: Logging.Logger.Level {
        get { LogSettings.shared.minimum == .verbose ? .trace : .debug }
        set { console.logLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logging.Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let settings = LogSettings.shared
        guard settings.isEnabled else { return }
        let level = DittoLogLevel(event.level)
        let all = metadata.merging(event.metadata ?? [:]) { $1 }
        if level.rawValue <= DittoLogLevel.debug.rawValue {
            files.add(level, "\(event.message)", all)
        }
        let minimum = settings.minimum
        if minimum.map({ level.rawValue <= $0.rawValue }) ?? (event.level >= console.logLevel) {
            console.log(event: event)
        }
        if let extra = settings.extra, level.rawValue <= (minimum ?? .info).rawValue {
            extra.add(level, Self.text("\(event.message)", all))
        }
        if let callback = settings.callback, level.rawValue <= (minimum ?? .info).rawValue {
            callback(level, Self.text("\(event.message)", all))
        }
    }

    private static func text(_ message: String, _ metadata: Logging.Logger.Metadata) -> String {
        guard !metadata.isEmpty else { return message }
        let pairs = metadata.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        return message + " " + pairs.joined(separator: " ")
    }
}

extension DittoLogLevel {
    init(_ level: Logging.Logger.Level) {
        self =
            switch level {
            case .trace: .verbose
            case .debug: .debug
            case .info, .notice: .info
            case .warning: .warning
            case .error, .critical: .error
            }
    }

    var name: String {
        switch self {
        case .error: "error"
        case .warning: "warning"
        case .info: "info"
        case .debug: "debug"
        case .verbose: "verbose"
        }
    }
}
