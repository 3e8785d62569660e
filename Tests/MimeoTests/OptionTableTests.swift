import ArgumentParser
import AttachmentStore
import DittoSwift
import Foundation
import Replicator
import ServiceKit
import Testing

@testable import Mimeo

@Suite("The table of options")
struct OptionTableTests {
    @Test("every flag of a command is a row of the table or an option of one run, with the table's help")
    func flags() throws {
        for command in CommandOptions.commands {
            let rows = Setting.all.filter { $0.commands.map(\.rawValue).contains(command.name) }
            let options = try CommandOptions.of(command.type)
            let flags = Set(options.flatMap(\.flags))
            #expect(rows.map(\.flag).filter { !flags.contains($0) } == [], "\(command.name) lacks flags")
            let others = Setting.all.filter { row in !rows.contains { $0.name == row.name } }
            // There it is one database of a log, said for one run: a variable for clients must not narrow a
            // backup.
            let isOfOneRun = ["mimeo backup", "mimeo restore", "mimeo verify", "mimeo database"].contains(
                where: command.name.hasPrefix)
            let unknown = others.map(\.flag).filter {
                flags.contains($0) && !($0 == "database" && isOfOneRun)
            }
            #expect(unknown == [], "\(command.name) has flags that the table gives to others only")
            for option in options {
                guard let row = rows.first(where: { option.flags.contains($0.flag) }) else { continue }
                #expect(option.abstract == row.flagHelp, "\(command.name) --\(row.flag)")
                let isSwitch = row.kind == .flag || row.isWord
                #expect((option.kind == "flag") == isSwitch, "\(command.name) --\(row.flag)")
            }
        }
    }

