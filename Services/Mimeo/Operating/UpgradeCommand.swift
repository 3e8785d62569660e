import ArgumentParser
import CRDT
import Foundation
import ServiceKit

/// `mimeo upgrade --check`: tells before an upgrade what this version would do with a server's storage.
struct UpgradeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upgrade", abstract: "Tell what a start of this version would change on disk.",
        discussion: """
            Reads the formats of the log, the projection and every store in the data folder, and tells of \
            each whether this version opens, migrates, rebuilds or refuses it, and the way back. Changes \
            nothing, and works while servers of the earlier version run. The upgrade itself is the next \
            start: Docs/upgrade.md has its order. Exit code 0 if this version starts, 1 if it refuses \
            something, 3 if PostgreSQL is unreachable.
            """)

    @OptionGroup var place: LogPlace
    @Option(setting: "projection") var projection: String?
    @Option(
        help: ArgumentHelp(
            "Look at the store of a small peer too, a persistenceDirectory; repeatable.", valueName: "dir"),
        transform: GivenText.of("--peer-store"))
    var peerStore: [String] = []
    @Flag(help: "Look, and change nothing.")
    var check = false
    @Flag(help: "Print a JSON object.")
    var json = false

    func validate() throws {
        guard check else {
            throw ValidationError("the upgrade is the next start of a server; give --check to look before")
        }
    }

    func run() async throws {
        let resolved = try place.resolved()
        let survey = try UpgradeCheck(
            resolved, projection: projection ?? resolved.sources.text("projection"), peerStores: peerStore)
        let rows = survey.run()
        if json {
            LineWriter.standardOutput.write(UpgradeCheck.value(rows))
        } else {
            for row in rows { LineWriter.standardOutput.write(text: row.text) }
            LineWriter.standardOutput.write(text: UpgradeCheck.verdict(rows))
        }
        if rows.contains(where: { $0.outcome == .refused }) {
            throw ExitCode(rows.contains(where: \.isUnreachable) ? 3 : 1)
        }
    }
}
