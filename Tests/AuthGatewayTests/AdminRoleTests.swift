import CRDT
import Foundation
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Named admin credentials")
struct AdminRoleTests {
    let fixture = GatewayFixture()

    private func serving(
        now: @escaping @Sendable () -> Int64 = { GatewayFixture.now },
        _ body: @escaping @Sendable (Admin) async throws -> Void
    ) async throws {
        let gateway = try fixture.gateway(now: now)
        try await fixture.serving(gateway) { address async throws in
            try await body(try Admin(address, self.fixture))
        }
    }

    private func made(_ admin: Admin, _ role: String, more: String = "") async throws -> (String, Admin) {
        let answer = try await admin.post("credentials", #"{"name":"ann","role":"\#(role)"\#(more)}"#)
        #expect(answer.status == 201)
        let credential = "\(answer.object["credential"] ?? "")"
        return ("\(answer.object["id"] ?? "")", Admin(admin.address, credential: credential))
    }

    @Test("each role may do what its routes say, and is told 403 with a code at others")
    func roles() async throws {
        try await serving { admin in
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            let (_, reader) = try await made(admin, "read")
            let (_, operatorOne) = try await made(admin, "operate")
            let (_, owner) = try await made(admin, "own")
            for one in [reader, operatorOne, owner] {
                #expect(try await one.get("databases").status == 200)
            }
            let refused = try await reader.post(
                "databases/fleet/revocations", #"{"kind":"user","value":"u"}"#)
            #expect(refused.status == 403 && refused.text.contains("SRV-0403"))
            #expect(refused.text.contains("role operate"))
            let revoked = try await operatorOne.post(
                "databases/fleet/revocations", #"{"kind":"user","value":"u"}"#)
            #expect(revoked.status == 201)
            // The development token is a secret.
            #expect(try await operatorOne.get("databases/fleet").status == 403)
            #expect(try await owner.get("databases/fleet").status == 200)
            #expect(try await operatorOne.post("credentials", #"{"name":"b","role":"own"}"#).status == 403)
            let who = try await reader.get("whoami")
            #expect(who.object["role"] == "read" && who.object["name"] == "ann")
            #expect(try await admin.get("whoami").text.contains(#""name":null"#))
        }
    }

    @Test("a credential ends with its time, and at once when it is deleted; a list has no secret")
    func ends() async throws {
        let time = Mutex(GatewayFixture.now)
        try await serving(now: { time.withLock { $0 } }) { admin in
            let (_, short) = try await made(admin, "read", more: ",\"expiresAt\":\(GatewayFixture.now + 60)")
            let (id, long) = try await made(admin, "read")
            let list = try await admin.get("credentials")
            #expect(list.items("credentials").count == 2)
            #expect(!list.text.contains(long.credential ?? "") && !list.text.contains("secretHash"))
            time.withLock { $0 += 60 }
            #expect(try await short.get("databases").status == 401)
            #expect(try await long.get("databases").status == 200)
            #expect(try await admin.delete("credentials/\(id)").status == 204)
            #expect(try await long.get("databases").status == 401)
            #expect(try await admin.delete("credentials/\(id)").status == 404)
        }
    }

    @Test("an id that no record can have is one that there is not")
    func longIDs() async throws {
        try await serving { admin in
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            let long = String(repeating: "x", count: 5_000)
            for path in [
                "credentials/\(long)", "databases/fleet/api-keys/\(long)",
                "databases/fleet/revocations/\(long)",
                "databases/fleet/providers/\(long)",
            ] {
                let answer = try await admin.delete(path)
                #expect(answer.status == 404 && answer.code == "AUTH-0411", "\(path.prefix(30))")
            }
            #expect(try await admin.delete("databases/\(long)").code == "AUTH-0402")
        }
    }

    @Test(
        "a credential without name, role or a sound end is refused",
        arguments: [
            "{}", #"{"name":"a"}"#, #"{"name":"a","role":"root"}"#, #"{"name":"","role":"read"}"#,
            #"{"name":"a","role":"read","expiresAt":1}"#,
            #"{"name":"a","role":"read","expiresAt":99999999999}"#,
            #"{"name":"a","role":"read","more":1}"#,
        ])
    func malformed(body: String) async throws {
        try await serving { admin in
            let answer = try await admin.post("credentials", body)
            #expect(answer.status == 400 && answer.text.contains("AUTH-0401"))
        }
    }

    @Test("the audit names whoever acted, and whoever was refused is counted")
    func audit() async throws {
        try await serving { admin in
            let (_, owner) = try await made(admin, "own")
            #expect(try await owner.post("databases", #"{"id":"hers"}"#).status == 201)
            let entries = try await admin.get("audit").items("entries")
            let hers = entries.first { $0["action"] == "POST /admin/auth/databases" }
            #expect(hers?["user"] == "admin:ann")
            #expect(
                entries.contains { $0["action"] == "POST /admin/auth/credentials" && $0["user"] == "admin" })
        }
    }

    @Test("a named credential is no API key, and an API key no admin credential")
    func kinds() async throws {
        try await serving { admin in
            _ = try await admin.post("databases", #"{"id":"fleet"}"#)
            let body = #"{"name":"k","permissions":{"read":{"everything":true}}}"#
            let key = try await admin.post("databases/fleet/api-keys", body)
            let holder = Admin(admin.address, credential: "\(key.object["key"] ?? "")")
            #expect(try await holder.get("databases").status == 401)
        }
    }

    @Test("a gateway whose key file is gone is not ready")
    func keyFile() async throws {
        let gateway = try fixture.gateway(now: { GatewayFixture.now })
        try await fixture.serving(gateway) { _ async throws in
            #expect(await gateway.readiness() == [])
            try FileManager.default.moveItem(
                atPath: "\(self.fixture.folder)/secrets.key", toPath: "\(self.fixture.folder)/away")
            #expect(await gateway.readiness().map(\.code) == ["SRV-0706"])
        }
    }
}
