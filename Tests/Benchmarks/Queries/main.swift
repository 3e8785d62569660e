// A store driven over standard input, one JSON object a line, one answer a line: `queries.py` measures it
// beside other systems, alternating. `queries DIRECTORY` opens or creates the store.
//
//     {"load": FILE, "batch": N}                     documents of a file of JSON lines, N a transaction
//     {"run": STATEMENT, "arguments": {}, "times": N, "decoded": false}
//     {"sqlite": FILE, "run": SQL, "times": N}       the reference in C: one prepared statement
//     {"index": STATEMENT}                           CREATE INDEX or DROP INDEX
//     {"memory": true}                               the greatest private memory so far, in bytes
//
// Answers: {"seconds": [...], "rows": N} or {"bytes": N}.
//
// What is handed over: of both sides rows that the reader owns. Ours is a document's encoding, of which any
// field can be read (with "decoded" the values of all fields are made), SQLite's is the column's text.

import CRDT
import DQL
import Foundation
import Logging
import Machine
import Replica
import Synchronization

/// Seconds of wall time since some moment.
func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// The environment of the store: the machine's clock and randomness.
func environment() -> Environment {
    Environment(
        wallMilliseconds: {
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
        }, random: { UInt64.random(in: 0...UInt64.max) },
        pause: { _ in usleep(10_000) })
}

/// The greatest private memory of this process, looked at every two milliseconds: what is resident but the
/// pages of files, which are the kernel's cache whether a process maps them or not.
final class MemoryWatch: Sendable {
    private let peak = Mutex(0)

    init() {
        Thread.detachNewThread {
            while true {
                self.look()
                usleep(2_000)
            }
        }
    }

    var bytes: Int {
        look()
        return peak.withLock { $0 }
    }

    private func look() {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") } ?? ""
        let kilobytes = Int(line.split(whereSeparator: \.isWhitespace).dropFirst().first ?? "") ?? 0
        peak.withLock { $0 = max($0, kilobytes * 1024) }
    }
}

struct Driver {
    let replica: PeerReplica
    let statements = PreparedStatements()
    /// Made by the first question, so that no measurement of time has it beside it.
    private static let memory = MemoryWatch()

    func answer(_ command: ObjectValue) throws -> ObjectValue {
        if let file = command["load"]?.stringValue {
            return times(try load(file, batch: Int(command["batch"]?.intValue ?? 1_000)), rows: 0)
        }
        if let text = command["run"]?.stringValue {
            let arguments = command["arguments"]?.objectValue ?? ObjectValue()
            let times = Int(command["times"]?.intValue ?? 1)
            if let file = command["sqlite"]?.stringValue {
                let (seconds, rows) = try Reference(file: file).run(text, times: times)
                return self.times(seconds, rows: rows)
            }
            return try run(
                text, arguments, times: times, isDecoded: command["decoded"]?.boolValue ?? false)
        }
        if let text = command["index"]?.stringValue { return try index(text) }
        return ObjectValue([(key: "bytes", value: .int(Int64(Self.memory.bytes)))])
    }

    private func times(_ seconds: [Double], rows: Int) -> ObjectValue {
        ObjectValue([
            (key: "seconds", value: .array(seconds.map { .double($0) })),
            (key: "rows", value: .int(Int64(rows))),
        ])
    }

    private func load(_ file: String, batch: Int) throws -> [Double] {
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
        let documents = try lines.map { try JSONText.parse(String($0)) }
        let statement = try statements.prepare("INSERT INTO d DOCUMENTS (:all)")
        var seconds: [Double] = []
        var place = 0
        while place < documents.count {
            let end = min(place + batch, documents.count)
            let arguments = ObjectValue([(key: "all", value: .array(Array(documents[place..<end])))])
            let start = now()
            _ = try replica.write { transaction in
                try statement.execute(in: transaction, arguments: arguments) {
                    try DocumentID(.string("none"))
                }
            }
            seconds.append(now() - start)
            place = end
        }
        return seconds
    }

    private func run(
        _ text: String, _ arguments: ObjectValue, times: Int, isDecoded: Bool
    ) throws -> ObjectValue {
        var seconds: [Double] = []
        var count = 0
        for _ in 0..<times {
            var rows: [KeptRow] = []
            let start = now()
            let statement = try statements.prepare(text)
            _ = try replica.read { transaction in
                try statement.forEachResult(in: transaction, arguments: arguments) { row in
                    rows.append(isDecoded ? KeptRow(try row.value) : row.kept)
                    return true
                }
            }
            seconds.append(now() - start)
            count = rows.count
        }
        return self.times(seconds, rows: count)
    }

    private func index(_ text: String) throws -> ObjectValue {
        let start = now()
        guard let change = try statements.prepare(text).indexChange(SystemParameters()) else {
            return ObjectValue()
        }
        try replica.change(change)
        return times([now() - start], rows: 0)
    }
}

guard CommandLine.arguments.count == 2 else {
    FileHandle.standardError.write(Data("usage: queries DIRECTORY\n".utf8))
    exit(2)
}
let driver = Driver(
    replica: try PeerReplica(
        directory: CommandLine.arguments[1], environment: environment(),
        logger: Logger(label: "queries")))
while let line = readLine() {
    guard let command = try JSONText.parse(line).objectValue else { continue }
    let answer = try driver.answer(command)
    FileHandle.standardOutput.write(Data((JSONText.print(.object(answer)) + "\n").utf8))
}
try driver.replica.close()
