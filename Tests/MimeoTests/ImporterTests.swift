import CRDT
import DittoSwift
import Synchronization
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

    @discardableResult
    private func load(
        _ file: DocumentFile, _ collection: String, _ runner: any StatementRunner, id: String? = nil,
        _ policy: OnConflict = .update, skips: SkippedRecords = SkippedRecords(keepGoing: false)
    ) async throws -> Importer.Outcome {
        let importer = Importer(
            runner: runner, collection: try NamedCollection(collection, advice: ""), policy: policy)
        let reader = try file.reader(notes: ImportNotes()).reader
        return try await importer.run(RecordFeed(reader, idField: id, skips: skips), skips: skips)
    }

    private func items(_ runner: LocalRunner, _ query: String) async -> [Value] {
        guard case .result(let result) = await runner.run(query, arguments: ObjectValue()) else { return [] }
        return result.items
    }

    @Test("the id field becomes _id and stays; a table's id is always text")
    func ids() async throws {
        try await withStore { runner, directory in
            let json = try write(#"[{"code": 7, "_id": "old", "n": 1}]"#, "a.json", directory)
            let outcome = try await load(json, "j", runner, id: "code")
            #expect(outcome == Importer.Outcome(documents: 1, commit: 1))
            #expect(await items(runner, "SELECT * FROM j") == [["_id": 7, "code": 7, "n": 1]])
            let csv = try write("code,n\n7,1\n007,2\n", "a.csv", directory)
            try await load(csv, "t", runner, id: "code")
            #expect(
                await items(runner, "SELECT * FROM t ORDER BY n") == [
                    ["_id": "7", "code": "7", "n": 1], ["_id": "007", "code": "007", "n": 2],
                ])
        }
    }

    @Test("a document that exists is updated, also by a later one of the same file; names are quoted")
    func updates() async throws {
        try await withStore { runner, directory in
            let file = try write(#"[{"_id": 1, "a": 1, "b": 1}, {"_id": 1, "a": 2}]"#, "a.json", directory)
            let name = "my `cars`"
            #expect(
                try await load(file, name, runner) == Importer.Outcome(documents: 2, updated: 1, commit: 2))
            #expect(await items(runner, "SELECT * FROM `my ``cars```") == [["_id": 1, "a": 2, "b": 1]])
            let more = try write(#"[{"_id": 1, "a": 2}, {"_id": 2}, {}]"#, "b.json", directory)
            #expect(
                try await load(more, name, runner)
                    == Importer.Outcome(documents: 3, updated: 1, commit: 3, before: 1, nameless: 1))
        }
    }

    @Test("documents that come without ids are told where there are others: a second time they come in twice")
    func namelessDocuments() async throws {
        func told(_ outcome: Importer.Outcome) -> [String] { notes { outcome.note(collection: "c", $0) } }
        try await withStore { runner, directory in
            let file = try write("k,n\nx,1\ny,2\n", "a.csv", directory)
            #expect(told(try await load(file, "c", runner)) == [])
            #expect(
                told(try await load(file, "c", runner)) == [
                    "CLI-W109 2 documents have no _id and got new ones, beside the 2 that were in 'c' "
                        + "before: the same file would come in twice; --id FIELD takes the ids from a field"
                ])
            #expect(told(try await load(file, "c", runner, id: "k")) == [])
            let mixed = try write(#"[{"_id": 1}, {}]"#, "a.json", directory)
            #expect(
                told(try await load(mixed, "c", runner)).first?.hasPrefix("CLI-W109 1 document has ") == true)
        }
    }

    @Test("replace removes the fields that a record has not, at every depth, and only of its documents")
    func replaces() async throws {
        try await withStore { runner, directory in
            let old = try write(
                #"[{"_id": 1, "a": 1, "b`c.d": 1, "o": {"x": 1, "y": {"z": 1}}}, {"_id": 2, "a": 1, "o": 5},"#
                    + #" {"_id": "other", "a": 1}]"#, "old.json", directory)
            try await load(old, "c", runner)
            let new = try write(
                #"[{"_id": 1, "a": 2, "o": {"y": {"w": 2}}}, {"_id": 2, "o": {"q": 1}}, {"_id": 3, "a": 3}]"#,
                "new.json", directory)
            let outcome = try await load(new, "c", runner, .replace)
            #expect(outcome.documents == 3 && outcome.updated == 2)
            let found: [Value] = [
                ["_id": 1, "a": 2, "o": ["y": ["w": 2]]], ["_id": 2, "o": ["q": 1]], ["_id": 3, "a": 3],
                ["_id": "other", "a": 1],
            ]
            #expect(await items(runner, "SELECT * FROM c ORDER BY _id") == found)
        }
    }

    @Test("documents with the same surplus fields are changed by one statement")
    func surplus() {
        func document(_ id: Value, _ names: String...) -> ObjectValue {
            ObjectValue([(key: "_id", value: id)] + names.map { (key: $0, value: 1) })
        }
        let groups = SurplusFields.groups([
            (document(1, "a", "b"), document(1, "a")), (document(2, "b"), document(2)),
            (document(3, "a`b"), document(3)), (document(4, "a"), document(4, "a")),
        ])
        #expect(
            groups == [
                SurplusFields(paths: ["`b`"], ids: [1, 2]), SurplusFields(paths: ["`a``b`"], ids: [3]),
            ]
        )
    }

    @Test("transactions hold a thousand documents; a wrong one keeps its own batch out and says what is in")
    func batches() async throws {
        try await withStore { runner, directory in
            let good = (0..<1_500).map { "{\"_id\": \($0)}\n" }.joined()
            let file = try write(good + "nonsense\n", "a.ndjson", directory)
            await #expect { try await load(file, "c", runner) } throws: { error in
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
            let large = String(repeating: "x", count: 6 * 1_048_576)
            let file = try write("{\"_id\": 1, \"a\": \"\(large)\"}", "a.json", directory)
            await #expect { try await load(file, "c", runner) } throws: { error in
                (error as? MimeoError)?.code == .importFailed
                    && (error as? MimeoError)?.message.contains("a.json:1: document 1: ") == true
            }
            let ids = try write(#"[{"_id": 1}, {"_id": 1.5}]"#, "b.json", directory)
            await #expect { try await load(ids, "c", runner) } throws: { error in
                (error as? MimeoError)?.code == .fileMalformed
                    && (error as? MimeoError)?.message.contains("document 2: its id is none") == true
            }
            await #expect { try await load(ids, "c", runner, id: "none") } throws: {
                ($0 as? MimeoError)?.code == .fileMalformed
            }
            #expect(await items(runner, "SELECT * FROM c").isEmpty)
        }
    }

    @Test("wrong records are skipped, counted and reported if asked; all others are written")
    func keepGoing() async throws {
        try await withStore { runner, directory in
            try await load(try write(#"{"_id": 7, "a": 0}"#, "old.json", directory), "c", runner)
            let lines =
                (0..<20).map { "{\"_id\": \($0), \"a\": 1}" } + [
                    "{", "5", #"{"_id": null}"#, #"{"_id": 20}"#,
                ]
            let file = try write(lines.joined(separator: "\n"), "a.ndjson", directory)
            let reports = Mutex<[String]>([])
            let skips = SkippedRecords(keepGoing: true) { text in reports.withLock { $0.append(text) } }
            let outcome = try await load(file, "c", runner, .fail, skips: skips)
            #expect(outcome.documents == 20 && outcome.updated == 0 && skips.count == 4)
            let texts = reports.withLock { $0 }
            #expect(
                texts.count == 4 && texts.contains { $0.contains("CLI-0404") && $0.contains("a.ndjson:8") })
            #expect(await items(runner, "SELECT COUNT(*) AS n, SUM(a) AS s FROM c") == [["n": 21, "s": 19]])
        }
    }

    @Test("an existing document fails, is ignored or is updated, as --on-conflict says")
    func conflicts() async throws {
        try await withStore { runner, directory in
            try await load(try write(#"{"_id": 1, "a": 1, "b": 1}"#, "a.json", directory), "c", runner)
            let file = try write(#"[{"_id": 1, "a": 2}, {"_id": 2}]"#, "b.json", directory)
            await #expect { try await load(file, "c", runner, .fail) } throws: {
                ($0 as? MimeoError)?.code == .importFailed
            }
            let ignored = try await load(file, "c", runner, .ignore)
            #expect(ignored == Importer.Outcome(documents: 2, ignored: 1, commit: ignored.commit, before: 1))
            #expect(await items(runner, "SELECT * FROM c WHERE _id = 1") == [["_id": 1, "a": 1, "b": 1]])
            let updated = try await load(file, "c", runner, .updateLocalDiff)
            #expect(updated.documents == 2 && updated.updated == 2)
            #expect(await items(runner, "SELECT * FROM c WHERE _id = 1") == [["_id": 1, "a": 2, "b": 1]])
        }
    }

    @Test("a system collection is refused by name, before a file is read")
    func systemCollections() {
        for name in ["system:indexes", "SYSTEM:x"] {
            #expect {
                try NamedCollection(name, advice: ", which nobody can write")
            } throws: {
                ($0 as? MimeoError)?.code == .usage && ($0 as? MimeoError)?.message.contains(name) == true
            }
        }
        #expect(throws: MimeoError.self) { try NamedCollection("", advice: "") }
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
