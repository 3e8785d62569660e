import ArgumentParser
import AttachmentStore
import AuthGateway
import Foundation
import QueryService
import Replicator
import ServiceKit

@testable import Mimeo

/// The options of every command, as the parser knows them.
struct CommandOptions: Decodable {
    struct Command: Decodable {
        var arguments: [Option]?
    }

    struct Option: Decodable {
        struct Name: Decodable {
            var kind: String
            var name: String
        }

        var kind: String
        var names: [Name]?
        var valueName: String?
        var abstract: String?
        var defaultValue: String?

        var flags: [String] { (names ?? []).filter { $0.kind == "long" }.map(\.name) }
    }

    var command: Command

    /// All commands, by the names that people know.
    static let commands: [(name: String, type: any ParsableCommand.Type)] = [
        ("mimeo serve", ServeCommand.self), ("auth-gateway", AuthGatewayCommand.self),
        ("replicator", ReplicatorCommand.self), ("query-service", QueryServiceCommand.self),
        ("attachment-store", AttachmentStoreCommand.self), ("mimeo peer", PeerCommand.self),
        ("mimeo canary", CanaryCommand.self),
        ("mimeo dql", DQLCommand.self), ("mimeo import", ImportCommand.self),
        ("mimeo export", ExportCommand.self), ("mimeo observe", ObserveCommand.self),
        ("mimeo changes", ChangesCommand.self), ("mimeo admin", AdminCommand.self),
        ("mimeo support-bundle", SupportBundleCommand.self), ("mimeo parse", ParseCommand.self),
        ("mimeo backup create", BackupCommand.Create.self),
        ("mimeo backup follow", BackupCommand.Follow.self),
        ("mimeo backup list", BackupCommand.List.self), ("mimeo backup verify", BackupCommand.Verify.self),
        ("mimeo backup prune", BackupCommand.Prune.self), ("mimeo restore", RestoreCommand.self),
        ("mimeo database move", DatabaseCommand.Move.self),
        ("mimeo verify", VerifyCommand.self), ("mimeo doctor", DoctorCommand.self),
        ("mimeo upgrade", UpgradeCommand.self),
    ]

    /// The options of a command: without `--help`, `--version`, positional arguments and `--no-…`.
    static func of(_ command: any ParsableCommand.Type) throws -> [Option] {
        let all = try JSONDecoder().decode(CommandOptions.self, from: Data(command._dumpHelp().utf8))
        let flags = Set((all.command.arguments ?? []).flatMap(\.flags))
        return (all.command.arguments ?? []).filter { option in
            guard option.kind != "positional", let flag = option.flags.first else { return false }
            let isNegation = flag.hasPrefix("no-") && flags.contains(String(flag.dropFirst(3)))
            return !isNegation && flag != "help" && flag != "version"
        }
    }
}

/// `Docs/Options.md`, made of the table of settings and of the commands' own options.
enum OptionReference {
    static let file = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Docs/Options.md")

    static func writeIfAsked() throws {
        guard ProcessInfo.processInfo.environment["MIMEO_WRITE_REFERENCE"] != nil else { return }
        try page().write(to: file, atomically: true, encoding: .utf8)
    }

    static func page() throws -> String {
        var lines = [
            "# Options", "",
            "All options of all commands. The tests write this page from the table in",
            "[SettingTable.swift](../Shared/ServiceKit/Options/SettingTable.swift) and from `--help`.", "",
            "A **setting** can be given in three places: as a flag, as a `MIMEO_…` variable of the",
            "environment, and in the JSON file of `--config`. A flag overrides the environment, the",
            "environment the file. A switch is `--flag` or `--no-flag`, `true` or `false`. A list is a flag",
            "that may be repeated; in the file it is an array or, as in the environment, one text with",
            "commas. All commands may share one file and one environment: a setting that a command does not",
            "have means nothing to it. A misspelt name is an error, in the file (SRV-0104) and in the",
            "environment (SRV-0108), and so is an empty variable. A secret needs no place on a command line,",
            "which others can see: each has a file or a variable.", "",
        ]
        for group in groups {
            lines += ["## \(group.title)", "", "| flag | in the file | variable | meaning | default |"]
            lines += ["|---|---|---|---|---|"]
            for setting in Setting.all where Set(setting.commands) == group.commands && !setting.isWord {
                let value = setting.valueName.map { " \($0.uppercased())" } ?? ""
                lines.append(
                    "| `--\(setting.flag)\(value)` | \(setting.name == "config" ? "" : "`\(setting.name)`") "
                        + "| `\(setting.variable)` | \(escaped(setting.help)) "
                        + "| \(setting.byDefault.map(escaped) ?? "") |")
            }
            lines.append("")
        }
        lines += [
            "## Options of one run", "",
            "They say what one run of a command does, so they are flags only.", "",
            "| command | flag | meaning |", "|---|---|---|",
        ]
        for command in CommandOptions.commands {
            for option in try CommandOptions.of(command.type) {
                let isSetting = Setting.all.contains { setting in
                    option.flags.contains(setting.flag) && !setting.isWord
                        && setting.commands.contains { $0.rawValue == command.name }
                }
                guard !isSetting, let flag = option.flags.first else { continue }
                let value = option.kind == "flag" ? "" : " \((option.valueName ?? "").uppercased())"
                let text = (option.abstract ?? "") + (option.defaultValue.map { " Default: \($0)." } ?? "")
                lines.append("| `\(command.name)` | `--\(flag)\(value)` | \(escaped(text)) |")
            }
        }
        lines += [
            "", "Every program has `--help` and `--version`. `LOG_LEVEL` sets the level of the log, which",
            "goes to standard error: trace, debug, info (the default), notice, warning, error or critical.",
        ]
        return lines.joined(separator: "\n") + "\n"
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("|", with: "\\|").replacing("\n", with: " ")
    }

    /// The settings by the commands that have them, in the table's order.
    private static var groups: [(title: String, commands: Set<Setting.Command>)] {
        var groups: [(title: String, commands: Set<Setting.Command>)] = []
        for setting in Setting.all where !setting.isWord {
            if groups.contains(where: { $0.commands == setting.commands }) { continue }
            let names = Setting.Command.allCases.filter(setting.commands.contains).map { "`\($0.rawValue)`" }
            let isAll = names.count == Setting.Command.allCases.count
            groups.append((isAll ? "Every command" : names.joined(separator: ", "), setting.commands))
        }
        return groups
    }
}
