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
                    source: gateway.keySource, nowSeconds: { GatewayFixture.now }
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

    @Test("a database's development token is good for nothing where the file says so, and stays where not")
    func development() async throws {
        let gateway = try fixture.gateway(
            providers: #"{"databases": {"fleet": {"development": false}, "yard": {}}}"#)
        func state() throws -> String {
            try String(contentsOfFile: "\(fixture.folder)/state.json", encoding: .utf8)
        }
        struct State: Decodable {
            struct Database: Decodable { var id, developmentToken: String }
            var databases: [Database]
        }
        let databases = try JSONDecoder().decode(State.self, from: Data(state().utf8)).databases
        try await fixture.serving(gateway) { address async throws in
            for (id, status) in [("fleet", 404), ("yard", 200)] {
                let token = try #require(databases.first { $0.id == id }?.developmentToken)
                let answer = try await login(
                    address, #"{"databaseID":"\#(id)","provider":"development","token":"\#(token)"}"#)
                #expect(answer.status == status)
            }
        }
        // Opened again it makes nothing anew.
        let before = try state()
        _ = try fixture.gateway(providers: #"{"databases": {"fleet": {}, "yard": {}}}"#)
        #expect(try state() == before)
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
            try AuthGateway(folder: fixture.folder, providers: "\(fixture.folder)/none.json") { _ in }
        }
        #expect(error?.code == .providersUnreadable)
    }
}
