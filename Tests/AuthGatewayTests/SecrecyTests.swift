import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import Logging
import NIOCore
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Secrets")
struct SecrecyTests {
    let fixture = GatewayFixture()

    @Test("no secret stands in a log line, an error, a list or the metrics, whatever is done with it")
    func nowhere() async throws {
        let lines = Lines()
        let webhook = Webhook(
            Webhook.Reply(body: Webhook.seedAnswer), Webhook.Reply(body: "{SECRET-ANSWER"),
            Webhook.Reply(status: 500, body: "SECRET-ANSWER"))
        let signing = Data("SECRET-SIGNING-0123456789-0123456789".utf8).base64EncodedString()
        let gateway = try fixture.gateway(logger: lines.logger)
        try await ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            try await self.fixture.serving(gateway, logger: lines.logger) { address async throws in
                let told = Mutex<[String]>([])
                func tell(_ answer: Answer) -> Answer {
                    told.withLock { $0.append(answer.text) }
                    return answer
                }
                let admin = try Admin(address, self.fixture)
                var secrets = [gateway.development.token, admin.credential ?? "", signing]
                secrets += [
                    "SECRET-SIGNING-0123456789-0123456789", "SECRET-SHARED-0123456789", "SECRET-ANSWER",
                ]
                let key = try String(contentsOfFile: "\(self.fixture.folder)/secrets.key", encoding: .utf8)
                secrets.append(key.trimmingCharacters(in: .whitespacesAndNewlines))
                let id = gateway.development.id
                for provider in [
                    """
                    {"name":"hook","webhookUrl":"\(hook.origin)/hook?key=SECRET-QUERY",
                    "signingSecrets":[{"secret":"\(signing)"}]}
                    """,
                    """
                    {"name":"desk","anonymous":{"sharedToken":"SECRET-SHARED-0123456789",
                    "permission":"readOnly"}}
                    """,
                    #"{"name":"bad","anonymous":{"sharedToken":"SECRET-SHORT","permission":"readOnly"}}"#,
                    #"{"name":"worse","webhookUrl":"ftp://SECRET-URL"}"#,
                ] {
                    _ = tell(try await admin.post("databases/\(id)/providers", provider))
                }
                secrets += ["SECRET-QUERY", "SECRET-SHORT", "SECRET-URL", "SECRET-LOGIN"]
                for provider in ["development", "hook", "hook", "hook", "desk", "nobody"] {
                    let body = #"{"databaseID":"\#(id)","provider":"\#(provider)","token":"SECRET-LOGIN"}"#
                    let answer = try await login(address, body)
                    // A login's own answer tells its access token, and nothing else does.
                    if let token = answer.object["accessToken"] {
                        secrets.append(token)
                    } else {
                        _ = tell(answer)
                    }
                }
                let made = try await admin.post(
                    "databases/\(id)/api-keys", #"{"name":"k","permissions":{"read":{"everything":true}}}"#)
                let apiKey = made.object["key"] ?? ""
                secrets += [apiKey, String(apiKey.suffix(43))]
                for credential in [apiKey, "SECRET-ADMIN"] {
                    _ = tell(try await Admin(address, credential: credential).get("databases"))
                }
                secrets.append("SECRET-ADMIN")
                for path in ["databases", "databases/\(id)/providers", "databases/\(id)/api-keys"] {
                    _ = tell(try await admin.get(path))
                }
                _ = tell(try await admin.get("databases/\(id)/keys"))
                let metrics = try await HTTPClient.shared.get(url: "\(address.origin)/metrics").get()
                told.withLock { $0.append(metrics.body.map { String(buffer: $0) } ?? "") }
                #expect(told.withLock { $0.count } > 10 && !lines.all.isEmpty)
                for secret in secrets {
                    #expect(!secret.isEmpty)
                    let places = (told.withLock { $0 } + lines.all).filter { $0.contains(secret) }
                    #expect(places == [], "a secret that begins with \(secret.prefix(6))")
                }
            }
        }
    }

