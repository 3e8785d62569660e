import ArgumentParser
import Foundation
import Logging
import ServiceLifecycle
import UnixSignals

/// What every `main.swift` of a service calls.
public enum ServiceMain {
    /// Parses the command line, runs the command and ends the process: 0 after an orderly end, 2 for wrong
    /// flags, 1 for everything else. Messages go to stderr, the log too (`LOG_LEVEL` chooses from trace to
    /// critical).
    public static func run<Command: AsyncParsableCommand>(_ command: Command.Type) async -> Never {
        bootstrapLog()
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

    /// Lets the process open as many files as the system lets it: each session is one, each reader several,
    /// and what shells and service managers begin with is for programs that have few.
    public static func raiseFileLimit() {
        var limit = rlimit()
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(files, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(files, &limit)
    }

    /// Signals that end a service in order.
    public static let stopSignals: [UnixSignal] = [.sigint, .sigterm]

    /// Whether somebody looks at stdout; else it may be kept.
    public static var isTerminal: Bool { isatty(FileHandle.standardOutput.fileDescriptor) == 1 }

    /// Writes lines to stdout at once, also into a pipe.
    public static func say(_ lines: String...) {
        FileHandle.standardOutput.write(Data(lines.map { $0 + "\n" }.joined().utf8))
    }

    /// Sends the log to stderr, once per process.
    public static func bootstrapLog() {
        let level =
            ProcessInfo.processInfo.environment["LOG_LEVEL"].flatMap { Logger.Level(rawValue: $0) } ?? .info
        LoggingSystem.bootstrap { label in
            var handler = StreamLogHandler.standardError(label: label)
            handler.logLevel = level
            return handler
        }
    }

    private static func report(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}