    @Test("an empty path, address or name is refused by its flag's name, wherever it is given")
    func emptyTexts() throws {
        let texts = ["dir", "file", "place", "origin", "url", "host:port", "id"]
        var count = 0
        for command in CommandOptions.commands {
            for option in try CommandOptions.of(command.type) where texts.contains(option.valueName ?? "") {
                // An empty list of the documents' own fields, and addresses that are read as such.
                guard let flag = option.flags.first, flag != "cors-origin", option.valueName != "host:port"
                else { continue }
                for given in [["--\(flag)", ""], ["--\(flag)="]] {
                    let error = #expect(throws: (any Error).self, "\(command.name) \(given)") {
                        _ = try command.type.parse(given)
                    }
                    guard let error else { continue }
                    let text = command.type.fullMessage(for: error)
                    // The parser itself refuses a sign with nothing behind it.
                    let isTold =
                        text.contains("SRV-0108: --\(flag) is empty")
                        || given.count == 1 && text.contains("Missing value for '--\(flag) ")
                    #expect(isTold, "\(command.name): \(text)")
                    #expect(command.type.exitCode(for: error) == .validationFailure)
                    count += 1
                }
            }
        }
        #expect(count > 150)
        for command in [RestoreCommand.self, BackupCommand.List.self] as [any ParsableCommand.Type] {
            let error = #expect(throws: (any Error).self) { _ = try command.parse([""]) }
            #expect(error.map { command.fullMessage(for: $0).contains("PLACE is empty") } == true)
        }
        let filed = #expect(throws: ServiceError.self) { try configuration(#"{"data": ""}"#) }
        #expect(filed?.code == .configurationInvalid && filed?.message.contains("'data' is empty") == true)
    }

    @Test("a service has settings and words only: a setting also works in the file and in the environment")
    func servicesHaveSettingsOnly() throws {
        for command in CommandOptions.commands.prefix(5) {
            let flags = try CommandOptions.of(command.type).flatMap(\.flags)
            let unknown = flags.filter { flag in !Setting.all.contains { $0.flag == flag } }
            #expect(unknown.filter { !$0.hasPrefix("no-") } == [], "\(command.name)")
        }
    }

    @Test("the reference page says what table and commands say")
    func reference() throws {
        try OptionReference.writeIfAsked()
        let written = try String(contentsOf: OptionReference.file, encoding: .utf8)
        #expect(
            try written == OptionReference.page(),
            "write it again: MIMEO_WRITE_REFERENCE=1 swift test --filter OptionTableTests")
    }

    @Test("names, flags and variables are distinct, and none is a variable of the tests or the platform")
    func distinct() {
        #expect(Set(Setting.all.map(\.name)).count == Setting.all.count)
        #expect(Set(Setting.all.map(\.variable)).count == Setting.all.count)
        let taken = ["MIMEO_SEED", "MIMEO_DEPTH", "MIMEO_BIN", "MIMEO_KEEP", "MIMEO_PORT", "MIMEO_HISTORY"]
        #expect(Setting.all.map(\.variable).filter(taken.contains) == [])
    }

    @Test("the defaults that the table tells are those that are used")
    func defaults() throws {
        let configuration = try ServiceConfiguration(ServiceOptions.parse([]), port: 1, environment: [:])
        let housekeeping = try HousekeepingFlags.parse([]).options(configuration)
        let evaluation = try EvaluationFlags.parse([]).options(configuration)
        let used: [String: Int64?] = [
            "statementSeconds": evaluation.statementTime.components.seconds,
            "subscriptionSeconds": evaluation.subscriptionTime.components.seconds,
            "statementsPerCredential": Int64(evaluation.statementsPerCredential),
            "keepAliveSeconds":
                try SessionFlags.parse([]).options(configuration).keepAlive.components.seconds,
            "tombstoneTTLHours": housekeeping.tombstoneTimeToLive.map { $0.components.seconds / 3_600 },
            "snapshotOperations": housekeeping.snapshotOperations.map(Int64.init),
            "keptOperations": Int64(housekeeping.keptOperations),
            "logKeepHours": housekeeping.keptAge.map { $0.components.seconds / 3_600 } ?? 0,
            "logMaxBytes": housekeeping.mostBytes.map { Int64($0) } ?? 0,
            "housekeepingSeconds": housekeeping.interval.components.seconds,
            "contactSeconds": configuration.contact.contact.components.seconds,
            "contactGraceSeconds": configuration.contact.grace.components.seconds,
            "maxAttachmentBytes": try AttachmentFlags.parse([]).options(configuration).maximumBytes,
            "attachmentQuotaBytes": try AttachmentFlags.parse([]).options(configuration).quotaBytes,
            "attachmentGraceHours":
                (try AttachmentFlags.parse([]).options(configuration).graceSeconds ?? 0) / 3_600,
            "attachmentCollectionSeconds":
                try AttachmentFlags.parse([]).options(configuration).collectionSeconds,
            "stopSeconds": configuration.stop.components.seconds,
            "diskReservePercent": Int64(configuration.diskReservePercent),
            "tracePercent": Int64(Traces.Options.usualPercent),
        ]
        for setting in Setting.all {
            guard case .number = setting.kind, setting.name != "drainSeconds" else { continue }
            #expect(used[setting.name]??.description == setting.byDefault, "\(setting.name)")
        }
        #expect(configuration.dataFolder == Setting.named("data")?.byDefault)
    }

    @Test("a word for one start is a flag only: in the file or the environment it is an error")
    func words() throws {
        let given = try ServiceConfiguration(ServiceOptions.parse(["--new-log"]), port: 1, environment: [:])
        #expect(given.beginsNewLog && given.acceptsRestore)
        for (name, variable) in [("newLog", "MIMEO_NEW_LOG"), ("acceptRestore", "MIMEO_ACCEPT_RESTORE")] {
            let filed = #expect(throws: ServiceError.self) { try configuration(#"{"\#(name)": true}"#) }
            #expect(filed?.code == .configurationInvalid, "\(name)")
            let set = #expect(throws: ServiceError.self) {
                try ServiceConfiguration(
                    ServiceOptions.parse([]), port: 1, environment: [variable: "true"])
            }
            #expect(set?.code == .environmentInvalid, "\(variable)")
        }
    }

    @Test("a reserve of more than nine tenths of a disk is an error wherever it is given")
    func reserve() throws {
        #expect(try configuration(#"{"diskReservePercent": 90}"#).diskReservePercent == 90)
        let filed = #expect(throws: ServiceError.self) { try configuration(#"{"diskReservePercent": 91}"#) }
        #expect(filed?.code == .configurationInvalid)
        let variable = #expect(throws: ServiceError.self) {
            try configuration("{}", environment: ["MIMEO_DISK_RESERVE_PERCENT": "95"])
        }
        #expect(variable?.code == .environmentInvalid)
        let flag = #expect(throws: ServiceError.self) {
            try ServiceConfiguration(
                ServiceOptions.parse(["--disk-reserve-percent", "100"]), port: 1, environment: [:])
        }
        #expect(flag?.message.contains("--disk-reserve-percent") == true)
    }

    @Test("the programs' version is the SDK's")
    func version() {
        #expect(BuildVersion.number == Ditto.version)
        #expect(MimeoCommand.configuration.version.hasPrefix(Ditto.version))
    }

    private func configuration(
        _ text: String, environment: [String: String] = [:]
    ) throws -> ServiceConfiguration {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(
            "promised-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(text.utf8).write(to: file)
        return try ServiceConfiguration(
            ServiceOptions.parse(["--config", file.path]), port: 1, environment: environment)
    }

    @Test("the numbers and switches of the file are used, the environment overrides it, a flag both")
    func used() throws {
        let text = #"""
            {"keepAliveSeconds": 7, "tombstoneTTLHours": 2, "snapshotOperations": 0, "keptOperations": 5,
             "housekeepingSeconds": 9, "behindProxy": true, "showToken": true, "maxAttachmentBytes": 12}
            """#
        let filed = try configuration(text)
        #expect(try SessionFlags.parse([]).options(filed).keepAlive == .seconds(7))
        let housekeeping = try HousekeepingFlags.parse([]).options(filed)
        #expect(housekeeping.tombstoneTimeToLive == .seconds(7_200))
        #expect(housekeeping.snapshotOperations == nil)
        #expect(housekeeping.keptOperations == 5 && housekeeping.interval == .seconds(9))
        #expect(filed.behindProxy && filed.showToken == true)
        #expect(try AttachmentFlags.parse([]).options(filed).maximumBytes == 12)

        let variables = [
            "MIMEO_KEEP_ALIVE_SECONDS": "8", "MIMEO_TOMBSTONE_TTL_HOURS": "0", "MIMEO_BEHIND_PROXY": "false",
            "MIMEO_MAX_ATTACHMENT_BYTES": "13",
        ]
        let both = try configuration(text, environment: variables)
        #expect(try SessionFlags.parse([]).options(both).keepAlive == .seconds(8))
        #expect(try HousekeepingFlags.parse([]).options(both).tombstoneTimeToLive == nil)
        #expect(!both.behindProxy && both.showToken == true)
        #expect(try AttachmentFlags.parse(["--max-attachment-bytes", "14"]).options(both).maximumBytes == 14)
        let flags = try SessionFlags.parse(["--keep-alive-seconds", "9"])
        #expect(try flags.options(both).keepAlive == .seconds(9))
        let switched = try ServiceConfiguration(
            ServiceOptions.parse(["--no-behind-proxy"]), port: 1, environment: ["MIMEO_BEHIND_PROXY": "true"])
        #expect(!switched.behindProxy)
    }

    @Test(
        "a number that is too small, too large or none is an error that names its place, not another number",
        arguments: [
            (#"{"keepAliveSeconds": 0}"#, "", "--config"),
            (#"{"keepAliveSeconds": 4294967296}"#, "", "at most 4294967295"),
            ("{}", "0", "MIMEO_KEEP_ALIVE_SECONDS"), ("{}", "-1", "whole number"),
            ("{}", "1.5", "whole number"), ("{}", "4294967296", "at most"), ("{}", "5s", "whole number"),
        ])
    func bounds(file: String, variable: String, told: String) throws {
        let environment = variable.isEmpty ? [:] : ["MIMEO_KEEP_ALIVE_SECONDS": variable]
        let configuration = try configuration(file, environment: environment)
        let error = #expect(throws: ServiceError.self) {
            try SessionFlags.parse([]).options(configuration)
        }
        #expect(error?.code == (variable.isEmpty ? .configurationInvalid : .environmentInvalid))
        #expect(error?.message.contains(told) == true, "\(error?.message ?? "")")
        #expect(error?.exitCode == 2)
        #expect(throws: ServiceError.self) {
            try SessionFlags.parse(["--keep-alive-seconds", "0"]).options(self.configuration("{}"))
        }
    }
}
