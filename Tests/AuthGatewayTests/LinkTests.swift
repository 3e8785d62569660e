import AsyncHTTPClient
import Foundation
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Invitations, resets, sessions and second factors", .timeLimit(.minutes(10)))
struct LinkTests {
    private static let all = #"{"everything":true}"#

    @Test("an invitation makes an account once, until its end, and can be taken back")
    func invitation() async throws {
        try await People.serving { people async throws in
            let body = #"{"provider":"staff","name":"Ann","permissions":\#(People.reader)}"#
            let made = try await people.post("invitations", body)
            #expect(made.status == 201 && made.object["mailed"] == "0")
            let token = people.token(made)
            #expect(made.object["link"]?.contains("/#/welcome/mimeo_") == true)
            let shown = try await people.call("POST", "link", ["token": token])
            #expect(shown.object["kind"] == "invitation" && shown.object["name"] == "ann")
            #expect(
                try await people.call("POST", "link/use", ["token": token, "password": "short"]).code
                    == "AUTH-0417")
            let used = try await people.call(
                "POST", "link/use", ["token": token, "password": People.password])
            #expect(used.status == 201 && used.object["name"] == "ann")
            #expect(try await people.login("ann").status == 200)
            let replayed = try await people.call(
                "POST", "link/use", ["token": token, "password": "another password"])
            #expect(replayed.status == 410 && replayed.code == "AUTH-0419")
            #expect(try await people.login("ann").status == 200)
            #expect(try await people.post("invitations", body).code == "AUTH-0418")
            // Ended, taken back, changed and never made are the same.
            let late = people.token(try await people.post("invitations", #"{"provider":"staff"}"#))
            people.clock.move(7 * 24 * 3_600)
            let back = try await people.post("invitations", #"{"provider":"staff"}"#)
            #expect(try await people.send("DELETE", "invitations/\(back.object["id"] ?? "")").status == 204)
            for token in [late, people.token(back), people.token(back) + "x", "mimeo_", ""] {
                #expect(
                    try await people.call("POST", "link", ["token": token]).code == "AUTH-0419", "\(token)")
            }
            #expect(
                try await people.post(
                    "invitations", #"{"provider":"staff","expiresAt":\#(people.clock.seconds + 91 * 86_400)}"#
                ).code == "AUTH-0401")
        }
    }

