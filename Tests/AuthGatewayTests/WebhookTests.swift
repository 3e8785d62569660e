import Crypto
import Foundation
import Hummingbird
import Identity
import Logging
import NIOCore
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Login by a webhook", .timeLimit(.minutes(5)))
struct WebhookTests {
    let fixture = GatewayFixture()
    private static let request = #"{"databaseID":"fleet","provider":"my-auth","token":"secret of Ada"}"#

    /// A gateway whose database `fleet` has the webhook as its provider `my-auth`.
    private func serving(
        _ webhook: Webhook, _ more: String = "", _ logger: Logger = GatewayFixture.quiet,
        _ body: @escaping @Sendable (AuthGateway, ListenAddress) async throws -> Void
    ) async throws {
        let fixture = fixture
        try await ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let gateway = try fixture.gateway(
                providers: """
                    {"databases": {"fleet": {"providers": {
                    "my-auth": {"webhookUrl": "\(hook.origin)/hook"\(more)}}}}}
                    """, logger: logger)
            try await fixture.serving(gateway) { try await body(gateway, $0) }
        }
    }

    private func identity(_ gateway: AuthGateway, _ answer: Answer) async throws -> Identity {
        try await Authenticator(system: gateway.systemDatabase, nowSeconds: { GatewayFixture.now })
            .identity(token: answer.object["accessToken"] ?? "")
    }

    @Test("the guide's answer logs its user in for as long as it says")
    func success() async throws {
        let webhook = Webhook(Webhook.seedAnswer)
        try await serving(webhook) { gateway, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 200)
            #expect(answer.object["userID"] == "123abc" && answer.object["expiresIn"] == "28800")
            let identity = try await identity(gateway, answer)
            #expect(identity.userID == "123abc" && identity.databaseID == "fleet")
            #expect(identity.grant == Grant(read: .everything, write: .everything))
            #expect(identity.expiresAtSeconds == GatewayFixture.now + 28_800)
        }
        #expect(fixture.registered.contains("fleet"))
    }

    @Test(
        "permissions stand in the token as the webhook gave them, and what it has for the application comes")
    func permissions() async throws {
        let webhook = Webhook(
            """
            {"authenticated": true, "expirationSeconds": 60.0, "userID": "ada", "role": "ignored",
            "clientInfo": {"seats": [1, 2]}, "permissions": {
            "read": {"everything": false, "queriesByCollection": {"cars": ["true"]}}, "qlVersion": 1}}
            """)
        try await serving(webhook) { gateway, address async throws in
            let answer = try await login(address, Self.request)
            let identity = try await identity(gateway, answer)
            #expect(identity.grant.allowsReading(collection: "cars"))
            #expect(!identity.grant.allowsReading(collection: "boats"))
            #expect(!identity.grant.allowsWriting(collection: "cars"))
            #expect(String(decoding: answer.body, as: UTF8.self).contains(#""clientInfo":{"seats":[1,2]}"#))
        }
    }

    @Test(
        "a refusal is a 401 with what the webhook has for the application, in every form it may have",
        arguments: [
            (200, #"{"authenticate": {"err": 1}, "userInfo": "no such user"}"#),
            (200, #"{"authenticated": false, "clientInfo": "no such user"}"#),
            (200, #"{"authenticated": "true", "userID": "x", "clientInfo": "no such user"}"#),
            (401, #"{"authenticate": false, "userInfo": "no such user"}"#),
            (403, #"{"authenticated": true, "userID": "x", "clientInfo": "no such user"}"#),
        ])
    func refused(status: Int, reply: String) async throws {
        let webhook = Webhook(reply, status: status)
        try await serving(webhook) { _, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 401 && answer.code == "AUTH-0404")
            #expect(answer.object["clientInfo"] == "no such user")
            #expect(answer.object["accessToken"] == nil)
        }
        #expect(webhook.calls.count == 1)
    }

    @Test("a refusal by status alone needs no body")
    func refusedByStatus() async throws {
        try await serving(Webhook("nope", status: 401)) { _, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 401 && answer.code == "AUTH-0404")
        }
    }

    @Test(
        "an answer that cannot be used is a 502 that tells nothing; the log says why, without the token",
        arguments: [
            (200, "", "failed to decode response body"), (200, "[]", "failed to decode response body"),
            (200, #"{"authenticated": true"#, "failed to decode response body"),
            (200, #"{"userID": "x"}"#, "no member 'authenticated'"),
            (200, #"{"authenticated": true, "expirationSeconds": 60}"#, "userID"),
            (200, #"{"authenticated": true, "expirationSeconds": 60, "userID": ""}"#, "userID"),
            (200, #"{"authenticated": true, "expirationSeconds": 60, "userID": 7}"#, "userID"),
            (200, #"{"authenticated": true, "userID": "x"}"#, "expirationSeconds"),
            (200, #"{"authenticated": true, "userID": "x", "expirationSeconds": 0}"#, "expirationSeconds"),
            (200, #"{"authenticated": true, "userID": "x", "expirationSeconds": 1.5}"#, "expirationSeconds"),
            (200, #"{"authenticated": true, "userID": "x", "expirationSeconds": 4294967296}"#, "expirationS"),
            (200, #"{"authenticated": true, "userID": "x", "expirationSeconds": "60"}"#, "expirationSeconds"),
            (
                200, #"{"authenticated": true, "userID": "x", "expirationSeconds": 60, "permissions": 1}"#,
                "permissions"
            ),
            (
                200,
                """
                {"authenticated": true, "userID": "x", "expirationSeconds": 60, "permissions":
                {"read": {"everything": "yes"}}}
                """, "permissions"
            ),
            (
                200,
                """
                {"authenticated": true, "userID": "x", "expirationSeconds": 60, "permissions":
                {"read": {"queriesByCollection": {"cars": ["color == 'red'"]}}}}
                """, "cannot be enforced"
            ),
            (302, "", "status 302"), (404, "", "status 404"),
        ])
    func unusable(status: Int, reply: String, reason: String) async throws {
        let webhook = Webhook(reply, status: status)
        let lines = Lines()
        try await serving(webhook, "", lines.logger) { _, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 502 && answer.code == "AUTH-0406")
            #expect(!String(decoding: answer.body, as: UTF8.self).contains(reason))
        }
        #expect(webhook.calls.count == 1)
        #expect(lines.all.contains { $0.contains(reason) }, "\(lines.all)")
        #expect(!lines.all.contains { $0.contains("secret of Ada") })
    }

    @Test("permissions that no token holds make the answer useless, instead of a token that nobody takes")
    func tooManyPermissions() async throws {
        let queries = (0..<600).map { #""_id == 'a document with a long id \#($0)'""# }.joined(separator: ",")
        let webhook = Webhook(
            """
            {"authenticated": true, "userID": "x", "expirationSeconds": 60,
            "permissions": {"read": {"queriesByCollection": {"cars": [\(queries)]}}}}
            """)
        try await serving(webhook) { _, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 502 && answer.code == "AUTH-0406")
        }
    }

    @Test("an answer over 64 KiB is of no use, and is not read to its end")
    func tooLarge() async throws {
        let reply = #"{"authenticated": true, "userID": "x", "expirationSeconds": 60, "clientInfo": ""#
        let webhook = Webhook(reply + String(repeating: "x", count: 70_000) + #""}"#)
        try await serving(webhook) { _, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 502 && answer.code == "AUTH-0406")
        }
    }

    @Test(
        "each generation is sent what it reads",
        arguments: [
            ("", #"{"appID":"fleet","databaseID":"fleet","version":"1","provider":"my-auth","token":"T"}"#),
            (
                #","payload":"legacy""#,
                #"{"appID":"fleet","provider":"my-auth","token":"T"}"#
            ),
            (
                #","payload":"current""#,
                #"{"databaseID":"fleet","version":"1","provider":"my-auth","token":"T"}"#
            ),
        ])
    func payload(setting: String, sent: String) async throws {
        let webhook = Webhook(Webhook.seedAnswer)
        try await serving(webhook, setting) { _, address async throws in
            _ = try await login(address, #"{"appID":"fleet","provider":"my-auth","token":"T"}"#)
        }
        #expect(webhook.calls == [Webhook.Call(body: sent, signature: nil)])
    }

    @Test("what is sent is signed by every secret that is valid at the time")
    func signature() async throws {
        let keys = (1...3).map { Data(repeating: UInt8($0), count: 128) }
        let now = GatewayFixture.now
        let webhook = Webhook(Webhook.seedAnswer)
        let secrets = """
            ,"signingSecrets": [{"secret": "\(keys[0].base64EncodedString())"},
            {"secret": "\(keys[1].base64EncodedString())", "notBefore": \(now), "notAfter": \(now + 1)},
            {"secret": "\(keys[2].base64EncodedString())", "notAfter": \(now)}]
            """
        try await serving(webhook, secrets) { _, address async throws in
            _ = try await login(address, Self.request)
        }
        let call = try #require(webhook.calls.first)
        let codes = keys.prefix(2).map { key in
            HMAC<SHA256>.authenticationCode(
                for: Data("\(now).\(call.body)".utf8), using: SymmetricKey(data: key)
            ).map { String(format: "%02x", $0) }.joined()
        }
        #expect(call.signature == "t=\(now),v1=\(codes[0]),v1=\(codes[1])")
    }

    @Test("a webhook that fails is asked three times; one that is not there is a 503 with Retry-After")
    func retries() async throws {
        let failing = Webhook.Reply(status: 500, body: "{}")
        let webhook = Webhook(failing, failing, Webhook.Reply(body: Webhook.seedAnswer))
        try await serving(webhook) { _, address async throws in
            #expect(try await login(address, Self.request).status == 200)
        }
        #expect(webhook.calls.count == 3)
        let dead = Webhook(failing)
        try await serving(dead) { _, address async throws in
            let answer = try await login(address, Self.request)
            #expect(answer.status == 503 && answer.code == "AUTH-0405" && answer.retryAfter == "1")
        }
        #expect(dead.calls.count == 3)
    }

    @Test("a webhook that takes too long is asked once, and one where nobody listens is not waited for")
    func slow() async throws {
        let request = try LoginRequest(json: Self.request.utf8)
        let slow = SlowPart()
        try await ServiceHost(parts: [slow], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let provider = WebhookProvider(
                name: "my-auth", url: "\(hook.origin)/hook", payload: .both, secrets: [],
                logger: GatewayFixture.quiet, timeout: .milliseconds(500))
            let error = await #expect(throws: AuthGatewayError.self) {
                try await provider.answer(request, nowSeconds: 0)
            }
            #expect(error?.code == .providerUnavailable)
            slow.isOver.withLock { $0 = true }
        }
        // A request that arrives after its time-out is none, so a busy machine may count none.
        #expect(slow.begun.withLock { $0 } <= 1)
        let nobody = WebhookProvider(
            name: "my-auth", url: "http://127.0.0.1:1/hook", payload: .both, secrets: [],
            logger: GatewayFixture.quiet)
        let error = await #expect(throws: AuthGatewayError.self) {
            try await nobody.answer(request, nowSeconds: 0)
        }
        #expect(error?.code == .providerUnavailable)
    }
}

extension WebhookTests {
    @Test("a webhook whose answer does not end is given up in the same time, and its breaker hears of it")
    func endless() async throws {
        let request = try LoginRequest(json: Self.request.utf8)
        let part = EndlessPart()
        try await ServiceHost(parts: [part], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let provider = WebhookProvider(
                name: "my-auth", url: "\(hook.origin)/hook", payload: .both, secrets: [],
                logger: GatewayFixture.quiet, timeout: .milliseconds(300))
            // The HTTP client by itself waits 90 s for the rest of one: the suite's time is over then.
            for _ in 0..<(Limits.webhookFailures + 1) {
                let error = await #expect(throws: AuthGatewayError.self) {
                    try await provider.answer(request, nowSeconds: 0)
                }
                #expect(error?.code == .providerUnavailable)
            }
            part.isOver.withLock { $0 = true }
        }
        #expect(part.begun.withLock { $0 } <= Limits.webhookFailures)
    }
}

/// Sends the head of an answer and half of its body.
private final class EndlessPart: ServicePart {
    let name = "endless"
    let begun = Mutex(0)
    let isOver = Mutex(false)

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/hook") { [self] _, _ in
            begun.withLock { $0 += 1 }
            return Response(
                status: .ok, headers: [.contentLength: "300"],
                body: ResponseBody { writer in
                    try await writer.write(ByteBuffer(string: #"{"authenticate":"#))
                    while !self.isOver.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(10)) }
                    try await writer.finish(nil)
                })
        }
    }
}

/// Answers when nobody waits any more.
private final class SlowPart: ServicePart {
    let name = "slow"
    let begun = Mutex(0)
    let isOver = Mutex(false)

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/hook") { [self] _, _ in
            begun.withLock { $0 += 1 }
            while !isOver.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(5)) }
            return .json(Webhook.seedAnswer.utf8)
        }
    }
}

/// The lines that were logged.
final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }

    var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            lines.lines.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
        }
    }
}
