import AsyncHTTPClient
import DittoSwift
import Foundation
import Logging
import Mimeo
import NIOCore
import ServiceKit
import TestSupport
import Testing

/// The program of the guides' samples, and rights in either language, against a server and a webhook.
@Suite("The guides of 4.x", .timeLimit(.minutes(5)))
struct GuideTests {
    @Test("the program of the guides' samples runs as they say")
    func program() async throws {
        try await withHook { server, directory in
            let folder = directory.appendingPathComponent("guide")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let process = Process()
            process.executableURL = URL(fileURLWithPath: tests).deletingLastPathComponent()
                .appendingPathComponent("LegacyGuide")
            process.arguments = [server.databaseID, Hook.token("everything")]
            process.currentDirectoryURL = folder
            process.environment = ProcessInfo.processInfo.environment.merging([
                "MIMEO_SERVER_URL": server.url
            ]) { $1 }
            let pipe = Pipe()
            process.standardOutput = pipe
            process.standardError = FileHandle.nullDevice
            try process.run()
            let output = await Task.detached {
                String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            }.value
            process.waitUntilExit()
            #expect(process.terminationStatus == 0)
            for line in [
                "Login request.", "Obtained credentials", "Login request completed. Error? nil", "people 0",
                #"versions ["1999 N/A", "2020 Rome"]"#, "Cars:1", "sync stopped", "logged out, cars 0",
            ] {
                #expect(output.contains(line), "\(line) in \(output)")
            }
            #expect(!output.contains("never came"))
            // The folder of 4.x.
            #expect(FileManager.default.fileExists(atPath: folder.appendingPathComponent("ditto").path))
            // What it wrote has reached the server; what it evicted is still there.
            let reader = peer(server, directory, "everything")
            let subscriptions = ["people", "cars"].map { reader.store[$0].findAll().subscribe() }
            try reader.startSync()
            #expect(await eventually { reader.store["people"].findAll().exec().count == 1 })
            #expect(await eventually { reader.store["cars"].findAll().exec().count == 3 })
            for subscription in subscriptions { subscription.cancel() }
            await reader.close()
        }
    }