    @Test("a certificate is for the peer key of the token, and for who proves to hold it")
    func certificate() async throws {
        let now = Int64(Date().timeIntervalSince1970)
        let gateway = try fixture.gateway(now: { now })
        try await fixture.serving(gateway) { address async throws in
            let peer = PeerKey()
            let login = try await login(
                address, gateway.development.loginBody(more: #","peerKey":"\#(peer.publicKeyString)""#))
            func ask(_ request: String, _ token: String?) async throws -> Answer {
                var asked = HTTPClientRequest(url: "\(address.origin)/_ditto/auth/cert")
                asked.method = .POST
                if let token { asked.headers.add(name: "Authorization", value: "Bearer \(token)") }
                asked.body = .bytes(try JSONEncoder().encode(["request": request]))
                let response = try await HTTPClient.shared.execute(asked, timeout: .seconds(30))
                return Answer(
                    status: Int(response.status.code),
                    body: Array(buffer: try await response.body.collect(upTo: 1_000_000)))
            }
            let token = login.object["accessToken"]
            let answer = try await ask(peer.signingRequest(), token)
            #expect(answer.status == 200)
            struct Issued: Decodable { var certificate: String, authorities: [String] }
            let issued = try JSONDecoder().decode(Issued.self, from: Data(answer.body))
            #expect(issued.authorities.count == 1)
            let identity = try PeerCertificate.verify(
                PeerCertificate.der(pem: issued.certificate),
                authorities: gateway.systemDatabase.directory.keys,
                databaseID: DatabaseID(gateway.development.id), nowSeconds: now)
            #expect(identity.peerKey == peer.publicKeyString && identity.userID == "development")
            #expect(identity.expiresAtSeconds == now + 3600)
            #expect(try await ask(PeerKey().signingRequest(), token).code == "AUTH-0305")
            #expect(try await ask("", token).code == "AUTH-0305")
            #expect(try await ask(peer.signingRequest(), nil).code == "AUTH-0109")
            let admin = try Admin(address, self.fixture)
            _ = try await admin.post("databases/\(gateway.development.id)/keys", "")
            let rotated = try await ask(peer.signingRequest(), token)
            #expect(try JSONDecoder().decode(Issued.self, from: Data(rotated.body)).authorities.count == 2)
        }
    }

    @Test("what a provider shows of a user is signed into the token; what is no small object is of no use")
    func metadata() throws {
        func read(_ metadata: String) throws -> ProviderAnswer {
            try WebhookAnswer.read(
                Array(
                    """
                    {"authenticated":true,"userID":"x","expirationSeconds":60,
                    "identityServiceMetadata":\(metadata)}
                    """.utf8), status: 200)
        }
        func metadata(_ text: String) throws -> String? {
            guard case .accepted(let login) = try read(text) else { return "refused" }
            return login.metadata
        }
        #expect(try metadata(#"{"b": [1], "a": "x"}"#) == #"{"a":"x","b":[1]}"#)
        #expect(try metadata("null") == nil)
        let long = #"{"a":"\#(String(repeating: "x", count: Limits.metadataBytes))"}"#
        for wrong in ["[]", "7", #""text""#, long] {
            #expect(throws: WebhookAnswer.Unusable.self) { try read(wrong) }
        }
    }

    @Test(
        "no change of a webhook's answer makes it trap, or grants more than it said", arguments: [1, 2, 3, 4])
    func mutated(seed: UInt64) throws {
        var generator = SplitMix(state: seed)
        let honest = Array(
            """
            {"authenticated":true,"userID":"x","expirationSeconds":60,"clientInfo":{"a":[1,null]},
            "permissions":{"read":{"everything":false,"queriesByCollection":{"c":["_id == 'a'"]}}}}
            """.utf8)
        for _ in 0..<2_000 {
            var bytes = honest
            for _ in 0..<(1 + generator.next() % 3) {
                let place = Int(generator.next() % UInt64(bytes.count))
                switch generator.next() % 3 {
                case 0: bytes[place] = UInt8(truncatingIfNeeded: generator.next())
                case 1: bytes.remove(at: place)
                default: bytes.insert(UInt8(truncatingIfNeeded: generator.next()), at: place)
                }
            }
            guard case .accepted(let login)? = try? WebhookAnswer.read(bytes, status: 200) else { continue }
            #expect(!login.grant.write.everything && login.seconds > 0 && !login.userID.isEmpty)
        }
    }
}

/// Numbers from a seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
