import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("The file of providers")
struct ProvidersFileTests {
    let fixture = GatewayFixture()

    @Test("an anonymous provider gives its right to whoever has its token")
    func anonymous() async throws {
        let gateway = try fixture.gateway(
            providers: """
                {"databases": {"fleet": {"providers": {
                "kiosk": {"anonymous": {"sharedToken": "0123456789abcdef", "permission": "readOnly",
                "sessionLength": 60}},
                "crew": {"anonymous": {"sharedToken": "fedcba9876543210", "permissions":
                {"read": {"everything": true}, "write": {"queriesByCollection": {"logs": ["true"]}}}}}}}}}
                """)
        try await fixture.serving(gateway) { address async throws in
            func grant(_ provider: String, _ token: String) async throws -> Identity {
                let answer = try await login(
                    address, #"{"databaseID":"fleet","provider":"\#(provider)","token":"\#(token)"}"#)
                return try await Authenticator(
                    system: gateway.systemDatabase, nowSeconds: { GatewayFixture.now }
                ).identity(token: answer.object["accessToken"] ?? "")
            }
            let kiosk = try await grant("kiosk", "0123456789abcdef")
            #expect(kiosk.grant == .readOnly && kiosk.userID == "kiosk")
            #expect(kiosk.expiresAtSeconds == GatewayFixture.now + 60)
            let crew = try await grant("crew", "fedcba9876543210").grant
            #expect(crew.allowsWriting(collection: "logs") && !crew.allowsWriting(collection: "cars"))
            for (provider, token, code) in [
                ("kiosk", "fedcba9876543210", "AUTH-0404"), ("kiosk", "", "AUTH-0404"),
                ("Kiosk", "0123456789abcdef", "AUTH-0403"), ("\u{212A}iosk", "x", "AUTH-0403"),
            ] {
                let answer = try await login(
                    address, #"{"databaseID":"fleet","provider":"\#(provider)","token":"\#(token)"}"#)
                #expect(answer.code == code)
            }
        }
    }

    @Test("the development provider has the token, the right and the length that are configured")
    func configuredDevelopment() async throws {
        let gateway = try fixture.gateway(
            providers: """
                {"databases": {"fleet": {"providers": {"development": {"anonymous": {
                "sharedToken": "0123456789abcdef", "permission": "readOnly", "sessionLength": 60}}}}}}
                """)
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            let made = try await admin.get("databases/fleet").object["developmentToken"] ?? ""
            for name in ["development", "__playgroundProvider"] {
                func answer(_ token: String) async throws -> Answer {
                    try await login(
                        address, #"{"databaseID":"fleet","provider":"\#(name)","token":"\#(token)"}"#)
                }
                let accepted = try await answer("0123456789abcdef")
                #expect(accepted.object["expiresIn"] == "60")
                let identity = try await Authenticator(
                    system: gateway.systemDatabase, nowSeconds: { GatewayFixture.now }
                ).identity(token: accepted.object["accessToken"] ?? "")
                #expect(identity.grant == .readOnly && identity.userID == "development")
                #expect(try await answer(made).code == "AUTH-0404")
            }
        }
    }

    @Test("a database's development token is good for nothing where the file says so, and stays where not")
    func development() async throws {
        let gateway = try fixture.gateway(
            providers: #"{"databases": {"fleet": {"development": false}, "yard": {}}}"#)
        let tokens = try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            var tokens: [String: String] = [:]
            for (id, status) in [("fleet", 404), ("yard", 200)] {
                let token = try await admin.get("databases/\(id)").object["developmentToken"] ?? ""
                #expect(token.count == 43)
                tokens[id] = token
                let answer = try await login(
                    address, #"{"databaseID":"\#(id)","provider":"development","token":"\#(token)"}"#)
                #expect(answer.status == status)
            }
            return tokens
        }
        // Opened again it makes nothing anew.
        let again = try fixture.gateway(providers: #"{"databases": {"fleet": {}, "yard": {}}}"#)
        try await fixture.serving(again) { address async throws in
            let admin = try Admin(address, self.fixture)
            for (id, token) in tokens {
                #expect(try await admin.get("databases/\(id)").object["developmentToken"] == token)
            }
        }
    }

    @Test(
        "what is wrong is named by its place, and no secret with it",
        arguments: [
            ("", "JSON"), ("[]", "the file"), ("{}", "databases"), (#"{"database": {}}"#, "'database'"),
            (#"{"databases": {"a b": {}}}"#, "'a b'"),
            (#"{"databases": {"f": {"development": "no"}}}"#, "databases.f.development"),
            (#"{"databases": {"f": {"providers": []}}}"#, "databases.f.providers"),
            (#"{"databases": {"f": {"providers": {"development": {}}}}}"#, "'development'"),
            (#"{"databases": {"f": {"providers": {"a b": {}}}}}"#, "'a b'"),
            (#"{"databases": {"f": {"providers": {"p": {}}}}}"#, "providers.p.webhookUrl"),
            (#"{"databases": {"f": {"providers": {"p": {"webhookUrl": "ftp://x"}}}}}"#, "p.webhookUrl"),
            (#"{"databases": {"f": {"providers": {"p": {"webhookUrl": "http://"}}}}}"#, "p.webhookUrl"),
            (#"{"databases": {"f": {"providers": {"p": {"webhookURL": "http://x"}}}}}"#, "'webhookURL'"),
            (
                #"{"databases": {"f": {"providers": {"p": {"webhookUrl": "http://x", "payload": "v2"}}}}}"#,
                "p.payload"
            ),
            (
                """
                {"databases": {"f": {"providers": {"p": {"webhookUrl": "http://x",
                "signingSecrets": [{"secret": "SECRETx="}]}}}}}
                """, "p.signingSecrets[0].secret"
            ),
            (
                #"{"databases": {"f": {"providers": {"p": {"anonymous": {"sharedToken": "SECRET"}}}}}}"#,
                "p.anonymous.sharedToken"
            ),
            (
                """
                {"databases": {"f": {"providers": {"p": {"anonymous": {"sharedToken": "SECRET7890123456",
                "permission": "all"}}}}}}
                """, "p.anonymous.permission"
            ),
            (
                """
                {"databases": {"f": {"providers": {"p": {"anonymous": {"sharedToken": "SECRET7890123456",
                "permission": "readOnly", "sessionLength": 0}}}}}}
                """, "p.anonymous.sessionLength"
            ),
        ])
    func wrong(json: String, place: String) throws {
        let error = #expect(throws: AuthGatewayError.self) { try fixture.gateway(providers: json) }
        #expect(error?.code == .providersUnreadable)
        #expect(error?.message.contains(place) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("SECRET") == false)
    }

    @Test("a file that is not there ends the start")
    func missing() {
        let error = #expect(throws: AuthGatewayError.self) {
            try fixture.gateway(choosing: { $0.providers = "/nowhere/none.json" })
        }
        #expect(error?.code == .providersUnreadable)
    }
}
