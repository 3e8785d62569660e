import ArgumentParser
import CRDT
import Foundation
import Synchronization

/// `mimeo observe`: prints the rows of a SELECT whenever they change.
struct ObserveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "observe", abstract: "Print the rows of a SELECT on a server whenever they change.",
        discussion: """
            Prints a line {"transactionId", "items"} for the first result and after each change of it, or \
            with --events the server's own events, which have only the changes. A cut connection is opened \
            again where it was cut; control-C ends it.
            Exit code 1 if the server refuses the statement, 3 if it cannot be reached or refuses the login.
            """)

    @OptionGroup var server: ServerTarget
    @OptionGroup var keys: APIKeyOptions
    @Option(help: ArgumentHelp("Arguments of the statement, a JSON object.", valueName: "json"))
    var args: String?
    @Flag(help: "Print the server's events: result, change, current.")
    var events = false
    @Option(help: ArgumentHelp("End after so many lines.", valueName: "number"))
    var count: Int?
    @Argument(help: "The SELECT.")
    var statement: String

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be 1 or more") }
        _ = try arguments()
    }

    func run() async throws {
        let runner = try await RemoteRunner.open(server, keys)
        let body: Value = ["statement": .string(statement), "args": .object(try arguments())]
        let rows = Mutex(ObservedRows())
        let printed = Mutex(0)
        let feed = EventFeed(runner: runner) {
            let offset = rows.withLock { $0.offset }
            return RemoteRunner.StreamRequest(
                method: "POST", path: "/api/v5/store/observe", body: body,
                lastEventID: offset.map { "\($0)" })
        }
        do {
            try await feed.run { event in
                let line = try rows.withLock { rows -> Value? in
                    let hasChanged = try rows.apply(event)
                    if events { return event }
                    guard hasChanged, let offset = rows.offset else { return nil }
                    var line = ObjectValue([
                        (key: "transactionId", value: .int(offset)), (key: "items", value: .array(rows.rows)),
                    ])
                    if !rows.warnings.isEmpty { line["warnings"] = .array(rows.warnings) }
                    return .object(line)
                }
                guard let line else { return .goOn }
                LineWriter.standardOutput.write(line)
                let lines = printed.withLock { lines in
                    lines += 1
                    return lines
                }
                return lines == count ? .done : .goOn
            }
        } catch let refusal as Refusal {
            LineWriter.standardOutput.write(["error": refusal.error])
            throw ExitCode(1)
        }
    }

    private func arguments() throws -> ObjectValue {
        guard let args else { return ObjectValue() }
        do {
            guard let object = try JSONText.parseStrictly(Array(args.utf8)).objectValue else {
                throw ValidationError("--args must be a JSON object")
            }
            return object
        } catch let error as CRDTError {
            throw ValidationError("--args: \(error.message)")
        }
    }
}
