import Crypto
import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("Signing secrets of a webhook", .timeLimit(.minutes(2)))
struct WebhookSecretTests {
    let fixture = GatewayFixture()

    /// Serves a gateway whose database `fleet` has the webhook as its provider `my-auth`, made by the admin.
    private func serving(
        _ webhook: Webhook, _ body: @escaping @Sendable (Admin, ListenAddress) async throws -> Void
    ) async throws {
        let fixture = fixture
        try await ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let gateway = try fixture.gateway()
            try await fixture.serving(gateway) { address async throws in
                let admin = try Admin(address, fixture)
                _ = try await admin.post("databases", #"{"id":"fleet"}"#)
                for provider in [
                    #"{"name":"my-auth","webhookUrl":"\#(hook.origin)/hook"}"#,
                    #"{"name":"d","anonymous":{"sharedToken":"0123456789abcdef","permission":"readOnly"}}"#,
                ] {
                    #expect(try await admin.post("databases/fleet/providers", provider).status == 201)
                }
                try await body(admin, address)
            }
        }
    }

    private static let path = "databases/fleet/providers/my-auth/secrets"
    private static let request = #"{"databaseID":"fleet","provider":"my-auth","token":"t"}"#

    /// By which of some secrets a call was signed.
    private func signers(_ call: Webhook.Call, of secrets: [String]) -> [Int] {
        let parts = (call.signature ?? "").split(separator: ",")
        let time = parts.first.map { $0.dropFirst(2) } ?? ""
        return secrets.indices.filter { index in
            guard let key = Data(base64Encoded: secrets[index]) else { return false }
            let code = HMAC<SHA256>.authenticationCode(
                for: Data("\(time).\(call.body)".utf8), using: SymmetricKey(data: key)
            ).map { String(format: "%02x", $0) }.joined()
            return parts.dropFirst().contains { $0 == "v1=\(code)" }
        }
    }

    @Test("one is made, both sign while they overlap, and one that is removed or retired signs no more")
    func rotation() async throws {
        let webhook = Webhook(Webhook.seedAnswer)
        try await serving(webhook) { admin, address async throws in
            func signed(by secrets: [String]) async throws -> [Int] {
                #expect(try await login(address, Self.request).status == 200)
                return self.signers(try #require(webhook.calls.last), of: secrets)
            }
            #expect(try await admin.get(Self.path).items("secrets").isEmpty)
            _ = try await login(address, Self.request)
            #expect(webhook.calls.last?.signature == nil)
            let first = try await admin.post(Self.path, "")
            #expect(first.status == 201)
            let one = try #require(first.object["secret"])
            #expect(Data(base64Encoded: one)?.count == 128)
            #expect(try await signed(by: [one]) == [0])

            let later = GatewayFixture.now + 60
            let second = try await admin.post(Self.path, #"{"retireOthersAt":\#(later)}"#)
            let two = try #require(second.object["secret"])
            #expect(try await signed(by: [one, two]) == [0, 1])
            let listed = try await admin.get(Self.path)
            #expect(listed.items("secrets").map { $0["notAfter"] } == ["\(later)", "<null>"])
            #expect(!listed.text.contains(one) && !listed.text.contains(two))

            let third = try await admin.post(
                Self.path, #"{"retireOthersAt":\#(GatewayFixture.now),"notAfter":\#(later)}"#)
            let three = try #require(third.object["secret"])
            #expect(try await signed(by: [one, two, three]) == [2])
            let future = try await admin.post(Self.path, #"{"notBefore":\#(later)}"#)
            #expect(try await signed(by: [three, try #require(future.object["secret"])]) == [0])
            for answer in [third, future] {
                let id = try #require(answer.object["id"])
                #expect(try await admin.delete("\(Self.path)/\(id)").status == 204)
                #expect(try await admin.delete("\(Self.path)/\(id)").status == 404)
            }
            #expect(try await signed(by: [one, two, three]) == [])
        }
    }

    @Test("of several that are made at once each is kept, or refused to whoever asked")
    func atOnce() async throws {
        try await serving(Webhook(Webhook.seedAnswer)) { admin, _ async throws in
            let codes = try await withThrowingTaskGroup(of: (Int, String?).self) { group in
                for _ in 0..<6 {
                    group.addTask {
                        let answer = try await admin.post(Self.path, "")
                        return (answer.status, answer.object["id"])
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes.allSatisfy { [201, 409].contains($0.0) })
            let made = codes.compactMap { $0.0 == 201 ? $0.1 : nil }
            let kept = try await admin.get(Self.path).items("secrets").compactMap { $0["id"] }
            #expect(!made.isEmpty && made.sorted() == kept.sorted())
        }
    }

    @Test("there are a few at most, only webhooks have them, and what is malformed is refused")
    func refusals() async throws {
        try await serving(Webhook(Webhook.seedAnswer)) { admin, _ async throws in
            let now = GatewayFixture.now
            for body in [
                #"{"secret":"mine"}"#, #"{"notBefore":"soon"}"#, "[]", "{",
                // Times in which nothing would sign.
                #"{"notAfter":\#(now)}"#, #"{"notBefore":\#(now + 9),"notAfter":\#(now + 9)}"#,
                #"{"notBefore":\#(now + 9),"retireOthersAt":\#(now + 8)}"#,
                #"{"retireOthersAt":\#(now - 1)}"#,
            ] {
                #expect(try await admin.post(Self.path, body).code == "AUTH-0401")
            }
            for _ in 0..<Limits.signingSecrets {
                #expect(try await admin.post(Self.path, "").status == 201)
            }
            #expect(try await admin.post(Self.path, "").code == "AUTH-0412")
            let providers = "databases/fleet/providers"
            for path in ["\(providers)/d/secrets"] {
                #expect(try await admin.get(path).code == "AUTH-0412")
                #expect(try await admin.post(path, "").code == "AUTH-0412")
            }
            for path in ["\(providers)/nobody/secrets", "databases/nowhere/providers/my-auth/secrets"] {
                #expect(try await admin.get(path).status == 404)
                #expect(try await admin.post(path, "").status == 404)
                #expect(try await admin.delete("\(path)/x").status == 404)
            }
        }
    }
}
