import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

/// Accesses that nobody may keep, and those that no stranger may end.
@Suite("Access that ends, and access that does not", .timeLimit(.minutes(10)))
struct TakenAwayTests {
    /// A device that was approved for an account: its API key and the key's id.
    private func device(_ people: People, for account: String) async throws -> (key: String, made: Answer) {
        let asked = try await people.call("POST", "join", ["databaseID": "fleet", "name": "phone"])
        let approved = try await people.post(
            "joins/\(asked.object["userCode"] ?? "")", #"{"user":"\#(account)"}"#)
        #expect(approved.status == 204)
        let made = try await people.call(
            "POST", "join/key", ["deviceCode": asked.object["deviceCode"] ?? ""])
        return (made.object["apiKey"] ?? "", made)
    }

    @Test("a signed URL ends with the API key that asked for it, a device's and a program's")
    func signedURL() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let made = try await people.post("api-keys", #"{"name":"gate","permissions":\#(People.reader)}"#)
            let device = try await device(people, for: "ann").key
            let authenticator = Authenticator(
                system: people.gateway.systemDatabase, nowSeconds: { people.clock.seconds })
            let devices = try await people.get("devices").items("devices")
            for (key, path) in [
                (made.object["key"] ?? "", "api-keys/\(made.object["id"] ?? "")"),
                (device, "devices/\(devices[0]["id"] ?? "")"),
            ] {
                let signed = try await people.call(
                    "POST", "attachment-urls", as: key, raw: #"{"ids":["A"]}"#
                ).items("urls")
                let url = try #require(signed.first?["url"])
                let identity = try AccessToken.verify(
                    String(url.split(separator: "=")[1]), keys: people.gateway.systemDatabase.directory.keys,
                    attachment: "A", nowSeconds: people.clock.seconds)
                #expect(authenticator.refusal(of: identity) == nil)
                #expect(try await people.send("DELETE", path).status == 204)
                #expect(authenticator.refusal(of: identity) == .apiKeyRefused)
            }
        }
    }

