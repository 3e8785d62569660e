import ArgumentParser
import Backup
import CRDT
import DQL
import Foundation
import Logging
import OperationLog
import ServiceKit

/// `mimeo database`: works on databases in a server's storage.
struct DatabaseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "database", abstract: "Move a server's databases to another log.",
        subcommands: [Move.self])

    /// `mimeo database move`.
    struct Move: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "move",
            abstract: "Move all databases, or one, to another log while they are served.",
            discussion: """
                Copies everything while servers go on, closes the former log to writes (LOG-0313), copies \
                the rest, and shows the databases in the other log, with their identity: devices and cursors \
                go on. Then start a server on it. A move that was interrupted goes on when the same command \
                runs again; a second one at the same time is refused (LOG-0314). Attachments and the key \
                stay where they are. Prints a JSON object before each step. Docs/tasks/to-postgresql.md has \
                the order of things.
                """)

        @OptionGroup var place: LogPlace
        @Option(
            help: ArgumentHelp(
                "The other log: postgres://USER@HOST/DATABASE, or sqlite:PATH.", valueName: "url"),
            transform: GivenText.of("--to"))
        var to: String
        @Option(
            help: ArgumentHelp(
                "Move this database only, to a log that has others.", valueName: "id"),
            transform: GivenText.of("--database"))
        var database: String?
        @Option(
            help: ArgumentHelp(
                "The address of the server there, told to clients whose writes are refused here; leave it "
                    + "out if clients keep the address that they have.", valueName: "origin"),
            transform: GivenText.of("--address"))
        var address: String?
        @Flag(help: "Copy what there is, and close nothing: the move itself has little left to do.")
        var ahead = false
        @Flag(help: "Take back a move that has not shown the databases yet: writes are taken again.")
        var cancel = false
        @Flag(help: "With --cancel: the other log has lost the copies, and you know that no log shows them.")
        var lost = false

        func validate() throws {
            guard !ahead || !cancel else { throw ValidationError("give --ahead or --cancel") }
            guard cancel || !lost else { throw ValidationError("--lost goes with --cancel") }
            guard address?.contains(" ") != true else {
                throw ValidationError("--address is like https://mimeo.example.com")
            }
        }

        func run() async throws {
            let logger = Logger(label: "mimeo.move")
            let source = try place.resolved()
            let target = LogPlace.Resolved(
                data: source.data, log: try StorageURL(to, flag: "to"), sources: source.sources)
            guard source.log.place != target.log.place else {
                throw MimeoError(.usage, "--to names the log that the databases are in")
            }
            let there = NewPlace(log: target.log.place, address: address)
            let id = database.map { DatabaseID($0) }
            let moved = try await Progress.showing { progress in
                try await source.with(name: "mimeo-move", logger: logger) { log in
                    try await target.with(creates: true, name: "mimeo-move", logger: logger) { other in
                        let mover = LogMover(
                            from: log, to: other, database: id, place: there, progress: progress
                        ) { LineWriter.standardOutput.write(["step": .string($0.rawValue)]) }
                        if cancel { return try await mover.cancel(isLost: lost) }
                        if ahead { return try await mover.copy() }
                        let entry = id.map { RestoredEntry(name: $0, log: other, logger: logger) }
                        try await entry?.check()
                        let moved = try await mover.move()
                        try await entry?.make()
                        return moved
                    }
                }
            }
            LineWriter.standardOutput.write(answer(moved))
        }

        private func answer(_ moved: [LogMover.Moved]) -> Value {
            [
                "databases": .array(
                    moved.map {
                        [
                            "database": .string($0.database.text),
                            "offset": .int(Int64(clamping: $0.end.offset.rawValue)),
                        ]
                    }),
                "moved": .bool(!ahead && !cancel),
            ]
        }
    }
}

extension StorageURL {
    /// The storage without user and password, as the log that was moved there remembers it.
    var place: String {
        switch self {
        case .sqlite(let path): return "sqlite:\(URL(fileURLWithPath: path).standardizedFileURL.path)"
        case .postgres(let url):
            let parts = url.split(separator: "?", maxSplits: 1)
            var base = parts.first ?? ""
            if let mark = base.range(of: "://") { base = base[mark.upperBound...] }
            if let user = base.lastIndex(of: "@") { base = base[base.index(after: user)...] }
            let secrets = ["user=", "password=", "sslpassword="]
            let rest = parts.dropFirst().flatMap { $0.split(separator: "&") }
                .filter { part in !secrets.contains { part.hasPrefix($0) } }
            return "postgres://\(base)" + (rest.isEmpty ? "" : "?\(rest.joined(separator: "&"))")
        }
    }
}
