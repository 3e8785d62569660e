import Identity
import Logging
import ServiceKit
import Testing

@testable import AuthGateway

/// The places where permissions enter: each refuses an object with a member that it cannot have.
@Suite("Misspelt permissions", .timeLimit(.minutes(5)))
struct MisspeltPermissionsTests {
    private static let misspelt = #"{"read":{"everything":true},"wirte":{"everything":true}}"#

    @Test("each request that gives permissions names the member that it cannot have, and changes nothing")
    func requests() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            let asked = try await people.call("POST", "join", ["databaseID": "fleet", "name": "phone"])
            let code = asked.object["userCode"] ?? ""
            let given = #""permissions":\#(Self.misspelt)"#
            for (method, path, body) in [
                ("POST", "api-keys", #"{"name":"gate",\#(given)}"#),
                (
                    "POST", "providers",
                    #"{"name":"kiosk","anonymous":{"sharedToken":"sixteen characters",\#(given)}}"#
                ),
                ("POST", "explain-access", #"{"collection":"a","id":1,\#(given)}"#),
                ("POST", "accounts", #"{"provider":"staff","name":"bob",\#(given)}"#),
                ("PATCH", "accounts/ann", "{\(given)}"), ("PUT", "sets/crew", "{\(given)}"),
                ("POST", "invitations", #"{"provider":"staff",\#(given)}"#),
                ("POST", "joins/\(code)", "{\(given)}"),
            ] {
                let answer = try await people.send(method, path, body)
                #expect(answer.status == 400 && answer.code == "AUTH-0401", "\(path): \(answer.text)")
                #expect(
                    answer.text.contains("AUTH-0204") && answer.text.contains(#"\"wirte\""#),
                    "\(path): \(answer.text)")
            }
            let own = try await people.call("POST", "account/joins/\(code)", as: session, raw: "{\(given)}")
            #expect(own.code == "AUTH-0401" && own.text.contains("AUTH-0204"), "\(own.text)")
            #expect(try await people.get("api-keys").items("apiKeys").isEmpty)
            #expect(try await people.get("accounts").items("accounts").count == 1)
            #expect(try await people.get("sets").items("sets").isEmpty)
            #expect(try await people.get("invitations").items("invitations").isEmpty)
            #expect(try await people.call("POST", "account/joins/\(code)", as: session).status == 204)
        }
    }

    @Test("a file of providers and a webhook's answer are refused too")
    func providers() throws {
        let provider = #"{"anonymous":{"sharedToken":"sixteen characters","permissions":\#(Self.misspelt)}}"#
        let error = try #require(throws: AuthGatewayError.self) {
            try ProvidersFile.provider(
                name: "kiosk", json: Array(provider.utf8), logger: GatewayFixture.quiet)
        }
        #expect(error.message.contains("AUTH-0204"), "\(error)")
        // One that an earlier version stored lets in whom it let in, with the rights that it gave.
        let stored = try ProvidersFile.provider(
            name: "kiosk", json: Array(provider.utf8), isStored: true, logger: GatewayFixture.quiet)
        guard case .anonymous(let kiosk) = stored else { throw error }
        #expect(kiosk.grant.read.everything && !kiosk.grant.write.everything)
        #expect(throws: AuthGatewayError.self) {
            let broken = provider.replacing(#""read":{"everything":true}"#, with: #""read":true"#)
            return try ProvidersFile.provider(
                name: "kiosk", json: Array(broken.utf8), isStored: true, logger: GatewayFixture.quiet)
        }
        let answer =
            #"{"authenticated":true,"userID":"ann","expirationSeconds":60,"permissions":\#(Self.misspelt)}"#
        let unusable = try #require(throws: WebhookAnswer.Unusable.self) {
            try WebhookAnswer.read(Array(answer.utf8), status: 200)
        }
        #expect(unusable.reason.contains("\"wirte\" is not a member of permissions"), "\(unusable)")
    }
}
