import ArgumentParser
import CCrashEnd
import Foundation
import Logging
import ServiceLifecycle
import UnixSignals

/// Entry point that the `main.swift` of every service calls.
public enum ServiceMain {
    /// Parses the command line, runs the command and ends the process: 0 after an orderly end, 2 for wrong
    /// flags, 1 for everything else. Messages and the log go to stderr; `LOG_LEVEL` sets the log's level,
    /// from trace to critical.
    public static func run<Command: AsyncParsableCommand>(_ command: Command.Type) async -> Never {
        FreeMemory.keepLittle()
        bootstrap()
        raiseFileLimit()
        do {
            var parsed = try command.parseAsRoot()
            if var parsed = parsed as? any AsyncParsableCommand {
                try await parsed.run()
            } else {
                try parsed.run()
            }
            exit(0)
        } catch let error as ServiceError {
            report("\(error)")
            exit(error.exitCode)
        } catch {
            // Help and version are "errors" of the parser, with exit code 0.
            let code = command.exitCode(for: error)
            let text = command.fullMessage(for: error)
            if code == .success {
                print(text)
                exit(0)
            }
            report(text.isEmpty ? "\(error)" : text)
            exit(code == .validationFailure ? 2 : 1)
        }
    }

    /// Raises the process's limit of open files to the system's maximum. Each session takes one file and each
    /// reader several, and the usual default is too low for that.
    public static func raiseFileLimit() {
        var limit = rlimit()
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(files, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(files, &limit)
    }

    /// Signals that end a service in order. A hangup is one of them, unless whoever started the process had
    /// it ignored, as nohup does.
    public static var stopSignals: [UnixSignal] {
        var action = sigaction()
        let isHangupIgnored = sigaction(SIGHUP, nil, &action) == 0 && isIgnored(action)
        return isHangupIgnored ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
    }

    private static func isIgnored(_ action: sigaction) -> Bool {
        // `SIG_IGN` is a cast that Swift does not import.
        unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }

    /// True if stdout is a terminal. If not, the output may be stored.
    public static var isTerminal: Bool { isatty(FileHandle.standardOutput.fileDescriptor) == 1 }

    /// Writes lines to stdout unbuffered, also into a pipe.
    public static func say(_ lines: String...) {
        FileHandle.standardOutput.write(Data(lines.map { $0 + "\n" }.joined().utf8))
    }

    /// First call of every program, once per process: the log goes to stderr, and a crash ends the process
    /// at once, with one line instead of a backtrace (`CCrashEnd`), so that clients see it and a manager
    /// restarts it. `SWIFT_BACKTRACE=enable=yes` brings the backtrace back.
    public static func bootstrap() {
        crash_end_install("mimeo \(BuildVersion.text)")
        bootstrapLog()
    }

    private static func bootstrapLog() {
        let word = ProcessInfo.processInfo.environment["LOG_LEVEL"] ?? ""
        let found = logLevel(word)
        if found == nil, !word.isEmpty {
            let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            report("LOG_LEVEL is '\(word)', none of \(levels): info is used")
        }
        LogOutput.shared.level = found ?? .info
        LoggingSystem.bootstrap { label in
            ServiceLogHandler(label: label)
        }
    }

    /// The level of a word in any case; `warn` is a common spelling of `warning`.
    public static func logLevel(_ word: String) -> Logger.Level? {
        let lower = word.lowercased()
        return Logger.Level(rawValue: lower == "warn" ? "warning" : lower)
    }

    private static func report(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}