    @Test("the token of an administrator's look answers for no device and removes none")
    func look() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let look = try await people.post("accounts/ann/view", "").accessToken
            _ = try await device(people, for: "ann")
            let id = try await people.get("devices").items("devices")[0]["id"] ?? ""
            let asked = try await people.call("POST", "join", ["databaseID": "fleet", "name": "phone"])
            let path = "account/joins/\(asked.object["userCode"] ?? "")"
            for (method, path) in [
                ("GET", path), ("POST", path), ("DELETE", "account/devices/\(id)"),
            ] {
                let answer = try await people.call(method, path, as: look)
                #expect(answer.status == 401 && answer.code == "AUTH-0404", "\(method) \(path)")
            }
            let session = try await people.login("ann").accessToken
            #expect(try await people.call("POST", path, as: session).status == 204)
            #expect(try await people.call("DELETE", "account/devices/\(id)", as: session).status == 204)
        }
    }

    @Test("a session that goes on is not forgotten, however many others began and ended after it")
    func forgottenSession() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let kept = try await people.login("ann").accessToken
            let id = try #require(AccountName("ann")).id(in: "fleet")
            let now = people.clock.seconds
            try await people.gateway.systemDatabase.write { writer in
                var account = try #require(try writer.get(id, as: AccountRecord.self))
                for number in 0..<2 * Limits.keptEndedSessions {
                    let session = AccountSession(
                        id: "other \(number)", createdAtSeconds: now, expiresAtSeconds: now + 1_000,
                        address: "10.0.0.1", peerKey: nil)
                    try AccountBook.begin(session, of: &account, now, writer)
                    try AccountBook.end(of: &account, now, writer) { $0.id == session.id }
                }
                #expect(account.sessions.count <= Limits.keptEndedSessions + 2)
                try writer.replace(account)
            }
            #expect(try await people.get("accounts/ann/sessions").items("sessions").count == 1)
            let token = people.token(try await people.post("accounts/ann/reset", "{}"))
            let used = try await people.call(
                "POST", "link/use", ["token": token, "password": "a new password"])
            #expect(used.status == 201)
            #expect(try await people.call("GET", "account", as: kept).status == 401)
        }
    }

    @Test("revocations of sessions go when their tokens have expired everywhere, of forgotten sessions too")
    func revocationsGo() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            try await people.account("bob")
            let system = people.gateway.systemDatabase
            let id = try #require(AccountName("ann")).id(in: "fleet")
            let (now, count) = (people.clock.seconds, Limits.keptEndedSessions + 10)
            try await system.write { writer in
                var account = try #require(try writer.get(id, as: AccountRecord.self))
                for number in 0..<count {
                    let session = AccountSession(
                        id: "other \(number)", createdAtSeconds: now, expiresAtSeconds: now + 1_000,
                        address: "10.0.0.1", peerKey: nil)
                    try AccountBook.begin(session, of: &account, now, writer)
                    try AccountBook.end(of: &account, now, writer) { $0.id == session.id }
                }
                try writer.replace(account)
            }
            _ = try await people.post("revocations", #"{"kind":"user","value":"eve"}"#)
            #expect(system.directory.revocations.count == count + 1)
            // The clock of another service may be behind.
            people.clock.move(1_000 + Limits.endedSessionSeconds - 1)
            #expect(try await people.login("bob").status == 200)
            #expect(system.directory.revocations.count == count + 1)
            people.clock.move(1)
            #expect(try await people.login("bob").status == 200)
            // One without an end stays.
            #expect(system.directory.revocations.values.map(\.value) == ["eve"])
        }
    }

    @Test("a session that was ended stays so when the clock was ahead for a while")
    func clockSetBack() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let ended = try await people.login("ann").accessToken
            _ = try await people.send("PATCH", "accounts/ann", #"{"endSessions":true}"#)
            people.clock.move(Limits.accountSessionSeconds)
            #expect(try await people.login("ann").status == 200)
            people.clock.move(-60)
            let answer = try await people.call("GET", "account", as: ended)
            #expect(answer.status == 401)
        }
    }

    @Test("a second factor of a clock that was ahead hinders none that is begun later")
    func clockAhead() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let begin = { (session: String) in
                let secret = try await people.call(
                    "POST", "account/second-factor", ["password": People.password], as: session
                ).object["secret"]
                return try await people.call(
                    "POST", "account/second-factor",
                    ["password": People.password, "code": people.code(secret ?? "")], as: session
                ).status
            }
            people.clock.move(1_000_000)
            #expect(try await begin(people.login("ann").accessToken) == 204)
            people.clock.move(-1_000_000)
            #expect(try await people.send("PATCH", "accounts/ann", #"{"secondFactor":false}"#).status == 200)
            #expect(try await begin(people.login("ann").accessToken) == 204)
        }
    }

    @Test("of two changes with one password, or one code, at once only one is made")
    func twoChanges() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            let changes = { (members: [[String: String]]) in
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for one in members {
                        group.addTask {
                            try await people.call("POST", "account/password", one, as: session).status
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }.sorted()
                }
            }
            let passwords = ["the first one", "the second one"]
            #expect(
                try await changes(passwords.map { ["password": People.password, "newPassword": $0] })
                    == [204, 401])
            let first = try await people.login("ann", passwords[0], from: "10.0.0.8").status == 200
            let password = passwords[first ? 0 : 1]
            let secret =
                try await people.call(
                    "POST", "account/second-factor", ["password": password], as: session
                ).object["secret"] ?? ""
            let confirmed = try await people.call(
                "POST", "account/second-factor", ["password": password, "code": people.code(secret)],
                as: session)
            #expect(confirmed.status == 204)
            people.clock.move(60)
            // The password stays the same: one after the other, the code alone decides.
            let same = ["password": password, "newPassword": password, "code": people.code(secret)]
            #expect(try await changes([same, same]) == [204, 401])
        }
    }

    @Test("a stranger who asks for a reset ends no link that the person has; the use of one ends the others")
    func strangersReset() async throws {
        let webhook = Webhook("{}")
        let host = ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet)
        try await host.run { hook in
            let accounts = #"{"mailWebhook":"\#(hook.origin)/hook","origin":"https://db.example.org"}"#
            try await People.serving(accounts: accounts) { people async throws in
                let made = try await people.post(
                    "accounts", #"{"provider":"staff","name":"ann","mail":"ann@example.org"}"#)
                let welcome = people.token(made)
                let body = ["databaseID": "fleet", "provider": "staff", "name": "ann"]
                #expect(try await people.call("POST", "reset", body).status == 202)
                // The first mail is the welcome.
                while webhook.calls.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
                let links = webhook.calls.compactMap { call in
                    call.body.split(separator: "/welcome/").last?.split(separator: "\"").first
                }
                let asked = try #require(links.first { $0 != welcome })
                #expect(try await people.call("POST", "link", ["token": welcome]).status == 200)
                #expect(
                    try await people.call(
                        "POST", "link/use", ["token": welcome, "password": People.password]
                    ).status == 201)
                #expect(
                    try await people.call("POST", "link", ["token": String(asked)]).code == "AUTH-0419")
            }
        }
    }

    @Test("a device that acts for a person ends with the time of the person's account, and with the account")
    func deviceOfAccount() async throws {
        try await People.serving { people async throws in
            let end = people.clock.seconds + 7_200
            try await people.account("ann", more: ",\"expiresAt\":\(end),\"permissions\":\(People.reader)")
            let (key, made) = try await device(people, for: "ann")
            #expect(made.object["expiresAt"] == "\(end)")
            let peer = PeerKey().publicKeyString
            let login = { try await people.login(token: key, provider: "api-key", peerKey: peer) }
            #expect(try await login().object["expiresIn"] == "7200")
            let sooner = #"{"expiresAt":\#(people.clock.seconds + 3_600)}"#
            #expect(try await people.send("PATCH", "accounts/ann", sooner).status == 200)
            #expect(try await login().object["expiresIn"] == "3600")
            people.clock.move(3_600)
            #expect(try await login().code == "AUTH-0415")
            // A device that was approved and has not asked yet.
            let asked = try await people.call("POST", "join", ["databaseID": "fleet", "name": "phone"])
            let approve = "joins/\(asked.object["userCode"] ?? "")"
            #expect(try await people.post(approve, #"{"user":"ann"}"#).status == 204)
            #expect(try await people.send("DELETE", "accounts/ann").status == 204)
            #expect(try await people.account("ann").status == 201)
            let late = ["deviceCode": asked.object["deviceCode"] ?? ""]
            #expect(try await people.call("POST", "join/key", late).code == "AUTH-0423")
        }
    }

    @Test("a hash that cannot be computed is an error, and the next one has a thread")
    func noMemory() async throws {
        let impossible = PasswordHash.Parameters(logRounds: 10, blockSize: 8, parallelism: 0)
        let pool = HashPool(threads: 1)
        for _ in 0..<2 {
            do {
                _ = try await pool.run(for: "a") { () throws(AuthGatewayError) in
                    try PasswordHash.make([1], impossible)
                }
                Issue.record("scrypt has no work of no lanes")
            } catch {
                #expect(error.code == .providerBusy && error.httpStatus == .serviceUnavailable)
            }
        }
        let weak = PasswordHash.Parameters(logRounds: 10, blockSize: 8, parallelism: 1)
        for password in [[], [1], [UInt8](repeating: 0, count: 1_024)] as [[UInt8]] {
            let hash = try PasswordHash.make(password, weak)
            #expect(try PasswordHash.verify(password, hash))
            #expect(try !PasswordHash.verify(password + [7], hash))
        }
    }
}
