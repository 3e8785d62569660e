import CRDT
import DittoSwift
import Foundation
import TestSupport
import Testing

@testable import Mimeo

@Suite("Exporting")
struct ExportTests {
    /// Every kind of value, ids of every kind, and fields of several types.
    static let documents: [Value] = [
        [
            "_id": "text", "n": .null, "t": true, "f": false, "small": .int(.min), "large": .int(.max),
            "zero": 0,
        ],
        [
            "_id": 7, "n": "x", "one": 1.0, "tiny": .double(.leastNonzeroMagnitude),
            "huge": 1.7976931348623157e308, "minus": .double(-0.0),
        ],
        [
            "_id": ["a": 1, "b": "x"], "n": 5, "s": "quotes \" and ' and, commas;\ttabs",
            "lines": "a\nb\r\nc\rd",
        ],
        [
            "_id": true, "n": 5.0, "s": "", "u": "ü 😀 e\u{301} \u{FEFF} \u{0} \u{1}", "digits": "007",
            "looks": "true",
        ],
        [
            "_id": [1, "a"], "o": ["p": ["q": [:], "r": []], "x y": .null],
            "l": [1, 1.0, "1", .null, [2, ["z": 3]]],
        ],
        [
            "_id": "sep=;", "sep=;": "x", "a,b": 1, "c=d": true, " ": "space", "one": 2.5, "small": 1,
            "_": [:],
        ],
    ]

