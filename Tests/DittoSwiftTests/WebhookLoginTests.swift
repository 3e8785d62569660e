import AsyncHTTPClient
import DittoSwift
import Foundation
import Logging
import Mimeo
import NIOCore
import ServiceKit
import Synchronization
import TestSupport
import Testing

/// The guide's tutorial, from the application's side: an application server says who may do what.
@Suite("Logging in by a webhook", .timeLimit(.minutes(5)))
struct WebhookLoginTests {
    @Test("people log in with what their role may, are refused by name, and leave nothing behind")
    func tutorial() async throws {
        try await withHook { server, directory in
            let manager = try await open(server, directory, "manager")
            let clerk = try await open(server, directory, "clerk")
            for (ditto, collections) in [
                (manager, ["docs", "orders", "salaries"]), (clerk, ["docs", "orders"]),
            ] {
                for name in collections {
                    try ditto.sync.registerSubscription(query: "SELECT * FROM \(name)")
                }
                try ditto.sync.start()
            }
            let seen = Collected<Int>()
            try clerk.store.registerObserver(query: "SELECT * FROM orders WHERE state = 'FOR_SALE'") {
                seen.add($0.items.count)
            }
            for name in ["docs", "orders", "salaries"] {
                try await manager.store.execute(
                    query: "INSERT INTO \(name) DOCUMENTS ({'_id': 1, 'state': 'FOR_SALE'})")
            }
            #expect(await seen.wait { $0.last == 1 }.last == 1)
            #expect(try await eventually { try await count(clerk, "docs") == 1 })
            #expect(clerk.auth?.status.userID == "clerk-1")
            // What it may write reaches everybody; what it may not is nobody's but its own.
            try await clerk.store.execute(query: "UPDATE orders SET state = 'SOLD' WHERE _id = 1")
            try await clerk.store.execute(query: "UPDATE docs SET state = 'SOLD' WHERE _id = 1")
            #expect(try await eventually { try await count(manager, "orders WHERE state = 'SOLD'") == 1 })
            #expect(try await count(manager, "docs WHERE state = 'SOLD'") == 0)
            #expect(try await count(clerk, "salaries") == 0)
            let cleaned = Collected<Bool>()
            clerk.auth?.logout { ditto in
                Task {
                    for name in ["docs", "orders"] {
                        try await ditto.store.execute(query: "EVICT FROM \(name)")
                    }
                    cleaned.add(true)
                }
            }
            #expect(await cleaned.wait { !$0.isEmpty } == [true])
            #expect(clerk.auth?.status.isAuthenticated == false && !clerk.sync.isActive)
            #expect(try await count(clerk, "orders") == 0)
            for ditto in [manager, clerk] { await ditto.close() }
        }
    }

    @Test("the closure gets what the server says of a login, and of a refusal")
    func closures() async throws {
        try await withHook { server, directory in
            let ditto = try await open(server, directory, nil)
            let outcomes = Collected<String>()
            for role in ["manager", "nobody"] {
                ditto.auth?.login(token: Hook.token(role), provider: "my-auth") { info, error in
                    outcomes.add("\(info ?? "-") \(error == nil)")
                }
                _ = await outcomes.wait { $0.last?.hasSuffix(role == "nobody" ? "false" : "true") == true }
            }
            #expect(outcomes.all == [#"{"greeting":"Hello, manager"} true"#, #""who are you?" false"#])
            // Who is refused stays who it was.
            #expect(ditto.auth?.status.userID == "manager-1")
            await ditto.close()
        }
    }

    @Test("a logout ends a login that is under way", arguments: [false, true])
    func logout(byClosure: Bool) async throws {
        let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
        let (gate, opening) = AsyncStream.makeStream(of: Void.self)
        let hook = Hook {
            arrived.yield()
            for await _ in gate {}
        }
        try await withHook(hook) { server, directory in
            let ditto = try await open(server, directory, nil)
            let auth = try #require(ditto.auth)
            let errors = Collected<Bool>()
            if byClosure {
                auth.login(token: Hook.token("manager"), provider: "my-auth") { errors.add($1 != nil) }
            } else {
                Task {
                    do {
                        try await auth.login(token: Hook.token("manager"), provider: "my-auth")
                        errors.add(false)
                    } catch {
                        errors.add(error is CancellationError)
                    }
                }
            }
            for await _ in arrivals { break }
            auth.logout()
            opening.finish()
            #expect(await errors.wait { !$0.isEmpty } == [true])
            #expect(!auth.status.isAuthenticated)
            await ditto.close()
            let again = try await open(server, directory, nil)
            #expect(again.auth?.status.isAuthenticated == false)
            try await again.auth?.login(token: Hook.token("manager"), provider: "my-auth")
            #expect(again.auth?.status.userID == "manager-1")
            await again.close()
        }
    }

    // MARK: - Server, webhook, peers

    /// A server whose first database asks the webhook.
    private func withHook(
        _ hook: Hook = Hook(),
        _ body: @escaping @Sendable (EmbeddedServer, URL) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let logger = Logger(label: "hook") { _ in SwiftLogNoOpLogHandler() }
            try await ServiceHost(parts: [hook], listen: .anyLoopbackPort, logger: logger).run {
                place async throws in
                let data = directory.appendingPathComponent("server").path
                try await EmbeddedServer.run(data: data) { server in
                    let path = "\(data)/auth/admin.token"
                    let credential = try String(contentsOfFile: path, encoding: .utf8)
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

    /// A peer whose handler logs in as its role does.
    private func open(
        _ server: EmbeddedServer, _ directory: URL, _ role: String?
    ) async throws -> Ditto {
        let ditto = try await Ditto.openAlone(
            config: DittoConfig(
                databaseID: server.databaseID, connect: .server(url: server.url),
                persistenceDirectory: directory.appendingPathComponent(role ?? "peer")))
        if let role {
            ditto.auth?.expirationHandler = { ditto, _ in
                ditto.auth?.login(token: Hook.token(role), provider: "my-auth") { _, _ in }
            }
        }
        return ditto
    }

    private func count(_ ditto: Ditto, _ rest: String) async throws -> Int {
        try await ditto.store.execute(query: "SELECT * FROM \(rest)").items.count
    }
}

/// The guide's webhook: a login's token is JSON that names a role, and whoever it does not know gets the
/// guide's failure form.
private struct Hook: ServicePart {
    let name = "hook"
    var willAnswer: @Sendable () async -> Void = {}

    static func token(_ role: String) -> String { #"{"role":"\#(role)"}"# }

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/") { request, _ in
            let body = try await request.wholeBody(limitBytes: 65_536)
            await willAnswer()
            let asked = String(buffer: body)
            return .json(Self.answer(["manager", "clerk"].first { asked.contains($0) }).utf8)
        }
    }

    private static func answer(_ role: String?) -> String {
        guard let role else { return #"{"authenticate":{"name":"KeyError"},"userInfo":"who are you?"}"# }
        let everything = #"{"everything":true,"queriesByCollection":{}}"#
        let read = #"{"everything":false,"queriesByCollection":{"docs":["true"],"orders":["true"]}}"#
        let write = #"{"everything":false,"queriesByCollection":{"orders":["true"]}}"#
        let rights =
            role == "manager"
            ? #"{"read":\#(everything),"write":\#(everything)}"# : #"{"read":\#(read),"write":\#(write)}"#
        return """
            {"authenticate":true,"expirationSeconds":28800,"userID":"\(role)-1","permissions":\(rights),
            "userInfo":{"greeting":"Hello, \(role)"}}
            """
    }
}
