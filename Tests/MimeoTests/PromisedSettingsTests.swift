import ArgumentParser
import AttachmentStore
import AuthGateway
import Foundation
import QueryService
import Replicator
import ServiceKit
import Testing

@testable import Mimeo

@Suite("Settings that --help promises")
struct PromisedSettingsTests {
    /// The flags in a command's help, as names of the file: `--tls-key` is `tlsKey`, whatever the case.
    private static func flags(_ help: String) -> Set<String> {
        let words = help.split { !($0.isLetter || $0.isNumber || $0 == "-") }
        let flags = words.filter { $0.hasPrefix("--") && $0.count > 3 }
        return Set(flags.map { $0.filter { $0 != "-" }.lowercased() })
    }

    @Test("every flag of every service is a name in the file of --config, and no name is without a flag")
    func promised() {
        let helps = [
            ServeCommand.helpMessage(), AuthGatewayCommand.helpMessage(), ReplicatorCommand.helpMessage(),
            QueryServiceCommand.helpMessage(), AttachmentStoreCommand.helpMessage(),
        ]
        // An operator's words are for one start: in a file they would be forgotten there.
        let words: Set = ["newlog", "acceptrestore"]
        let flags = Set(helps.flatMap(Self.flags)).subtracting(words.union(["config", "help", "version"]))
        #expect(flags == Set(ConfigurationFile.names.map { $0.lowercased() }))
    }

    private func configuration(_ text: String) throws -> ServiceConfiguration {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(
            "promised-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(text.utf8).write(to: file)
        return try ServiceConfiguration(
            ServiceOptions.parse(["--config", file.path]), port: 1, environment: [:])
    }

    @Test("the numbers and switches of the file are used, and a flag overrides them")
    func used() throws {
        let configuration = try configuration(
            #"""
            {"keepAliveSeconds": 7, "tombstoneTTLHours": 2, "snapshotOperations": 0, "keptOperations": 5,
             "housekeepingSeconds": 9, "behindProxy": true, "showToken": true, "maxAttachmentBytes": 12}
            """#)
        #expect(try SessionFlags.parse([]).options(configuration).keepAlive == .seconds(7))
        let flags = try SessionFlags.parse(["--keep-alive-seconds", "8"])
        #expect(try flags.options(configuration).keepAlive == .seconds(8))
        let housekeeping = try HousekeepingFlags.parse([]).options(configuration)
        #expect(housekeeping.tombstoneTimeToLive == .seconds(7_200))
        #expect(housekeeping.snapshotOperations == nil)
        #expect(housekeeping.keptOperations == 5 && housekeeping.interval == .seconds(9))
        #expect(configuration.behindProxy && configuration.flag(false, "showToken"))
        #expect(try configuration.number(Int64?.none, "maxAttachmentBytes") == 12)
    }

    @Test(
        "a number that is too small or too large is an error, not another number",
        arguments: [#"{"keepAliveSeconds": 0}"#, #"{"keepAliveSeconds": 4294967296}"#])
    func bounds(text: String) throws {
        let configuration = try configuration(text)
        let error = #expect(throws: ServiceError.self) {
            try SessionFlags.parse([]).options(configuration)
        }
        #expect(error?.code == .configurationInvalid)
    }
}
