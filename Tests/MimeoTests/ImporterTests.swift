import CRDT
import DittoSwift
import TestSupport
import Testing

@testable import Mimeo

@Suite("Importing")
struct ImporterTests {
    private func withStore(_ body: (LocalRunner, URL) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.appendingPathComponent("store").path)
            try await body(runner, directory)
            await runner.close()
        }
    }

    private func write(_ text: String, _ name: String, _ directory: URL) throws -> DocumentFile {
        let url = directory.appendingPathComponent(name)
        try Data(text.utf8).write(to: url)
        return try DocumentFile(path: url.path)
    }

    private func items(_ runner: LocalRunner, _ query: String) async -> [Value] {
        guard case .result(let result) = await runner.run(query, arguments: ObjectValue()) else { return [] }
        return result.items
    }

    @Test("the id field becomes _id and stays; a table's id is always text")
    func ids() async throws {
        try await withStore { runner, directory in
            let json = try write(#"[{"code": 7, "_id": "old", "n": 1}]"#, "a.json", directory)
            let outcome = try await Importer(ditto: runner.ditto, collection: "j", idField: "code").run(json)
            #expect(outcome == Importer.Outcome(documents: 1, commit: 1))
            #expect(await items(runner, "SELECT * FROM j") == [["_id": 7, "code": 7, "n": 1]])
            let csv = try write("code,n\n7,1\n007,2\n", "a.csv", directory)
            _ = try await Importer(ditto: runner.ditto, collection: "t", idField: "code").run(csv)
            #expect(
                await items(runner, "SELECT * FROM t ORDER BY n") == [
                    ["_id": "7", "code": 7, "n": 1], ["_id": "007", "code": "007", "n": 2],
                ])
        }
    }

    @Test("a document that exists is updated, also by a later one of the same file; names are quoted")
    func updates() async throws {
        try await withStore { runner, directory in
            let file = try write(#"[{"_id": 1, "a": 1, "b": 1}, {"_id": 1, "a": 2}]"#, "a.json", directory)
            let importer = Importer(ditto: runner.ditto, collection: "my `cars`", idField: nil)
            #expect(try await importer.run(file) == Importer.Outcome(documents: 2, updated: 1, commit: 2))
            #expect(await items(runner, "SELECT * FROM `my ``cars```") == [["_id": 1, "a": 2, "b": 1]])
            let more = try write(#"[{"_id": 1, "a": 2}, {"_id": 2}, {}]"#, "b.json", directory)
            #expect(try await importer.run(more) == Importer.Outcome(documents: 3, updated: 1, commit: 3))
        }
    }

    @Test("transactions hold a thousand documents; a wrong one keeps its own batch out and says what is in")
    func batches() async throws {
        try await withStore { runner, directory in
            let good = (0..<1_500).map { "{\"_id\": \($0)}\n" }.joined()
            let file = try write(good + "nonsense\n", "a.ndjson", directory)
            let importer = Importer(ditto: runner.ditto, collection: "c", idField: nil)
            await #expect { try await importer.run(file) } throws: { error in
                guard let error = error as? MimeoError else { return false }
                return error.code == .fileMalformed && error.message.contains(":1501: ")
                    && error.message.contains("1000 documents before it were imported")
            }
            #expect(await items(runner, "SELECT COUNT(*) AS n FROM c") == [["n": 1_000]])
        }
    }

    @Test("documents that cannot be stored are an error with their place")
    func refused() async throws {
        try await withStore { runner, directory in
            let file = try write(#"[{"_id": 1}, {"_id": 1.5}]"#, "a.json", directory)
            await #expect {
                try await Importer(ditto: runner.ditto, collection: "c", idField: nil).run(file)
            } throws: { error in
                (error as? MimeoError)?.code == .importFailed
                    && (error as? MimeoError)?.message.contains("DQL-0604") == true
            }
            await #expect {
                try await Importer(ditto: runner.ditto, collection: "c", idField: "none").run(file)
            } throws: { ($0 as? MimeoError)?.code == .fileMalformed }
            #expect(await items(runner, "SELECT * FROM c").isEmpty)
        }
    }

    @Test("a store in use is exit code 4, one that cannot be opened 1")
    func locked() async throws {
        try await withStore { runner, directory in
            let path = directory.appendingPathComponent("store").path
            await #expect { try await LocalRunner(store: path) } throws: {
                ($0 as? MimeoError)?.code == .storeLocked && ($0 as? MimeoError)?.exitCode == 4
            }
            await #expect { try await LocalRunner(store: "/proc/none") } throws: {
                ($0 as? MimeoError)?.code == .storeUnusable && ($0 as? MimeoError)?.exitCode == 1
            }
        }
    }
}
