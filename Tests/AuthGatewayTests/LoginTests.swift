import AsyncHTTPClient
import AuthGateway
import Foundation
import Identity
import NIOCore
import ServiceKit
import Testing

@Suite("Login", .timeLimit(.minutes(5)))
struct LoginTests {
    let fixture = GatewayFixture()

    @Test(
        "the development token buys an access token that the published keys verify",
        arguments: ["development", "__playgroundProvider"], ["databaseID", "appID"])
    func success(provider: String, name: String) async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let peer = PeerKey().publicKeyString
            let database = gateway.development
            let body = database.loginBody(provider: provider, member: name, more: #","peerKey":"\#(peer)""#)
            let answer = try await login(address, body)
            #expect(answer.status == 200)
            #expect(answer.object["expiresIn"] == "3600")
            #expect(answer.object["userID"] == "development")
            #expect(answer.object.keys.contains("clientInfo"))
            let source = JWKSKeySource(issuer: try Origin(address.origin))
            let authenticator = Authenticator(source: source, nowSeconds: { GatewayFixture.now })
            let identity = try await authenticator.identity(token: answer.object["accessToken"] ?? "")
            #expect(identity.databaseID.text == database.id)
            #expect(identity.peerKey == peer)
            #expect(identity.grant == .everything)
            #expect(identity.expiresAtSeconds == GatewayFixture.now + 3600)
        }
    }

    @Test("the keys are on the log too, for the other services")
    func inMemory() async throws {
        let gateway = try fixture.gateway()
        let authenticator = Authenticator(
            system: gateway.systemDatabase, nowSeconds: { GatewayFixture.now })
        try await fixture.serving(gateway) { address async throws in
            let database = gateway.development
            let answer = try await login(
                address,
                #"{"databaseID":"\#(database.id)","provider":"development","token":"\#(database.token)"}"#)
            let identity = try await authenticator.identity(token: answer.object["accessToken"] ?? "")
            #expect(identity.userID == "development")
            #expect(identity.peerKey == nil)
        }
    }

    @Test("a wrong secret, provider or database is refused, each with its code")
    func refused() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let id = gateway.development.id
            let token = gateway.development.token
            let wrong = [token + "x", String(token.dropLast()), "", token.uppercased(), "\(token)\(token)"]
            for wrong in wrong {
                let answer = try await login(
                    address, #"{"databaseID":"\#(id)","provider":"development","token":"\#(wrong)"}"#)
                #expect(answer.status == 401)
                #expect(answer.code == "AUTH-0404")
            }
            let provider = try await login(
                address, #"{"databaseID":"\#(id)","provider":"Development","token":"\#(token)"}"#)
            #expect(provider.status == 404)
            #expect(provider.code == "AUTH-0403")
            let database = try await login(
                address, #"{"databaseID":"../\#(id)","provider":"development","token":"\#(token)"}"#)
            #expect(database.status == 404)
            #expect(database.code == "AUTH-0402")
        }
    }

    @Test("what is no login is a 400, what is too large a 413")
    func malformed() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let bodies = [
                "", "[]", "{", #"{"databaseID":7,"provider":"p","token":"t"}"#,
                #"{"provider":"p","token":"t"}"#,
                #"{"databaseID":"a","appID":"b","provider":"p","token":"t"}"#,
                #"{"databaseID":"a","provider":"p","token":"t","peerKey":"pkAAAA"}"#,
            ]
            for body in bodies {
                let answer = try await login(address, body)
                #expect(answer.status == 400, "\(body)")
                #expect(answer.code == "AUTH-0401", "\(body)")
            }
            let large = try await login(address, String(repeating: " ", count: 65_537))
            #expect(large.status == 413)
            #expect(large.code == "SRV-0413")
        }
    }
}
