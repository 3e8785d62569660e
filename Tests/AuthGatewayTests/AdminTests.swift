import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Admin API")
struct AdminTests {
    let fixture = GatewayFixture()
    private static let everything =
        #"{"read":{"everything":true},"write":{"everything":true}}"#

    /// A gateway with the database `fleet`, its admin, and an authenticator that follows it.
    private func serving(
        now: @escaping @Sendable () -> Int64 = { GatewayFixture.now },
        _ body: @escaping @Sendable (Admin, Authenticator) async throws -> Void
    ) async throws {
        let gateway = try fixture.gateway(now: now)
        let authenticator = Authenticator(system: gateway.systemDatabase, nowSeconds: now)
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            #expect(try await admin.post("databases", #"{"id":"fleet"}"#).status == 201)
            try await body(admin, authenticator)
        }
    }

    /// An access token of the development provider.
    private func token(_ admin: Admin, _ database: DatabaseID, peer: String? = nil) async throws -> Answer {
        let secret = try await admin.get("databases/\(database)").object["developmentToken"] ?? ""
        let more = peer.map { #","peerKey":"\#($0)""# } ?? ""
        return try await login(
            admin.address,
            #"{"databaseID":"\#(database)","provider":"development","token":"\#(secret)"\#(more)}"#)
    }

    private func code(_ body: () async throws -> Void) async -> IdentityErrorCode? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? IdentityError)?.code
        }
    }

    @Test("the first text that is another one is refused, and so is none")
    func wrongCredential() async throws {
        try await serving { admin, _ async throws in
            for credential in [nil, "", "x", admin.credential.map { $0 + "x" }] {
                let answer = try await Admin(admin.address, credential: credential).get("databases")
                #expect(answer.status == 401 && answer.code == "AUTH-0407")
            }
        }
    }

    @Test("nothing but the admin credential opens it: no access token, no API key, no other text")
    func credential() async throws {
        try await serving { admin, _ async throws in
            let access = try await token(admin, "fleet").object["accessToken"]
            let key = try await admin.post(
                "databases/fleet/api-keys", #"{"name":"k","permissions":\#(Self.everything)}"#
            ).object["key"]
            let wrong = [nil, "", "x", access, key, admin.credential.map { $0 + "x" }]
            for credential in wrong {
                let stranger = Admin(admin.address, credential: credential)
                for (method, path) in AdminRoutes.paths {
                    let path = path.replacingOccurrences(of: ":database", with: "fleet")
                        .replacingOccurrences(of: "/admin/auth/", with: "")
                    let answer = try await stranger.send(method.rawValue, path)
                    // After some of them the address waits.
                    #expect([401, 429].contains(answer.status), "\(method) \(path)")
                    #expect(["AUTH-0407", "AUTH-0410"].contains(answer.code))
                }
            }
        }
    }

    @Test("wrong credentials make their address wait, and never the right one")
    func lockingOut() async throws {
        try await serving { admin, _ async throws in
            let stranger = Admin(admin.address, credential: "x")
            for _ in 0..<Limits.failuresPerAddress {
                #expect(try await stranger.get("databases").code == "AUTH-0407")
            }
            #expect(try await stranger.get("databases").code == "AUTH-0410")
            #expect(try await admin.get("databases").status == 200)
            #expect(try await stranger.get("databases").code == "AUTH-0410")
        }
    }

    @Test("the admin credential is read again when its file changes, and one that is removed opens nothing")
    func readAgain() async throws {
        try await serving { admin, _ async throws in
            let path = "\(self.fixture.folder)/admin.token"
            let other = String(repeating: "n", count: 43)
            try Data("\(other)\n".utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
            #expect(try await admin.get("databases").code == "AUTH-0407")
            #expect(try await Admin(admin.address, credential: other).get("databases").status == 200)
            try FileManager.default.removeItem(atPath: path)
            #expect(try await Admin(admin.address, credential: other).get("databases").code == "AUTH-0407")
        }
    }

    @Test("a database is made, listed and deleted; its id is not used again, and its tokens count no more")
    func databases() async throws {
        try await serving { admin, authenticator async throws in
            #expect(try await admin.get("databases").items("databases").contains { $0["id"] == "fleet" })
            #expect(self.fixture.registered.contains("fleet"))
            let access = try await token(admin, "fleet").object["accessToken"] ?? ""
            #expect(try await authenticator.identity(token: access).databaseID == "fleet")
            #expect(try await admin.post("databases", #"{"id":"fleet"}"#).code == "AUTH-0409")
            #expect(try await admin.get("databases/fleet/erasure").code == "AUTH-0402")
            #expect(try await admin.delete("databases/fleet").status == 202)
            #expect(try await admin.get("databases/fleet/erasure").status == 200)
            #expect(try await admin.delete("databases/fleet").code == "AUTH-0402")
            #expect(try await admin.post("databases", #"{"id":"fleet"}"#).code == "AUTH-0409")
            #expect(try await !admin.get("databases").items("databases").contains { $0["id"] == "fleet" })
            #expect(await code { _ = try await authenticator.identity(token: access) } == .tokenDatabase)
            let login = try await login(
                admin.address, #"{"databaseID":"fleet","provider":"development","token":"x"}"#)
            #expect(login.code == "AUTH-0402")
            let made = try await admin.post("databases", #"{"development":false}"#)
            #expect(made.status == 201 && made.object["developmentToken"] == "<null>")
            for body in [
                #"{"id":"a.b"}"#, #"{"id":""}"#, #"{"id":"-a"}"#, #"{"id":"_a"}"#, #"{"id":7}"#, "[]", "{",
                #"{"name":"x"}"#,
            ] {
                #expect(try await admin.post("databases", body).code == "AUTH-0401", "\(body)")
            }
        }
    }

    @Test("a provider that was made logs in at once, also after a restart, and shows no secret")
    func providers() async throws {
        let configuration = """
            {"name":"kiosk","anonymous":{"sharedToken":"0123456789abcdef","permission":"readOnly"}}
            """
        let body = #"{"databaseID":"fleet","provider":"kiosk","token":"0123456789abcdef"}"#
        try await serving { admin, _ async throws in
            #expect(try await login(admin.address, body).code == "AUTH-0403")
            #expect(try await admin.post("databases/fleet/providers", configuration).status == 201)
            #expect(try await login(admin.address, body).status == 200)
            let listed = try await admin.get("databases/fleet/providers")
            #expect(listed.items("providers").map { $0["name"] } == ["kiosk"])
            #expect(!listed.text.contains("0123456789abcdef"))
            for wrong in [
                #"{"name":"development","webhookUrl":"http://x"}"#,
                #"{"name":"a/b","webhookUrl":"http://x"}"#,
                #"{"name":"p","webhookUrl":"ftp://x"}"#, #"{"name":"p"}"#, #"{"webhookUrl":"http://x"}"#,
            ] {
                let answer = try await admin.post("databases/fleet/providers", wrong)
                #expect(answer.code == "AUTH-0401", "\(wrong)")
            }
            let unknown = try await admin.post("databases/nowhere/providers", configuration)
            #expect(unknown.code == "AUTH-0402")
        }
        let again = try fixture.gateway()
        try await fixture.serving(again) { address async throws in
            let admin = try Admin(address, self.fixture)
            #expect(try await login(address, body).status == 200)
            #expect(try await admin.delete("databases/fleet/providers/kiosk").status == 204)
            #expect(try await login(address, body).code == "AUTH-0403")
            #expect(try await admin.delete("databases/fleet/providers/kiosk").code == "AUTH-0411")
        }
    }

    @Test("an API key is told once, opens its database with its rights, and ends by time or by deletion")
    func apiKeys() async throws {
        let clock = Mutex(GatewayFixture.now)
        try await serving(now: { clock.withLock { $0 } }) { admin, authenticator async throws in
            let expires = GatewayFixture.now + 1000
            let permissions = #"{"read":{"queriesByCollection":{"cars":["true"]}}}"#
            let made = try await admin.post(
                "databases/fleet/api-keys",
                #"{"name":"report","expiresAt":\#(expires),"permissions":\#(permissions)}"#)
            #expect(made.status == 201)
            let key = made.object["key"] ?? ""
            let identity = try await authenticator.identity(token: key)
            #expect(identity.databaseID == "fleet" && identity.userID == "api-key:report")
            #expect(identity.rights.read.allowsAll(of: "cars") && !identity.rights.read.allowsAny(of: "x"))
            #expect(!identity.rights.write.allowsAnything)
            let listed = try await admin.get("databases/fleet/api-keys")
            #expect(listed.items("apiKeys").map { $0["id"] } == [made.object["id"]])
            #expect(!listed.text.contains(key.suffix(43)))
            let other = key.hasSuffix("A") ? "B" : "A"
            for wrong in [
                String(key.dropLast()), key.dropLast() + other, key + "A", "mimeo_",
                "mimeo_0123456789abcdef_",
                APIKey().text,
            ] {
                let code = await code { _ = try await authenticator.identity(token: String(wrong)) }
                #expect(code == .apiKeyRefused, "\(wrong)")
            }
            #expect(
                await code { _ = try await authenticator.identity(token: key, databaseID: "other") }
                    == .apiKeyRefused)
            clock.withLock { $0 = expires }
            #expect(await code { _ = try await authenticator.identity(token: key) } == .tokenExpired)
            #expect(authenticator.refusal(of: identity)?.code == .tokenExpired)
            clock.withLock { $0 = expires - 1 }
            #expect(authenticator.refusal(of: identity) == nil)
            let path = "databases/fleet/api-keys/\(made.object["id"] ?? "")"
            #expect(try await admin.delete(path).status == 204)
            #expect(await code { _ = try await authenticator.identity(token: key) } == .apiKeyRefused)
            #expect(authenticator.refusal(of: identity)?.code == .apiKeyRefused)
        }
    }

    @Test(
        "an API key without a name, with rights that cannot be enforced or for longer than a year is a 400",
        arguments: [
            #"{"permissions":{}}"#, #"{"name":"","permissions":{}}"#, #"{"name":"a"}"#,
            #"{"name":"a","permissions":{"read":{"queriesByCollection":{"c":["x == 1"]}}}}"#,
            #"{"name":"a","permissions":{},"expiresAt":1}"#,
            #"{"name":"a","permissions":{},"expiresAt":1900000000}"#, #"{"name":"a","permissions":{},"y":1}"#,
        ])
    func badAPIKey(body: String) async throws {
        try await serving { admin, _ async throws in
            let answer = try await admin.post("databases/fleet/api-keys", body)
            #expect(answer.status == 400 && answer.code == "AUTH-0401")
        }
    }

    @Test(
        "who is revoked is out at once, user, peer and token alike; lifted, only what was issued later counts"
    )
    func revocation() async throws {
        try await serving { admin, authenticator async throws in
            let peer = PeerKey().publicKeyString
            func accessToken() async throws -> String {
                try await token(admin, "fleet", peer: peer).object["accessToken"] ?? ""
            }
            let first = try await authenticator.identity(token: try await accessToken())
            let subjects = [
                ("user", "development"), ("peer", peer), ("token", first.tokenID ?? ""),
            ]
            for (kind, value) in subjects {
                let access = kind == "token" ? nil : try await accessToken()
                let made = try await admin.post(
                    "databases/fleet/revocations", #"{"kind":"\#(kind)","value":"\#(value)"}"#)
                #expect(made.status == 201)
                #expect(authenticator.refusal(of: first)?.code == .revoked)
                if let access {
                    #expect(await code { _ = try await authenticator.identity(token: access) } == .revoked)
                    let refused = try await token(admin, "fleet", peer: peer)
                    #expect(refused.status == 401 && refused.code == "AUTH-0408")
                }
                let id = made.object["id"] ?? ""
                #expect(try await admin.delete("databases/fleet/revocations/\(id)").status == 204)
                #expect(authenticator.refusal(of: first)?.code == .revoked)
                // In the very second of the lift.
                #expect(await code { _ = try await authenticator.identity(token: accessToken()) } == nil)
            }
            let listed = try await admin.get("databases/fleet/revocations").items("revocations")
            #expect(Set(listed.map { $0["kind"] }) == ["user", "peer", "token"])
            for wrong in [
                #"{"kind":"king","value":"x"}"#, #"{"kind":"user"}"#, "{}",
                #"{"kind":"peer","value":"\#(peer.dropLast(4))"}"#, #"{"kind":"peer","value":" "}"#,
            ] {
                #expect(try await admin.post("databases/fleet/revocations", wrong).code == "AUTH-0401")
            }
            #expect(try await admin.delete("databases/fleet/revocations/none").code == "AUTH-0411")
            // Another database's users are others.
            _ = try await admin.post("databases", #"{"id":"yard"}"#)
            _ = try await admin.post(
                "databases/fleet/revocations", #"{"kind":"user","value":"development"}"#)
            #expect(try await token(admin, "yard").status == 200)
        }
    }

    @Test("after a rotation both keys count, and the earlier one until its overlap is over")
    func rotation() async throws {
        let clock = Mutex(GatewayFixture.now)
        try await serving(now: { clock.withLock { $0 } }) { admin, authenticator async throws in
            let old = try await token(admin, "fleet").object["accessToken"] ?? ""
            let rotated = try await admin.post("databases/fleet/keys", #"{"overlapSeconds":10}"#)
            #expect(rotated.object["id"] == "fleet.2")
            let new = try await token(admin, "fleet").object["accessToken"] ?? ""
            #expect(try AccessToken.keyID(of: new).number == 2)
            for token in [old, new] {
                #expect(await code { _ = try await authenticator.identity(token: token) } == nil)
            }
            #expect(try await keyIDs(admin.address) == ["fleet.1", "fleet.2"])
            clock.withLock { $0 += 10 }
            #expect(await code { _ = try await authenticator.identity(token: old) } == .tokenKeyUnknown)
            #expect(await code { _ = try await authenticator.identity(token: new) } == nil)
            #expect(try await keyIDs(admin.address) == ["fleet.2"])
            #expect(try await admin.get("databases/fleet/keys").items("keys").count == 2)
            #expect(try await admin.post("databases/fleet/keys", #"{"overlapSeconds":-1}"#).status == 400)
        }
    }

    /// The key ids that the gateway publishes.
    private func keyIDs(_ address: ListenAddress) async throws -> [String] {
        let source = JWKSKeySource(issuer: try Origin(address.origin))
        let keys = try await source.refreshedKeys()
        return (1...3).map { "fleet.\($0)" }.filter { KeyID($0).map { keys[$0] != nil } ?? false }
    }

    @Test("what belongs to one database is not reached through another")
    func foreignPaths() async throws {
        try await serving { admin, authenticator async throws in
            _ = try await admin.post("databases", #"{"id":"yard"}"#)
            let key = try await admin.post(
                "databases/fleet/api-keys", #"{"name":"k","permissions":\#(Self.everything)}"#)
            let revocation = try await admin.post(
                "databases/fleet/revocations", #"{"kind":"user","value":"ada"}"#)
            for path in [
                "api-keys/\(key.object["id"] ?? "")", "revocations/\(revocation.object["id"] ?? "")",
            ] {
                #expect(try await admin.delete("databases/yard/\(path)").code == "AUTH-0411")
            }
            #expect(try await admin.get("databases/yard/api-keys").items("apiKeys").isEmpty)
            #expect(try await admin.get("databases/yard/revocations").items("revocations").isEmpty)
            #expect(
                await code { _ = try await authenticator.identity(token: key.object["key"] ?? "") } == nil)
        }
    }

    @Test("what was sealed for one place, or under another key, opens at no other")
    func sealing() throws {
        let box = SecretBox(secret: "0123456789abcdef0123456789abcdef")
        let sealed = box.seal("secret", at: "here")
        #expect(try box.open(sealed, at: "here") == "secret")
        #expect(box.seal("secret", at: "here") != sealed)
        let other = SecretBox(secret: "0123456789abcdef0123456789abcdeg")
        for attempt in [
            { try box.open(sealed, at: "there") }, { try other.open(sealed, at: "here") },
            { try box.open(String(sealed.dropLast(4)), at: "here") }, { try box.open("", at: "here") },
        ] {
            #expect((#expect(throws: AuthGatewayError.self) { try attempt() })?.code == .secretSealed)
        }
    }

    @Test("a host name that begins with a database's id is good for that database's tokens only")
    func hostNames() async throws {
        try await serving { admin, _ async throws in
            _ = try await admin.post("databases", #"{"id":"yard"}"#)
            let fleet = try await token(admin, "fleet").object["accessToken"] ?? ""
            for (host, status) in [
                ("fleet.example.org", 400), ("yard.example.org", 401), ("else.example.org", 400),
                ("yard", 400), ("Yard.example.org", 401), ("FLEET.example.org", 400),
            ] {
                var request = HTTPClientRequest(url: "\(admin.address.origin)/_ditto/auth/cert")
                request.method = .POST
                request.headers.add(name: "Host", value: host)
                request.headers.add(name: "Authorization", value: "Bearer \(fleet)")
                let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
                #expect(Int(response.status.code) == status, "\(host)")
            }
        }
    }

    @Test("another gateway on the same log, with the same key file, signs with the same keys")
    func secondGateway() async throws {
        let first = try fixture.gateway()
        let second = try fixture.gateway()
        try await fixture.serving(first) { address async throws in
            let admin = try Admin(address, self.fixture)
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            try await self.fixture.serving(second) { other async throws in
                let here = try await token(admin, "fleet").object["accessToken"] ?? ""
                let secret = try await admin.get("databases/fleet").object["developmentToken"] ?? ""
                let there =
                    try await login(
                        other, #"{"databaseID":"fleet","provider":"development","token":"\#(secret)"}"#
                    ).object["accessToken"] ?? ""
                let authenticator = Authenticator(
                    system: second.systemDatabase, nowSeconds: { GatewayFixture.now })
                for token in [here, there] {
                    let identity = try await authenticator.identity(token: token)
                    #expect(identity.signedBy?.description == "fleet.1")
                }
            }
        }
    }
}
