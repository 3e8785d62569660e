import ArgumentParser
import Backup
import Foundation
import OperationLog
import ServiceKit

/// `mimeo`: the server in one process, and the command line.
///
/// Exit codes: 0 done, 1 wrong statement or file, 2 wrong command line, 3 server unreachable or login
/// refused, 4 store in use by another process.
public struct MimeoCommand: AsyncParsableCommand {
    /// Name, purpose and sub commands.
    public static let configuration = CommandConfiguration(
        commandName: "mimeo", abstract: "An open, self-hosted edge-sync database.",
        version: BuildVersion.text,
        subcommands: [
            ServeCommand.self, DQLCommand.self, ParseCommand.self, ImportCommand.self,
            ExportCommand.self, ObserveCommand.self, ChangesCommand.self, PeerCommand.self,
            CanaryCommand.self,
            AdminCommand.self, SupportBundleCommand.self,
            BackupCommand.self, RestoreCommand.self, DatabaseCommand.self, VerifyCommand.self,
            DoctorCommand.self,
            UpgradeCommand.self,
        ])

    /// Empty, for the parser.
    public init() {}

    /// Entry point for `main.swift`: the service whose name the program was called by, otherwise `mimeo`.
    public static func runAsProcess() async -> Never {
        if let service = ServiceProgram(calledAs: CommandLine.arguments.first ?? "") {
            await service.runAsProcess()
        }
        ServiceMain.bootstrap()
        do {
            var command = try parseAsRoot()
            try EnvironmentKeys.check()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            Foundation.exit(0)
        } catch let code as ExitCode {
            Foundation.exit(code.rawValue)
        } catch let error as MimeoError {
            report("mimeo: \(error)")
            Foundation.exit(error.exitCode)
        } catch let error as BackupError {
            report("mimeo: \(error)")
            Foundation.exit(1)
        } catch let error as OperationLogError {
            report("mimeo: \(error)")
            Foundation.exit(error.code == .unreachable ? 3 : 1)
        } catch let error as ServiceError {
            report("mimeo: \(error)")
            Foundation.exit(error.exitCode)
        } catch {
            // Help and version are "errors" of the parser, with exit code 0.
            let code = exitCode(for: error)
            let text = fullMessage(for: error)
            if code == .success {
                print(text)
                Foundation.exit(0)
            }
            report(text.isEmpty ? "\(error)" : text)
            Foundation.exit(code == .validationFailure ? 2 : 1)
        }
    }

    private static func report(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}
