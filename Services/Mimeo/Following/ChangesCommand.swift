import ArgumentParser
import CRDT
import Foundation
import ServiceKit
import Synchronization

/// `mimeo changes`: prints the changes of documents from a server's log.
struct ChangesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "changes", abstract: "Print the changes of documents from a server's log.",
        discussion: """
            Prints a JSON line per changed document, in the log's order: {"transactionId", "collection", \
            "id", "method", "value", …}. The lines of one operation are printed together, when all have \
            arrived. With --follow it goes on with what comes; a cut connection is opened again where it \
            was cut. --cursor keeps the place in a file, so that the next run goes on after it.
            Exit code 1 if the server refuses the request, such as a --since that its log no longer reaches; \
            3 if it cannot be reached or refuses the login.
            """)

    @OptionGroup var server: ServerTarget
    @OptionGroup var keys: APIKeyOptions
    @Option(
        help: ArgumentHelp(
            "Begin after this offset; 0 (the default) for all that is kept, now, or snapshot for the current "
                + "documents first.", valueName: "offset"))
    var since: String?
    @Option(help: ArgumentHelp("The last offset.", valueName: "offset"))
    var until: UInt64?
    @Option(help: "Only this collection; may stand several times.")
    var collection: [String] = []
    @Option(
        name: .customLong("where"),
        help: ArgumentHelp(
            "Only documents that fulfil this condition of DQL; a removed one before its removal.",
            valueName: "condition"))
    var condition: String?
    @Option(help: "The values in a line: new, both, none or changes.")
    var values: String?
    @Flag(help: "Go on with what comes.")
    var follow = false
    @Option(help: ArgumentHelp("End after so many lines, with their operation.", valueName: "number"))
    var limit: Int?
    @Option(
        help: ArgumentHelp(
            "A file with the place: read if it exists, written as lines are printed.", valueName: "file"),
        transform: GivenText.of("--cursor"))
    var cursor: String?

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be 1 or more") }
        if cursor != nil, since != nil, since != "snapshot", since != "now" {
            throw ValidationError("--cursor says where to begin; leave --since out")
        }
    }

    /// The operations read so far; the lock guards it.
    private struct Progress {
        var since: String
        var lines: [Value] = []
        var printed = 0
    }

    func run() async throws {
        let runner = try await RemoteRunner.open(server, keys)
        do {
            try await print(from: runner, CursorFile(path: cursor))
        } catch let refusal as Refusal {
            LineWriter.standardOutput.write(["error": refusal.error])
            throw ExitCode(1)
        }
    }

    private func print(from runner: RemoteRunner, _ place: CursorFile) async throws {
        let progress = Mutex(Progress(since: try await begin(place, runner)))
        var feed = EventFeed(runner: runner, endsByItself: !follow || until != nil) {
            let begin = progress.withLock { progress in
                // An operation that was cut comes again as a whole.
                progress.lines = []
                return progress.since
            }
            return RemoteRunner.StreamRequest(path: path(since: begin))
        }
        // All lines up to there were printed, maybe none.
        feed.ended = { offset in
            guard let offset, let reached = UInt64(offset) else { return }
            let known = progress.withLock { UInt64($0.since) ?? 0 }
            if reached > known { try place.write(offset) }
        }
        try await feed.run { line in
            try progress.withLock { progress in
                progress.lines.append(line)
                let isSnapshot = line["method"] == "snapshot"
                guard line["last"] == true || isSnapshot else { return .goOn }
                for line in progress.lines { LineWriter.standardOutput.write(line) }
                progress.printed += progress.lines.count
                progress.lines = []
                if line["last"] == true, let offset = line["transactionId"]?.intValue {
                    progress.since = "\(offset)"
                    try place.write(progress.since)
                }
                return limit.map { progress.printed >= $0 } ?? false ? .done : .goOn
            }
        }
    }

    /// The place to begin at. "Now" is noted at once, so that the next run goes on after it though nothing
    /// came.
    private func begin(_ place: CursorFile, _ runner: RemoteRunner) async throws -> String {
        if let known = try place.read() { return known }
        guard since == "now", place.path != nil else { return since ?? "0" }
        let answer = try await runner.open(
            RemoteRunner.StreamRequest(path: "/api/v5/changes?since=now"))
        _ = try? await answer.body.collect(upTo: Limits.fileChunkBytes)
        guard let offset = answer.headers.first(name: "X-DITTO-TXN-ID") else { return "now" }
        try place.write(offset)
        return offset
    }

    private func path(since begin: String) -> String {
        var parts = URLComponents()
        var items = [URLQueryItem(name: "since", value: begin)]
        if let until { items.append(URLQueryItem(name: "until", value: "\(until)")) }
        items += collection.map { URLQueryItem(name: "collection", value: $0) }
        if let condition { items.append(URLQueryItem(name: "where", value: condition)) }
        if let values { items.append(URLQueryItem(name: "values", value: values)) }
        if follow { items.append(URLQueryItem(name: "feed", value: "continuous")) }
        parts.path = "/api/v5/changes"
        parts.queryItems = items
        // URLComponents leaves a plus sign, which stands for a space.
        return (parts.string ?? parts.path).replacingOccurrences(of: "+", with: "%2B")
    }
}

/// A file with the offset of the last operation that was printed; none without a path.
private struct CursorFile {
    let path: String?

    init(path: String?) throws { self.path = path }

    /// - Throws: `CLI-0403` for a file with anything else.
    func read() throws -> String? {
        guard let path, let data = FileManager.default.contents(atPath: path) else { return nil }
        let text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard UInt64(text) != nil else {
            throw MimeoError(.fileMalformed, "\(path) does not hold an offset; delete it to begin again")
        }
        return text
    }

    /// Replaces the file as a whole, so that a crash leaves the old place or the new one.
    /// - Throws: `CLI-0406`.
    func write(_ offset: String) throws {
        guard let path else { return }
        do {
            try Data((offset + "\n").utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw MimeoError(.fileUnwritable, "\(path) cannot be written: \(error.localizedDescription)")
        }
    }
}