    @Test("of two who use a link at once, one has the account")
    func race() async throws {
        try await People.serving { people async throws in
            let token = people.token(try await people.post("invitations", #"{"provider":"staff"}"#))
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for name in ["ann", "bob"] {
                    group.addTask {
                        try await people.call(
                            "POST", "link/use", ["token": token, "name": name, "password": People.password]
                        ).status
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }.sorted()
            }
            #expect(statuses == [201, 410])
            #expect(try await people.get("accounts").items("accounts").count == 1)
        }
    }

    @Test("guesses at links make their address wait")
    func guesses() async throws {
        try await People.serving { people async throws in
            for _ in 0..<Limits.failuresPerAddress {
                #expect(
                    try await people.call("POST", "link", ["token": "x"], from: "10.0.0.5").code
                        == "AUTH-0419")
            }
            #expect(
                try await people.call("POST", "link", ["token": "x"], from: "10.0.0.5").code == "AUTH-0410")
            #expect(
                try await people.call("POST", "link", ["token": "x"], from: "10.0.0.6").code == "AUTH-0419")
        }
    }

    @Test("a reset ends all sessions, and a later one the earlier link")
    func reset() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            let first = people.token(try await people.post("accounts/ann/reset", "{}"))
            let second = people.token(try await people.post("accounts/ann/reset", "{}"))
            #expect(try await people.call("POST", "link", ["token": first]).code == "AUTH-0419")
            #expect(
                try await people.call("POST", "link/use", ["token": second, "password": "a new password"])
                    .status == 201)
            #expect(try await people.call("GET", "account", as: session).status == 401)
            #expect(try await people.login("ann").code == "AUTH-0404")
            #expect(try await people.login("ann", "a new password").status == 200)
            let late = people.token(try await people.post("accounts/ann/reset", "{}"))
            people.clock.move(Limits.resetSeconds)
            #expect(try await people.call("POST", "link", ["token": late]).code == "AUTH-0419")
        }
    }

    @Test("mail goes to the account's address once in a while, and an unknown name is answered the same")
    func mail() async throws {
        let webhook = Webhook("{}")
        let host = ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet)
        try await host.run { hook in
            let accounts = #"{"mailWebhook":"\#(hook.origin)/hook","origin":"https://db.example.org/"}"#
            try await People.serving(accounts: accounts) { people async throws in
                try await people.account("ann", more: #","mail":"ann@example.org""#)
                for name in ["nobody", "ann", "ann", "a:b"] {
                    let body = ["databaseID": "fleet", "provider": "staff", "name": name]
                    let answer = try await people.call("POST", "reset", body)
                    #expect(answer.status == 202 && answer.body.isEmpty, "\(name)")
                }
                let invite = #"{"provider":"staff","mail":"bob@example.org"}"#
                let invited = try await people.post("invitations", invite)
                #expect(invited.object["mailed"] == "1")
                while webhook.calls.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
                let bodies = webhook.calls.map(\.body).sorted {
                    $0.contains("invitation") && !$1.contains("invitation")
                }
                #expect(bodies.count == 2)
                #expect(bodies[0].contains(#""kind":"invitation""#) && bodies[0].contains("bob@example.org"))
                #expect(bodies[1].contains(#""kind":"reset""#))
                #expect(bodies[1].contains("https://db.example.org/#/welcome/"))
            }
        }
    }

    @Test(
        "mail needs an origin, because a request's host is a stranger's word; without mail nobody asks"
    )
    func mailConfiguration() async throws {
        try await People.serving { people async throws in
            let wrong = #"{"name":"x","accounts":{"mailWebhook":"http://127.0.0.1:1"}}"#
            #expect(try await people.post("providers", wrong).code == "AUTH-0401")
            for accounts in [
                #"{"sessionLength":0}"#, #"{"origin":"nowhere"}"#, #"{"more":1}"#, "[]",
                #"{"signingSecrets":[{"secret":"x"}]}"#,
            ] {
                #expect(
                    try await people.post("providers", #"{"name":"x","accounts":\#(accounts)}"#).code
                        == "AUTH-0401", "\(accounts)")
            }
            let body = ["databaseID": "fleet", "provider": "staff", "name": "ann"]
            #expect(try await people.call("POST", "reset", body).code == "AUTH-0412")
        }
    }

    @Test("sessions are listed without secrets and end one by one; a password changes with or without them")
    func sessions() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let first = try await people.login("ann", from: "10.0.0.1").accessToken
            let second = try await people.login("ann", from: "10.0.0.2").accessToken
            let own = try await people.call("GET", "account", as: second)
            #expect(own.items("sessions").count == 2 && !own.text.contains(second))
            #expect(own.items("sessions").map { $0["current"] } == ["1", "0"])
            let listed = try await people.get("accounts/ann/sessions").items("sessions")
            #expect(listed.compactMap { $0["address"] } == ["10.0.0.2", "10.0.0.1"])
            let id = listed[1]["id"] ?? ""
            #expect(try await people.send("DELETE", "accounts/ann/sessions/\(id)").status == 204)
            #expect(try await people.send("DELETE", "accounts/ann/sessions/\(id)").code == "AUTH-0411")
            #expect(try await people.call("GET", "account", as: first).status == 401)
            let third = try await people.login("ann").accessToken
            let change = { (password: String, new: String, ends: Bool) in
                #"{"password":"\#(password)","newPassword":"\#(new)","endSessions":\#(ends)}"#
            }
            #expect(
                try await people.call(
                    "POST", "account/password", as: second, raw: change("wrong", "another password", false)
                ).code == "AUTH-0404")
            #expect(
                try await people.call(
                    "POST", "account/password", as: second, raw: change(People.password, "short", false)
                ).code == "AUTH-0417")
            #expect(
                try await people.call(
                    "POST", "account/password", as: second,
                    raw: change(People.password, "another password", false)
                ).status == 204)
            #expect(try await people.call("GET", "account", as: third).status == 200)
            #expect(
                try await people.call(
                    "POST", "account/password", as: second,
                    raw: change("another password", People.password, true)
                ).status == 204)
            #expect(try await people.call("GET", "account", as: third).status == 401)
            #expect(try await people.call("GET", "account", as: second).status == 200)
            // The list forgets what is over.
            people.clock.move(Limits.accountSessionSeconds + Limits.endedSessionSeconds)
            _ = try await people.login("ann")
            #expect(try await people.get("accounts/ann/sessions").items("sessions").count == 1)
            #expect(try await people.get("revocations").items("revocations").isEmpty)
        }
    }

    @Test("the oldest of too many sessions ends")
    func manySessions() throws {
        var account = AccountRecord(
            id: "a", database: "fleet", provider: "staff", name: "ann", createdAtSeconds: 0)
        account.sessions = (0..<100).map {
            AccountSession(id: "\($0)", createdAtSeconds: 0, expiresAtSeconds: 10, address: "", peerKey: nil)
        }
        #expect(AccountViews.sessions(account, 5).count == 100)
        #expect(AccountViews.sessions(account, 10).isEmpty)
    }

    @Test("a second factor is begun, needed, counted once, and ended by the person or an administrator")
    func secondFactor() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            let begin = try await people.call(
                "POST", "account/second-factor", ["password": People.password], as: session)
            let secret = begin.object["secret"] ?? ""
            #expect(
                begin.status == 200
                    && begin.object["uri"]?.hasPrefix("otpauth://totp/fleet:ann?secret=") == true)
            // Not before a code was given.
            #expect(try await people.login("ann").status == 200)
            let confirm = { (code: String) in
                try await people.call(
                    "POST", "account/second-factor", ["password": People.password, "code": code], as: session)
            }
            #expect(try await confirm("000000x").code == "AUTH-0404")
            #expect(try await confirm(people.code(secret)).status == 204)
            #expect(try await people.login("ann").code == "AUTH-0416")
            #expect(try await people.login("ann", "wrong").code == "AUTH-0404")
            // The code that confirmed it has counted.
            #expect(try await people.login("ann", code: people.code(secret)).code == "AUTH-0404")
            people.clock.move(30)
            let code = people.code(secret)
            #expect(try await people.login("ann", code: code).status == 200)
            #expect(try await people.login("ann", code: code).code == "AUTH-0404")
            people.clock.move(300)
            #expect(try await people.login("ann", code: code).code == "AUTH-0404")
            #expect(try await confirm(people.code(secret)).code == "AUTH-0412")
            #expect(
                try await people.send("PATCH", "accounts/ann", #"{"secondFactor":true}"#).code == "AUTH-0401")
            #expect(try await people.send("PATCH", "accounts/ann", #"{"secondFactor":false}"#).status == 200)
            #expect(try await people.login("ann").status == 200)
        }
    }

    @Test("codes are those of RFC 6238, one step early or late, and never twice")
    func codes() {
        let key = Array("12345678901234567890".utf8)
        for (seconds, code) in [(59, "287082"), (1_111_111_109, "081804"), (20_000_000_000, "353130")]
            as [(Int64, String)]
        {
            #expect(OneTimeCode.code(key, seconds / 30) == code)
        }
        let secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        #expect(OneTimeCode.bytes(ofBase32: secret) == key)
        for (now, step) in [(29, 1), (59, 1), (89, 1), (119, nil)] as [(Int64, Int64?)] {
            #expect(OneTimeCode.step(of: "287082", secret: secret, after: 0, nowSeconds: now) == step)
        }
        #expect(OneTimeCode.step(of: "287082", secret: secret, after: 1, nowSeconds: 59) == nil)
        #expect(OneTimeCode.bytes(ofBase32: OneTimeCode.newSecret())?.count == 20)
    }

    @Test("an administrator's look reads what the account reads, and writes nothing")
    func view() async throws {
        try await People.serving { people async throws in
            try await people.account(
                "ann",
                more:
                    #","permissions":{"read":{"queriesByCollection":{"a":["true"]}},"write":\#(Self.all)}"#
            )
            let look = try await people.post("accounts/ann/view", "")
            let identity = try await Authenticator(
                system: people.gateway.systemDatabase, nowSeconds: { people.clock.seconds }
            ).identity(token: look.accessToken)
            #expect(identity.userID == "ann" && identity.grant.read.queriesByCollection["a"] == ["true"])
            #expect(!identity.grant.allowsWritingAnything)
            #expect(try await people.call("GET", "account", as: look.accessToken).code == "AUTH-0404")
            let verdict = try await people.post(
                "explain-access", #"{"account":"ann","collection":"b","id":1}"#)
            #expect(verdict.text.contains(#""allowed":false"#))
        }
    }
}