    @Test("permission queries give the same rights in the language of 4.x and in DQL")
    func permissions() async throws {
        try await withHook { server, directory in
            let writer = peer(server, directory, "everything")
            let all = ["docs", "orders"].map { writer.store[$0].findAll().subscribe() }
            try writer.startSync()
            let ids: [DittoDocumentID] = [
                ["user": "a", "n": 1], ["user": "a", "n": 9], ["user": "b", "n": 1],
            ]
            for name in ["docs", "orders"] {
                for id in ids {
                    try writer.store[name].upsert(["_id": id, "state": "new"] as [String: Any?])
                }
            }
            var seen: [[String]] = []
            for role in ["legacy", "dql"] {
                let ditto = peer(server, directory, role)
                let subscriptions = ["docs", "orders"].map { ditto.store[$0].findAll().subscribe() }
                try ditto.startSync()
                #expect(await eventually { ditto.store["docs"].findAll().exec().count == 2 })
                #expect(await eventually { ditto.store["orders"].findAll().exec().count == 1 })
                // It may write one of them. The others become again what they are for everybody.
                for name in ["docs", "orders"] {
                    for document in ditto.store[name].findAll().exec() {
                        ditto.store[name].findByID(document.id).update { $0?["state"].set(role) }
                    }
                }
                #expect(
                    await eventually {
                        writer.store["docs"].findByID(ids[0]).exec()?["state"].stringValue == role
                    })
                func states(_ ditto: Ditto) -> [String] {
                    ["docs", "orders"].flatMap { name in
                        ditto.store[name].findAll().exec().map {
                            "\(name) \($0.id) \($0["state"].stringValue)"
                        }
                    }
                }
                #expect(await eventually { states(ditto).filter { $0.hasSuffix("new") }.count == 2 })
                #expect(states(writer).filter { $0.hasSuffix("new") }.count == 5)
                seen.append(states(ditto).map { $0.replacingOccurrences(of: role, with: "written") })
                for subscription in subscriptions { subscription.cancel() }
                await ditto.close()
            }
            #expect(seen[0] == seen[1] && seen[0].count == 3)
            for subscription in all { subscription.cancel() }
            await writer.close()
        }
    }

    @Test("a delegate is asked when there is no session, and told before its session ends")
    func expiring() async throws {
        try await withHook { server, directory in
            let called = Gathered<String>()
            let ditto = peer(server, directory, "short", called)
            try ditto.startSync()
            let calls = await called.wait { $0.contains("expiring") }
            #expect(calls.first == "required" && Set(calls) == ["required", "expiring"])
            await ditto.close()
        }
    }

    private func peer(
        _ server: EmbeddedServer, _ directory: URL, _ role: String, _ called: Gathered<String> = Gathered()
    ) -> Ditto {
        Ditto.alone(
            .onlineWithAuthentication(
                appID: server.databaseID, authenticationDelegate: Login(role: role, called: called),
                customAuthURL: URL(string: server.url)),
            in: directory.appendingPathComponent(role))
    }

    private struct Login: DittoAuthenticationDelegate {
        let role: String
        let called: Gathered<String>

        func authenticationRequired(authenticator: DittoAuthenticator) {
            called.add("required")
            authenticator.loginWithToken(Hook.token(role), provider: "my-auth") { _ in }
        }
        func authenticationExpiringSoon(authenticator: DittoAuthenticator, secondsRemaining: Int64) {
            called.add(0 < secondsRemaining && secondsRemaining <= 8 ? "expiring" : "\(secondsRemaining)")
            authenticator.loginWithToken(Hook.token(role), provider: "my-auth") { _ in }
        }
    }

    /// A server whose first database asks the webhook.
    private func withHook(
        _ body: @escaping @Sendable (EmbeddedServer, URL) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let logger = Logger(label: "hook") { _ in SwiftLogNoOpLogHandler() }
            try await ServiceHost(parts: [Hook()], listen: .anyLoopbackPort, logger: logger).run {
                place async throws in
                let data = directory.appendingPathComponent("server").path
                try await EmbeddedServer.run(data: data) { server in
                    let credential = try String(contentsOfFile: "\(data)/auth/admin.token", encoding: .utf8)
                    var request = HTTPClientRequest(
                        url: "\(server.url)/admin/auth/databases/\(server.databaseID)/providers")
                    request.method = .POST
                    let text = credential.trimmingCharacters(in: .whitespacesAndNewlines)
                    request.headers.add(name: "Authorization", value: "Bearer \(text)")
                    request.body = .bytes(
                        ByteBuffer(string: #"{"name":"my-auth","webhookUrl":"\#(place.origin)/"}"#))
                    let answer = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
                    try #require(answer.status == .created)
                    try await body(server, directory)
                }
            }
        }
    }
}

/// A webhook: the token names a role.
private struct Hook: ServicePart {
    let name = "hook"

    static func token(_ role: String) -> String { #"{"role":"\#(role)"}"# }

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/") { request, _ in
            let asked = String(buffer: try await request.wholeBody(limitBytes: 65_536))
            let role = ["everything", "legacy", "dql", "short"].first { asked.contains($0) } ?? ""
            return .json(Self.answer(role).utf8)
        }
    }

    private static func answer(_ role: String) -> String {
        let everything = #"{"everything":true,"queriesByCollection":{}}"#
        let rights =
            switch role {
            case "everything", "short": #"{"read":\#(everything),"write":\#(everything)}"#
            case "legacy":
                permissions(
                    0, "_id.user == 'a'", "_id.user == 'a' && _id.n < 5", "_id.n == 1 && !(_id.user == 'a')")
            default:
                permissions(
                    1, "_id.user = 'a'", "_id.user = 'a' AND _id.n < 5", "_id.n = 1 AND NOT _id.user = 'a'")
            }
        return """
            {"authenticate":true,"expirationSeconds":\(role == "short" ? 8 : 28800),"userID":"\(role)-1",
            "permissions":\(rights)}
            """
    }

    private static func permissions(_ version: Int, _ docs: String, _ write: String, _ orders: String)
        -> String
    {
        """
        {"qlVersion":\(version),
        "read":{"everything":false,"queriesByCollection":{"docs":["\(docs)"],"orders":["\(orders)"]}},
        "write":{"everything":false,"queriesByCollection":{"docs":["\(write)"]}}}
        """
    }
}
