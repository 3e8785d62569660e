import Foundation
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("Audit of the gateway", .timeLimit(.minutes(3)))
struct GatewayAuditTests {
    let fixture = GatewayFixture()

    private func entries(_ admin: Admin, _ query: String = "") async throws -> [[String: String]] {
        try await admin.get("audit\(query)").items("entries")
    }

    @Test("a change by an admin is an entry: who, from where, what, with which result, and no secret")
    func changes() async throws {
        let lines = Lines()
        let gateway = try fixture.gateway(logger: lines.logger)
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            let secret = "a shared token of 32 characters."
            let provider =
                #"{"name":"kiosk","anonymous":{"sharedToken":"\#(secret)","permission":"readOnly"}}"#
            #expect(try await admin.post("databases/fleet/providers", provider).status == 201)
            let key = try await admin.post(
                "databases/fleet/api-keys", #"{"name":"k","permissions":{"read":{"everything":true}}}"#)
            #expect(try await admin.delete("databases/fleet/providers/none").status == 404)
            _ = try await admin.get("databases")
            let found = try await self.entries(admin)
            #expect(
                found.map { "\($0["action"] ?? "") \($0["result"] ?? "") \($0["code"] ?? "-")" } == [
                    "DELETE /admin/auth/databases/:database/providers/:provider refused AUTH-0411",
                    "POST /admin/auth/databases/:database/api-keys ok -",
                    "POST /admin/auth/databases/:database/providers ok -",
                    "POST /admin/auth/databases ok -",
                ])
            #expect(found.allSatisfy { $0["user"] == "admin" && $0["address"] == "127.0.0.1" })
            #expect(found.first?["path"] == "/admin/auth/databases/fleet/providers/none")
            #expect(found.map { $0["database"] ?? "-" } == ["fleet", "fleet", "fleet", "-"])
            let text = try await admin.get("audit").text + lines.all.joined()
            for hidden in [
                secret, key.object["key"] ?? "", admin.credential ?? "", gateway.development.token,
            ] {
                #expect(!hidden.isEmpty && !text.contains(hidden))
            }
        }
    }

    @Test("logins are entries with user and address, accepted and refused ones; equal ones are counted")
    func logins() async throws {
        let answers = [
            #"{"authenticated": false, "userID": "mallory", "clientInfo": "no"}"#, Webhook.seedAnswer,
        ]
        let webhook = Webhook(
            .init(body: answers[0]), .init(body: answers[0]), .init(body: answers[0]), .init(body: answers[1])
        )
        try await ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let gateway = try self.fixture.gateway(
                providers: """
                    {"databases": {"fleet": {"providers": {
                    "my-auth": {"webhookUrl": "\(hook.origin)/hook"}}}}}
                    """, choosing: { $0.trustsProxy = true })
            try await self.fixture.serving(gateway) { address async throws in
                let admin = try Admin(address, self.fixture)
                let body = #"{"databaseID":"fleet","provider":"my-auth","token":"secret of Ada"}"#
                for _ in 0..<3 { #expect(try await login(address, body, from: "10.0.0.1").status == 401) }
                for _ in 0..<2 { #expect(try await login(address, body, from: "10.0.0.2").status == 200) }
                _ = try await login(address, body.replacingOccurrences(of: "my-auth", with: "nobody"))
                _ = try await login(address, "{")
                let answer = try await admin.get("audit")
                #expect(!answer.text.contains("secret of Ada"))
                let rows = answer.items("entries").map { entry in
                    ["user", "database", "provider", "result", "code"].map { entry[$0] ?? "-" }
                        .joined(separator: " ")
                }
                #expect(
                    rows == [
                        "- - - refused AUTH-0401", "- fleet nobody refused AUTH-0403",
                        "123abc fleet my-auth ok -", "mallory fleet my-auth refused AUTH-0404",
                    ])
                let addresses = answer.items("entries").compactMap { $0["address"] }
                #expect(addresses.suffix(2) == ["10.0.0.2", "10.0.0.1"])
            }
        }
    }

    @Test("wrong admin credentials are counted, and add no entry each")
    func strangers() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let stranger = Admin(address, credential: "x")
            for _ in 0..<50 { _ = try await stranger.get("databases") }
            let found = try await self.entries(try Admin(address, self.fixture))
            #expect(found.map { $0["code"] } == ["AUTH-0410", "AUTH-0407"])
            #expect(found.allSatisfy { $0["action"] == "admin" && $0["result"] == "refused" })
        }
    }

    @Test("the audit is read by condition, by page and by statement, and only read")
    func read() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            for id in ["a", "b", "c"] { _ = try await admin.post("databases", #"{"id":"\#(id)"}"#) }
            _ = try await admin.delete("databases/b")
            let deleted = try await self.entries(admin, "?where=database%20%3D%20%27b%27")
            #expect(deleted.map { $0["action"] } == ["DELETE /admin/auth/databases/:database"])
            let first = try await admin.get("audit?limit=3")
            let next = first.object["before"] ?? ""
            #expect(first.items("entries").count == 3 && next == first.items("entries").last?["_id"])
            let rest = try await admin.get("audit?limit=3&before=\(next)")
            #expect(rest.items("entries").count == 1 && rest.object["before"] == "<null>")
            let counted = try await admin.post(
                "audit",
                #"{"statement":"SELECT COUNT(*) AS n FROM audit WHERE result = :r","args":{"r":"ok"}}"#)
            #expect(counted.text == #"{"items":[{"n":4}],"more":false}"#)
            for wrong in ["?limit=0", "?limit=x", "?where=(", "?since=1"] {
                #expect(try await admin.get("audit\(wrong)").status == 400, "\(wrong)")
            }
            for wrong in [#"{"statement":"DELETE FROM audit"}"#, "{}", #"{"statement":1}"#] {
                #expect(try await admin.post("audit", wrong).code == "AUTH-0401", "\(wrong)")
            }
        }
    }

    // MARK: Providers and API keys as they are shown and changed

    @Test("a provider is shown and changed without its secrets, which stay unless they are named")
    func providers() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            let path = "databases/fleet/providers"
            let token = "0123456789abcdef"
            _ = try await admin.post(
                path, #"{"name":"kiosk","anonymous":{"sharedToken":"\#(token)","permission":"readOnly"}}"#)
            func loginCode(_ token: String) async throws -> Int {
                try await login(
                    address, #"{"databaseID":"fleet","provider":"kiosk","token":"\#(token)"}"#
                ).status
            }
            #expect(try await loginCode(token) == 200)
            let changed = try await admin.send(
                "PATCH", "\(path)/kiosk", #"{"anonymous":{"permission":"readWrite","sessionLength":60}}"#)
            #expect(changed.status == 200 && !changed.text.contains(token))
            #expect(changed.text.contains(#""sessionLength":60"#))
            #expect(changed.text.contains(#""write":{"everything":true"#))
            #expect(try await admin.get("\(path)/kiosk").text == changed.text)
            #expect(try await loginCode(token) == 200)
            let permissions = #"{"anonymous":{"permissions":{"read":{"everything":true}}}}"#
            #expect(try await admin.send("PATCH", "\(path)/kiosk", permissions).status == 200)
            _ = try await admin.send(
                "PATCH", "\(path)/kiosk", #"{"anonymous":{"sharedToken":"fedcba9876543210"}}"#)
            #expect(try await [loginCode(token), loginCode("fedcba9876543210")] == [401, 200])
            for wrong in [
                #"{"webhookUrl":"https://x.example"}"#, #"{"name":"other"}"#,
                #"{"anonymous":{"sharedToken":"x"}}"#,
                #"{"anonymous":{"sharedToken":null}}"#, #"{"anonymous":null}"#,
            ] {
                let answer = try await admin.send("PATCH", "\(path)/kiosk", wrong)
                #expect(answer.code == "AUTH-0401", "\(wrong)")
                #expect(!answer.text.contains("fedcba9876543210"))
            }
            #expect(try await admin.send("PATCH", "\(path)/none", "{}").code == "AUTH-0411")
            #expect(try await admin.get("\(path)/none").code == "AUTH-0411")
        }
    }

    @Test("a webhook shows its server, payload and secrets' ids; one of the file is shown and not changed")
    func webhooks() async throws {
        let secret = Data(repeating: 7, count: 32).base64EncodedString()
        let gateway = try fixture.gateway(
            providers: """
                {"databases": {"fleet": {"providers": {"filed": {"webhookUrl": "https://a.example/x?key=hush",
                "payload": "legacy", "signingSecrets": [{"secret": "\(secret)", "notAfter": 1900000000}]}}}}}
                """)
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            let path = "databases/fleet/providers"
            let filed = try await admin.get("\(path)/filed")
            #expect(filed.object["source"] == "file" && filed.object["payload"] == "legacy")
            #expect(filed.object["webhookUrl"] == "https://a.example/…")
            #expect(filed.text.contains(#""notAfter":1900000000"#))
            for hidden in [secret, "hush"] { #expect(!filed.text.contains(hidden)) }
            #expect(
                try await admin.send("PATCH", "\(path)/filed", #"{"payload":"both"}"#).code == "AUTH-0412")
            _ = try await admin.post(path, #"{"name":"hook","webhookUrl":"https://b.example/"}"#)
            let made = try await admin.post("\(path)/hook/secrets", "{}").object["id"] ?? "-"
            let shown = try await admin.send(
                "PATCH", "\(path)/hook", #"{"webhookUrl":"https://c.example/new","payload":"current"}"#)
            #expect(shown.object["webhookUrl"] == "https://c.example/…" && shown.text.contains(made))
            let removed = try await admin.send("PATCH", "\(path)/hook", #"{"payload":null}"#)
            #expect(removed.object["payload"] == "both")
            let listed = try await admin.get(path).items("providers")
            #expect(listed.map { $0["name"] } == ["filed", "hook"])
            #expect(listed.map { $0["source"] } == ["file", "admin"])
        }
    }

    @Test("the rights of an API key are listed")
    func apiKeys() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            let rights = #"{"read":{"queriesByCollection":{"cars":["_id = 'x'"]}},"qlVersion":1}"#
            let made = try await admin.post(
                "databases/fleet/api-keys", #"{"name":"k","permissions":\#(rights)}"#)
            let listed = try await admin.get("databases/fleet/api-keys").text
            #expect(listed.contains(#""cars":["_id = 'x'"]"#) && listed.contains(#""qlVersion":1"#))
            #expect(!listed.contains(made.object["key"] ?? "-"))
        }
    }
}
