import CRDT
import DittoSwift
import Synchronization
import TestSupport
import Testing

@testable import Mimeo

@Suite("A peer's lines", .timeLimit(.minutes(5)))
struct PeerConsoleTests {
    /// The output of a console, line by line.
    private final class Output: Sendable {
        private let text = Mutex("")
        var writer: LineWriter {
            LineWriter { data in self.text.withLock { $0 += String(decoding: data, as: UTF8.self) } }
        }
        var events: [Value] {
            text.withLock { $0 }.split(separator: "\n").compactMap { try? JSONText.parse(String($0)) }
        }
        func wait(until isEnough: ([Value]) -> Bool) async -> [Value] {
            let deadline = ContinuousClock.now + .seconds(60)
            while !isEnough(events), ContinuousClock.now < deadline {
                try? await Task.sleep(for: .milliseconds(5))
            }
            return events
        }
    }

    private func withServer(
        _ body: @escaping @Sendable (EmbeddedServer, Ditto, PeerConsole, Output) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("peer")))
                let output = Output()
                try await body(server, ditto, PeerConsole(ditto: ditto, output: output.writer), output)
                await ditto.close()
            }
        }
    }

    @Test("statements are answered as the command line does, offline too")
    func statements() async throws {
        try await withServer { _, _, console, _ in
            let write = await console.answer("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(write["commitID"] == 1)
            #expect(await console.answer("  SELECT * FROM c")["items"] == [["_id": 1]])
            let wrong = await console.answer("SELEKT")
            #expect(wrong["error"]?["code"] == "DQL-0105")
            #expect(wrong["error"]?["column"] == 1)
        }
    }

    @Test("sync starts, acknowledges, stops, and says how it stands")
    func sync() async throws {
        try await withServer { server, _, console, output in
            console.logIn(token: server.token, provider: "development")
            _ = await console.answer("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(await console.answer(".wait 1 0.05")["error"]?["code"] == "CLI-0502")
            let before = await console.answer(".status")
            #expect(before["status"] == "stopped")
            #expect(before["connected"] == false)
            #expect(before["commitID"] == 1)
            #expect(before["acknowledgedCommitID"] == 0)
            #expect(await console.answer(".sync start") == ["sync": "started"])
            #expect(await console.answer(".wait 1") == ["acknowledged": 1])
            let after = await console.answer(".status")
            #expect(after["connected"] == true)
            #expect(after["userID"] == "development")
            #expect(after["acknowledgedCommitID"] == 1)
            #expect(await console.answer(".sync stop") == ["sync": "stopped"])
            #expect(await console.answer(".status")["status"] == "stopped")
            #expect(output.events.isEmpty)
        }
    }

    @Test("an observer answers with its number and tells results as events")
    func observe() async throws {
        try await withServer { _, _, console, output in
            #expect(await console.answer(".observe SELECT * FROM c") == ["observer": 1])
            _ = await output.wait { $0.count == 1 }
            _ = await console.answer("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let events = await output.wait { $0.count == 2 }
            #expect(
                events == [
                    ["event": "observe", "observer": 1, "query": "SELECT * FROM c", "items": []],
                    ["event": "observe", "observer": 1, "query": "SELECT * FROM c", "items": [["_id": 1]]],
                ])
            let writing = await console.answer(".observe DELETE FROM c")["error"]
            #expect(writing?["code"] == "SDK-0204")
            #expect(writing?["line"] == 1 && writing?["column"] == 1)
            #expect(await console.answer(".observe SELEKT")["error"]?["line"] == 1)
            let open = "SELECT * FROM c WHERE a = :x"
            let missing = await console.answer(".observe \(open)")
            #expect(missing["error"]?["code"] == "DQL-0501" && missing["error"]?["column"] != nil)
            #expect(missing == (await console.answer(open)))
        }
    }

    @Test(
        "a dot command that is none is an error",
        arguments: [
            ".", ".nope", ".sync", ".sync now", ".wait", ".wait x", ".wait 1 -1", ".wait 1 2 3", ".observe",
        ])
    func unknown(line: String) async throws {
        try await withServer { _, _, console, _ in
            #expect(await console.answer(line)["error"]?["code"] == "CLI-0501")
        }
    }

    @Test("a login that fails is an event, told once, and part of the status")
    func loginFails() async throws {
        try await withServer { _, ditto, console, output in
            console.logIn(token: "wrong", provider: "development")
            _ = await console.answer(".sync start")
            let events = await output.wait { !$0.isEmpty }
            #expect(events.first?["event"] == "login")
            #expect(events.first?["error"]?["code"] == "AUTH-0404")
            try await Task.sleep(for: .milliseconds(700))
            #expect(output.events.count == 1)
            #expect(await console.answer(".status")["loginError"]?["code"] == "AUTH-0404")
            #expect(await console.answer("SELECT * FROM c")["items"] == [])
            // Closing breaks off whatever is under way: no other event, and the reason stays.
            await ditto.close()
            #expect(output.events.count == 1)
            #expect(ditto.auth?.lastFailure?.code == "AUTH-0404")
        }
    }
}
