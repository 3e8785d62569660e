import CRDT
import DittoSwift
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Mimeo

@Suite("Statements on the command line")
struct StatementTests {
    @Test("an answer has always the same keys")
    func keys() async throws {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.path)
            let document: Value = ["_id": 1, "x": 1.0]
            let write = await runner.run(
                "INSERT INTO c DOCUMENTS (:d)", arguments: ObjectValue([(key: "d", value: document)]))
            #expect(
                JSONText.print(write.json)
                    == #"{"items":[],"mutatedDocumentIDs":[1],"commitID":1,"warnings":[]}"#)
            let read = await runner.run("SELECT * FROM c", arguments: ObjectValue([(key: "y", value: 1)]))
            #expect(read.json["items"] == .array([["_id": 1, "x": 1.0]]))
            #expect(read.json["commitID"] == 1)
            #expect(read.json["warnings"]?.arrayValue?.first?["code"] == "DQL-W101")
            let wrong = await runner.run("SELECT * FROM", arguments: ObjectValue())
            #expect(wrong.isFailure)
            #expect(wrong.json["error"]?["line"] == 1)
            #expect(wrong.json["error"]?["column"] == 14)
            await runner.close()
        }
    }

    @Test("a store opens without a database and for its own, and for another one it is unusable")
    func otherDatabase() async throws {
        try await withTemporaryDirectory { directory in
            for database in [nil, "boats", nil, "boats"] {
                let runner = try await LocalRunner(store: directory.path, database: database)
                #expect(await !runner.run("SELECT * FROM c", arguments: ObjectValue()).isFailure)
                await runner.close()
            }
            await #expect { try await LocalRunner(store: directory.path, database: "cars") } throws: {
                guard let error = $0 as? MimeoError else { return false }
                return error.code == .storeUnusable && error.exitCode == 1
                    && error.message.hasPrefix("STORE-0106") && error.message.contains("boats")
            }
        }
    }

    @Test("a server's envelope becomes the same answer")
    func envelope() {
        let body: Value = [
            "transactionId": 7, "queryType": "select", "items": [["a": 1.0]], "mutatedDocumentIds": ["x"],
            "error": ["code": "", "message": ""], "warnings": [["description": "careful"]],
            "totalWarningsCount": 1,
        ]
        #expect(
            Answer.result(RemoteRunner.result(body)).json == [
                "items": [["a": 1.0]], "mutatedDocumentIDs": ["x"], "commitID": 7,
                "warnings": [["message": "careful"]],
            ])
        let refused = RemoteRunner.problem(
            400, ["error": ["code": "DQL-0105", "description": "text", "line": 1, "column": 9]])
        #expect(refused == Answer.Problem(code: "DQL-0105", message: "text", line: 1, column: 9))
        #expect(RemoteRunner.problem(502, nil).code == "HTTP-502")
        let suggesting = RemoteRunner.problem(400, ["error": ["message": "text", "suggestion": "SELECT"]])
        #expect(suggesting.message == "text (did you mean SELECT?)")
    }

    @Test("statements run on a server after a login; a refusal is exit code 3")
    func remote() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.path) { server in
                let runner = try await RemoteRunner(
                    origin: server.url, databaseID: server.databaseID, provider: "development",
                    token: server.token)
                let write = try await runner.run(
                    "INSERT INTO c DOCUMENTS ({'_id': 1})", arguments: ObjectValue())
                #expect(write.json["mutatedDocumentIDs"] == [1])
                let read = try await runner.run("SELECT * FROM c", arguments: ObjectValue())
                #expect(read.json["items"] == [["_id": 1]])
                let wrong = try await runner.run("EVICT FROM c", arguments: ObjectValue())
                #expect(wrong.isFailure)
                let misspelt = try await runner.run("SELEKT", arguments: ObjectValue())
                let local = try await LocalRunner(store: directory.appendingPathComponent("peer").path)
                #expect(misspelt.json == (await local.run("SELEKT", arguments: ObjectValue())).json)
                #expect(misspelt.json["error"]?["message"]?.stringValue?.hasSuffix("SELECT?)") == true)
                await local.close()
                await #expect {
                    try await RemoteRunner(
                        origin: server.url, databaseID: server.databaseID, provider: "development",
                        token: "no")
                } throws: {
                    ($0 as? MimeoError)?.code == .notLoggedIn && ($0 as? MimeoError)?.exitCode == 3
                }
                let keyed = try RemoteRunner(origin: server.url, apiKey: "nonsense")
                await #expect { try await keyed.run("SELECT * FROM c", arguments: ObjectValue()) } throws: {
                    ($0 as? MimeoError)?.code == .notLoggedIn
                }
            }
            await #expect {
                try await RemoteRunner(
                    origin: "http://127.0.0.1:1", databaseID: "x", provider: "p", token: "t")
            } throws: {
                ($0 as? MimeoError)?.code == .serverUnreachable && ($0 as? MimeoError)?.exitCode == 3
            }
            #expect { try RemoteRunner(origin: "127.0.0.1", apiKey: "k") } throws: {
                ($0 as? MimeoError)?.code == .usage && ($0 as? MimeoError)?.exitCode == 2
            }
        }
    }

    @Test("blank lines and comments are no statements")
    func statementLines() {
        #expect(["SELECT 1", "  SELECT"].allSatisfy(StatementSource.isStatement))
        #expect(!["", "   ", "-- x", "  --"].contains(where: StatementSource.isStatement))
    }

    @Test("input is handed out line by line, to the end")
    func input() async {
        let lines = Mutex(["a", "b", "c"])
        let input = StandardInput { lines.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
        var read: [String] = []
        while let line = await input.next() { read.append(line) }
        #expect(read == ["a", "b", "c"])
        #expect(await input.next() == nil)
    }

    @Test("a parsed statement is a tree, a wrong one an error with its place")
    func parse() {
        let good = ParseCommand.answer("SELECT * FROM cars WHERE a.b = 1")
        #expect(good["ok"] == true)
        #expect(good["ast"]?["node"] == "select")
        let bad = ParseCommand.answer("SELECT FROM")
        #expect(bad["ok"] == false)
        #expect(bad["error"]?["line"] == 1)
        #expect(bad["error"]?["column"] == 8)
    }

    @Test("a table has a column for each field, numbers to the right, and cuts what is long")
    func table() {
        let result = Answer.Result(
            items: [
                ["_id": "a", "n": 1, "map": ["x": 1]], ["_id": "bcd", "n": 100],
                ["_id": .string("two\nlines " + String(repeating: "x", count: 80))],
            ], mutatedDocumentIDs: [], commitID: 3, warnings: [["code": "W", "message": "careful"]])
        let text = FormattedAnswer(.result(result), of: "", as: .table).output ?? ""
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(lines[0].hasPrefix("_id  "))
        #expect(lines[2].hasPrefix("a  "))
        #expect(lines[2].hasSuffix(#"  1  {"x":1}"#))
        #expect(lines[3].hasSuffix("  100"))
        #expect(lines[4].hasPrefix("two lines x") && lines[4].hasSuffix("…"))
        #expect(lines[4].count == Limits.tableColumnCharacters)
        #expect(lines[5...] == ["3 rows", "warning: careful"])
        let write = Answer.Result(items: [], mutatedDocumentIDs: [1], commitID: 3, warnings: [])
        let written = FormattedAnswer(.result(write), of: "", as: .table)
        #expect(written.output == "1 document written, commit 3")
    }

    @Test("every code of the command line has an exit code of the contract")
    func exitCodes() {
        let codes = Dictionary(grouping: MimeoErrorCode.allCases) { MimeoError($0, "").exitCode }
        #expect(Set(codes.keys) == [1, 2, 3, 4])
        #expect(codes[4] == [.storeLocked])
        #expect(codes[3] == [.serverUnreachable, .notLoggedIn])
    }
}