    private func withStore(_ body: (LocalRunner, URL) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.appendingPathComponent("store").path)
            try await body(runner, directory)
            await runner.close()
        }
    }

    private func insert(_ documents: [Value], _ runner: LocalRunner) async throws {
        _ = try await runner.ditto.store.run(
            "INSERT INTO c DOCUMENTS (:all)", arguments: ObjectValue([(key: "all", value: .array(documents))])
        )
    }

    private func export(
        _ rows: ExportRows, _ format: ExportFormat, to url: URL, _ runner: LocalRunner,
        _ notes: ImportNotes = ImportNotes()
    ) async throws -> ObjectValue {
        let sink = try ExportSink(path: url.path)
        var writer = try format.writer(sink, notes, columns: rows.columns)
        try await rows.forEach(runner) { try writer.add($0) }
        var answer = ObjectValue()
        try writer.finish(&answer)
        try sink.finish()
        return answer
    }

    private func sorted(_ values: [Value]) -> [String] {
        values.map { JSONText.print($0, sortedKeys: true) }.sorted()
    }

    @Test("every kind of value comes back as itself", arguments: ExportFormat.allCases)
    func roundTrip(format: ExportFormat) async throws {
        try await withStore { runner, directory in
            try await insert(Self.documents, runner)
            let url = directory.appendingPathComponent("all.\(format.rawValue)")
            let collection = try NamedCollection("c", advice: "")
            let answer = try await export(.collection(collection), format, to: url, runner)
            let given = (answer["importOptions"]?.arrayValue ?? []).compactMap(\.stringValue)
            let types = try given.dropFirst().flatMap { try ImportCommand.types($0) }
            let open = try DocumentFile(path: url.path, options: ReadingOptions(types: types))
                .reader(notes: ImportNotes())
            let skips = SkippedRecords(keepGoing: false)
            let again = try NamedCollection("again", advice: "")
            let outcome = try await Importer(runner: runner, collection: again)
                .run(RecordFeed(open.reader, idField: nil, skips: skips), skips: skips)
            #expect(outcome.documents == Self.documents.count && outcome.updated == 0)
            let back = try await runner.ditto.store.run("SELECT * FROM again", arguments: ObjectValue()).rows
            #expect(sorted(back) == sorted(Self.documents))
            #expect(!FileManager.default.fileExists(atPath: url.path + ".partial"))
        }
    }

    @Test("an answer on the command line tells of a number that JSON cannot hold; a plain one has no warning")
    func unwritable() async throws {
        try await withStore { runner, _ in
            for (expression, count) in [("1e308 * 10", 1), ("[-1e308 * 10]", 1), ("1e308", 0)] {
                let answer = await runner.run(
                    "SELECT \(expression) AS x FROM system:dual", arguments: ObjectValue())
                let warnings = answer.json["warnings"]?.arrayValue ?? []
                #expect(warnings.compactMap { $0["code"] } == Array(repeating: "CLI-W108", count: count))
            }
        }
    }

    @Test(
        "an export without rows has its columns, and imports as no documents",
        arguments: ExportFormat.allCases)
    func empty(format: ExportFormat) async throws {
        try await withStore { runner, directory in
            try await insert([["_id": 1, "a": 2]], runner)
            let none = try NamedCollection("none", advice: "")
            let queries = [
                "SELECT * FROM none",
                "SELECT _id, a AS `x, y`, COUNT(*) AS n FROM c WHERE a = 3 GROUP BY _id, a",
                "SELECT a + 1 FROM c WHERE FALSE",
                "SELECT * FROM c JOIN c AS d ON d._id = c.a WHERE c.a = 0",
            ]
            var headers: [String] = []
            for rows in [.collection(none)] + queries.map(ExportRows.query) {
                let url = directory.appendingPathComponent("none.\(format.rawValue)")
                _ = try await export(rows, format, to: url, runner)
                headers.append(try String(contentsOf: url, encoding: .utf8))
                let open = try DocumentFile(path: url.path, options: ReadingOptions())
                    .reader(notes: ImportNotes())
                let skips = SkippedRecords(keepGoing: false)
                let outcome = try await Importer(runner: runner, collection: none)
                    .run(RecordFeed(open.reader, idField: nil, skips: skips), skips: skips)
                #expect(outcome.documents == 0)
            }
            let columns = ["_id\n", "_id\n", "_id,\"x, y\",n\n", "\"($1)\"\n", "c,d\n"]
            #expect(format != .csv || headers == columns)
        }
    }

    @Test("a table quotes texts only, and names the columns that hold JSON")
    func tables() async throws {
        try await withStore { runner, directory in
            try await insert(
                [["_id": "a", "n": 1, "m": 1, "t": "1"], ["_id": "b", "n": -2, "m": "x", "d": 0.5]], runner)
            let url = directory.appendingPathComponent("t.csv")
            let answer = try await export(
                .query("SELECT _id, n, m, t, d FROM c ORDER BY n DESC"), .csv, to: url, runner)
            #expect(
                try String(contentsOf: url, encoding: .utf8)
                    == "_id,n,m,t,d\n\"a\",1,1,\"1\",\n\"b\",-2,\"\"\"x\"\"\",,0.5\n")
            #expect(answer["importOptions"] == ["--types", "m=json"])
            let quoted = try await export(
                .query("SELECT t AS `x y` FROM c WHERE t = '1'"), .csv, to: url, runner)
            #expect(try String(contentsOf: url, encoding: .utf8) == "\"x y\"\n\"1\"\n")
            #expect(quoted["importOptions"] == ["--text", "x y"])
            let dashed = try await export(
                .query("SELECT m AS `-x`, t AS `-y` FROM c"), .csv, to: url, runner)
            #expect(dashed["importOptions"] == ["--types=-x=json"])
            let dashedText = try await export(
                .query("SELECT t AS `-x y` FROM c WHERE t = '1'"), .csv, to: url, runner)
            #expect(dashedText["importOptions"] == ["--text=-x y"])
            #expect(answer["columns"]?["d"] == "decimal" && answer["columns"]?["n"] == "integer")
        }
    }

    @Test("many documents are read in parts, each once, and nothing is an empty array")
    func parts() async throws {
        try await withStore { runner, directory in
            let url = directory.appendingPathComponent("a.json")
            let collection = try NamedCollection("c", advice: "")
            _ = try await export(.collection(collection), .json, to: url, runner)
            #expect(try String(contentsOf: url, encoding: .utf8) == "[]\n")
            let count = Limits.exportBatchDocuments * 2 + 1
            try await insert((0..<count).map { ["_id": .int(Int64($0))] }, runner)
            _ = try await export(.collection(collection), .json, to: url, runner)
            let back = try JSONText.parse([UInt8](try Data(contentsOf: url))).arrayValue ?? []
            #expect(Set(back.compactMap { $0["_id"]?.intValue }).count == count && back.count == count)
        }
    }

    @Test("what a format cannot hold is an error or told, and an older file stays as it was")
    func limits() async throws {
        try await withStore { runner, directory in
            let url = directory.appendingPathComponent("a.csv")
            try Data("old".utf8).write(to: url)
            try await insert([["_id": 1, "": 2], ["_id": 2, "a": 1]], runner)
            for query in ["SELECT * FROM c", "SELECT a FROM c ORDER BY _id", "SELECT nonsense( FROM c"] {
                await #expect { try await export(.query(query), .csv, to: url, runner) } throws: {
                    ($0 as? MimeoError)?.code == .exportFailed
                }
            }
            #expect(try String(contentsOf: url, encoding: .utf8) == "old")
            #expect(throws: MimeoError.self) { try ExportSink(path: "/none/such/file") }
            let notes = ImportNotes()
            noteChanges(object(("_id", 1), ("a", [.double(.nan), .binary([1])])), notes)
            #expect(
                notes.all.map(\.code) == [.valueChanged]
                    && notes.all[0].message == "document 1: nan was written as null")
        }
    }

    @Test("the progress bar shows the share of the file and never more than all of it")
    func progress() {
        #expect(Progress.line("imported", 50, of: 200) == "[######------------------] 25 % imported")
        #expect(Progress.line("read", 9, of: 3).hasSuffix("] 100 % read"))
        #expect(Progress.line("read", 0, of: 0).hasSuffix("] 100 % read"))
    }

    @Test("the warnings of a query come along")
    func warnings() async throws {
        try await withStore { runner, _ in
            try await insert([["_id": 1, "n": "5"]], runner)
            let told = try await ExportRows.query("SELECT * FROM c WHERE n = 5").forEach(runner) { _ in }
            #expect(told.first?["code"] == "DQL-W106")
        }
    }
}
