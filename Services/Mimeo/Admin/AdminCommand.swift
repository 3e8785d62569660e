import ArgumentParser
import CRDT
import Foundation
import ServiceKit

/// `mimeo admin`: every admin route of every service as a command, made of the table of routes.
struct AdminCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "admin", abstract: "Administer a server: every admin route is a command.",
        usage: "mimeo admin [--profile NAME] [--url ORIGIN] GROUP COMMAND [ARGUMENTS] [--OPTION VALUE]",
        discussion: """
            mimeo admin login keeps a server and a credential as a profile; mimeo admin help lists the \
            groups, mimeo admin help GROUP its commands with their options. On a terminal an answer is a \
            table, elsewhere the JSON of the server. What destroys is asked about first, or needs --yes. \
            An option's value @FILE is read from the file, @- from standard input; --body takes a whole \
            JSON body.
            Exit code 1 if the server refuses, 2 for a wrong command line, 3 if it cannot be reached or does \
            not accept the credential.
            """)

    @OptionGroup var server: AdminTarget
    @Option(help: ArgumentHelp("Output format: json, table, csv, markdown or vertical.", valueName: "format"))
    var format: OutputFormat?
    @Flag(help: "Do without being asked.") var yes = false
    @Flag(help: "Wait until work that the command begins has ended, with a progress bar.") var wait = false
    @Argument(
        parsing: .allUnrecognized,
        help: "Words of a command and its options; see mimeo admin help.")
    var words: [String] = []

    func run() async throws {
        let (first, rest) = (words.first ?? "help", Array(words.dropFirst()))
        switch first {
        case "help": LineWriter.standardOutput.write(text: try AdminHelp.text(rest))
        case "login": try await AdminLogin(server: server).login(rest)
        case "logout": try AdminLogin(server: server).logout(rest)
        case "profiles": try AdminLogin(server: server).list(rest, format: chosen)
        case _ where rest.last == "help":
            LineWriter.standardOutput.write(text: try AdminHelp.text([first] + rest.dropLast()))
        default: try await call()
        }
    }

    private var chosen: OutputFormat { format ?? (isatty(STDOUT_FILENO) == 1 ? .table : .json) }

    private func call() async throws {
        let call = try await AdminCall(words, database: try server.defaultDatabase())
        if call.route.destroys { try confirm(call) }
        let client = try await server.client()
        let answer = try await client.send(call)
        if wait {
            var progress = AdminProgress(client: client, call: call)
            try await progress.untilDone()
        }
        switch answer {
        case .failure(let status, let problem):
            let body: Value = ["error": problem.json]
            if chosen == .json { LineWriter.standardOutput.write(body) }
            LineWriter.standardError.write(text: "mimeo: \(problem.text)")
            throw ExitCode(status == 401 ? 3 : 1)
        case .done(let body): print(body)
        }
    }

    private func print(_ body: Value?) {
        guard let body else {
            if chosen == .json { LineWriter.standardOutput.write(["done": true]) }
            if chosen != .json { LineWriter.standardOutput.write(text: "done") }
            return
        }
        LineWriter.standardOutput.write(text: AdminTable(body).text(chosen))
    }

    /// Asks a person, or demands `--yes` where there is none.
    private func confirm(_ call: AdminCall) throws {
        guard !yes else { return }
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            throw MimeoError(.usage, "\(call.title) needs --yes where nobody can be asked")
        }
        FileHandle.standardError.write(
            Data("\(call.route.summary) \(call.route.method.rawValue) \(call.path)\nType yes: ".utf8))
        guard readLine()?.trimmingCharacters(in: .whitespaces).lowercased() == "yes" else {
            throw MimeoError(.usage, "nothing was done")
        }
    }
}
