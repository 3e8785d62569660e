import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("Accounts", .timeLimit(.minutes(10)))
struct AccountTests {
    @Test("a name and a password buy a token of the account's user and permissions")
    func login() async throws {
        try await People.serving { people async throws in
            let made = try await people.account(
                "Ann", more: #","permissions":{"read":{"queriesByCollection":{"cars":["true"]}}}"#)
            #expect(made.status == 201 && made.object["name"] == "ann")
            for token in [
                "ann:\(People.password)", "ANN:\(People.password)",
                #"{"name":"aNn","password":"\#(People.password)"}"#,
            ] {
                let answer = try await people.login(token: token)
                #expect(answer.status == 200 && answer.object["userID"] == "ann", "\(token)")
                let identity = try await Authenticator(
                    system: people.gateway.systemDatabase, nowSeconds: { people.clock.seconds }
                ).identity(token: answer.accessToken)
                #expect(identity.grant.read.queriesByCollection["cars"] == ["true"])
                #expect(
                    !identity.grant.write.everything
                        && identity.expiresAtSeconds == people.clock.seconds + 86_400)
            }
            for token in [
                "ann:wrong password", "ann", "ann:", ":", "", "{", #"{"name":"ann"}"#,
                "nobody:\(People.password)",
            ] {
                let answer = try await people.login(token: token, from: "10.0.0.9")
                #expect(answer.status == 401 && answer.code == "AUTH-0404", "\(token)")
            }
            let long = try await people.login("ann", String(repeating: "x", count: 2_000), from: "10.0.0.9")
            #expect(long.code == "AUTH-0404")
            #expect(
                try await people.login(token: "ann:\(People.password)", provider: "else").code == "AUTH-0403")
        }
    }

    @Test(
        "each field of an account that is impossible is refused with its code",
        arguments: [
            (#"{"name":"ann"}"#, 400, "AUTH-0401"), (#"{"provider":"else","name":"ann"}"#, 404, "AUTH-0403"),
            (#"{"provider":"staff","name":""}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"a:b"}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"a b"}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"-ann"}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"a\u200db"}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"a\u202eb"}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"development"}"#, 409, "AUTH-0418"),
            (#"{"provider":"staff","name":"staff"}"#, 409, "AUTH-0418"),
            (#"{"provider":"staff","name":"ann","password":"1"}"#, 400, "AUTH-0417"),
            (#"{"provider":"staff","name":"ann","password":1}"#, 400, "AUTH-0401"),
            (#"{"provider":"staff","name":"ann","mail":"nowhere"}"#, 400, "AUTH-0401"),
            (#"{"provider":"staff","name":"ann","mail":"a@b\nc"}"#, 400, "AUTH-0401"),
            (#"{"provider":"staff","name":"ann","expiresAt":1}"#, 400, "AUTH-0401"),
            (#"{"provider":"staff","name":"ann","expiresAt":9223372036854775807}"#, 400, "AUTH-0401"),
            (#"{"provider":"staff","name":"ann","set":"none"}"#, 400, "AUTH-0401"),
            (
                #"{"provider":"staff","name":"ann","permissions":{"read":7}}"#,
                400, "AUTH-0401"
            ),
            (#"{"provider":"staff","name":"ann","set":"a","permissions":{}}"#, 400, "AUTH-0401"),
            (#"{"provider":"staff","name":"ann","more":1}"#, 400, "AUTH-0401"),
        ])
    func impossible(body: String, status: Int, code: String) async throws {
        try await People.serving { people async throws in
            let answer = try await people.post("accounts", body)
            #expect(answer.status == status && answer.code == code, "\(answer.text)")
            #expect(try await people.get("accounts").items("accounts").isEmpty)
        }
    }

    @Test("a password of a megabyte is refused before it is hashed")
    func hugePassword() async throws {
        try await People.serving { people async throws in
            let huge = String(repeating: "x", count: 1 << 20)
            let made = try await people.post(
                "accounts", #"{"provider":"staff","name":"ann","password":"\#(huge)"}"#)
            #expect(made.status == 413)
            #expect(try await people.login("ann", huge).status == 413)
        }
    }

    @Test("the object of a login has its three members, once and no others, however many are sent")
    func objectOfLogin() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let right = #""name":"ann","password":"\#(People.password)""#
            #expect(try await people.login(token: "{\(right),\"code\":null}").status == 200)
            let many = (0..<1_000).map { #","k\#($0)":1"# }.joined()
            for more in [many, #","more":1"#, #","name":"ann""#, #","code":["#] {
                let answer = try await people.login(token: "{\(right)\(more)}", from: "10.0.0.9")
                #expect(answer.status == 401 && answer.code == "AUTH-0404", "\(more.prefix(20))")
            }
        }
    }

    @Test("a name that looks like another one's, in whichever spelling, is refused")
    func lookAlikes() async throws {
        try await People.serving { people async throws in
            try await people.account("marie")
            // Cyrillic а, е and і; full width; capital; two letters for one.
            for name in ["mаrie", "mariе", "marіe", "ｍａｒｉｅ", "MARIE", "rnarie"] {
                let answer = try await people.account(name)
                #expect(answer.status == 409 && answer.code == "AUTH-0418", "\(name)")
            }
            for name in ["maria", "marié", "мария", "marie2"] {
                #expect(try await people.account(name).status == 201, "\(name)")
            }
            // A look-alike is no way in either.
            #expect(try await people.login("mаrie").code == "AUTH-0404")
            #expect(try await people.login("Ｍarie").status == 200)
        }
    }

    @Test("strangers who fail lock themselves out, and the account's person comes in from elsewhere")
    func lock() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            #expect(try await people.login("ann", from: "10.0.0.1").status == 200)
            for _ in 0..<Limits.failuresPerAccount {
                #expect(try await people.login("ann", "wrong", from: "10.0.0.2").code == "AUTH-0404")
            }
            for password in ["wrong", People.password] {
                let locked = try await people.login("ann", password, from: "10.0.0.2")
                #expect(locked.status == 429 && locked.code == "AUTH-0414" && locked.retryAfter != nil)
            }
            for origin in ["10.0.0.1", "10.0.0.3"] {
                #expect(try await people.login("ann", from: origin).status == 200, "\(origin)")
            }
            // An unknown name is locked in the same way.
            for _ in 0..<Limits.failuresPerAccount {
                #expect(try await people.login("nobody", "wrong", from: "10.0.0.4").code == "AUTH-0404")
            }
            #expect(try await people.login("nobody", "wrong", from: "10.0.0.4").code == "AUTH-0414")
        }
    }

    private static func limiter(_ people: People, secret: String = "of all gateways") -> AccountLimiter {
        let box = SecretBox(secret: secret)
        return AccountLimiter(
            system: people.gateway.systemDatabase, digest: { box.digest($0) },
            nowSeconds: { people.clock.seconds })
    }

    @Test("while many networks fail, a strange one may fail once, and the person's own is as before")
    func crowd() async throws {
        try await People.serving { people async throws in
            let limiter = Self.limiter(people)
            for number in 0..<Limits.failuresOfStrangers {
                try limiter.begin("a", from: "\(number)", isKnown: false)
                limiter.end("a", from: "\(number)", failed: true)
            }
            try limiter.begin("a", from: "new", isKnown: false)
            limiter.end("a", from: "new", failed: true)
            #expect(throws: AuthGatewayError.self) { try limiter.begin("a", from: "new", isKnown: false) }
            for _ in 0..<5 {
                try limiter.begin("a", from: "home", isKnown: true)
                limiter.end("a", from: "home", failed: true)
            }
            try limiter.begin("a", from: "home", isKnown: true)
            limiter.end("a", from: "home", failed: false)
            try limiter.begin("b", from: "new", isKnown: false)
        }
    }

    @Test("whoever has to wait for attempts that are under way waits a moment, and no quarter of an hour")
    func underWay() async throws {
        try await People.serving { people async throws in
            let limiter = Self.limiter(people)
            func begin() throws { try limiter.begin("a", from: "10.0.0.1", isKnown: false) }
            func seconds() throws -> Int64? {
                try #require(throws: AuthGatewayError.self) { try begin() }.retryAfterSeconds
            }
            for _ in 0..<Limits.failuresPerAccount { try begin() }
            #expect(try seconds() == 1)
            limiter.end("a", from: "10.0.0.1", failed: true)
            #expect(try seconds() == 1, "nine may fail yet")
            for _ in 1..<Limits.failuresPerAccount { limiter.end("a", from: "10.0.0.1", failed: true) }
            #expect(try seconds() == 15 * 60 + 1)
        }
    }

    @Test("the failures at one gateway count at another one, and its success forgets them there")
    func sharedFailures() async throws {
        try await People.serving { people async throws in
            let system = people.gateway.systemDatabase
            let (first, second) = (Self.limiter(people), Self.limiter(people))
            for _ in 0..<Limits.failuresPerAccount {
                try first.begin("a", from: "10.0.0.1", isKnown: false)
                first.end("a", from: "10.0.0.1", failed: true)
            }
            // No limiter counts more than there were, whether or not they are written.
            #expect(throws: AuthGatewayError.self) { try first.begin("a", from: "10.0.0.1", isKnown: false) }
            try first.begin("a", from: "10.0.0.2", isKnown: false)
            let counted = { system.directory.loginFailures.values.flatMap(\.counts).map(\.failures).sorted() }
            // Its own count, and that of all networks.
            while counted() != [10, 10] { try await Task.sleep(for: .milliseconds(5)) }
            let locked = try #require(throws: AuthGatewayError.self) {
                try second.begin("a", from: "10.0.0.1", isKnown: false)
            }
            #expect(locked.code == .accountLocked && locked.retryAfterSeconds == 15 * 60 + 1)
            try second.begin("a", from: "10.0.0.2", isKnown: false)
            try second.begin("b", from: "10.0.0.1", isKnown: false)
            // A clock that is set back frees, as one that goes on does.
            people.clock.move(-15 * 60)
            try second.begin("a", from: "10.0.0.1", isKnown: false)
            people.clock.move(30 * 60)
            try second.begin("a", from: "10.0.0.1", isKnown: false)
            people.clock.move(-15 * 60)
            second.end("a", from: "10.0.0.1", failed: false)
            while counted() != [10] { try await Task.sleep(for: .milliseconds(5)) }
            try first.begin("a", from: "10.0.0.1", isKnown: false)
        }
    }

    @Test("failures under many names stay few records, and push out none that is guessed at")
    func boundedFailures() async throws {
        try await People.serving { people async throws in
            let system = people.gateway.systemDatabase
            let limiter = Self.limiter(people)
            func fail(_ account: String, _ network: String) throws {
                try limiter.begin(account, from: network, isKnown: false)
                limiter.end(account, from: network, failed: true)
            }
            let place = limiter.place("a", "10.0.0.1")
            for _ in 0..<Limits.failuresPerAccount { try fail("a", "10.0.0.1") }
            var names: [String] = []
            var number = 0
            while names.count < 2 * Limits.failuresPerPlace {
                let name = "\(number)"
                if limiter.place(name, "10.0.0.1") == place { names.append(name) }
                number += 1
            }
            for name in names { try fail(name, "10.0.0.1") }
            let counts = { system.directory.loginFailures[$0]?.counts ?? [] }
            // The last one is written with all others, or after them.
            let last = limiter.place(names.last ?? "", nil)
            while counts(last).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
            #expect(counts(place).count == Limits.failuresPerPlace)
            #expect(counts(place).contains { $0.failures == Limits.failuresPerAccount })
            #expect(throws: AuthGatewayError.self) {
                try limiter.begin("a", from: "10.0.0.1", isKnown: false)
            }
            // Nobody without the gateways' secret knows which names those are.
            let strange = Self.limiter(people, secret: "of nobody")
            #expect(Set(names.map { strange.place($0, "10.0.0.1") }).count > 1)
            #expect(limiter.place("a", nil) == Self.limiter(people).place("a", nil))
        }
    }

    @Test("an account ends with its time, and that is told only after the right password")
    func expires() async throws {
        try await People.serving { people async throws in
            try await people.account("ann", more: ",\"expiresAt\":\(people.clock.seconds + 3_600)")
            let answer = try await people.login("ann")
            #expect(answer.object["expiresIn"] == "3600")
            people.clock.move(3_600)
            #expect(try await people.login("ann").code == "AUTH-0415")
            #expect(try await people.login("ann", "wrong").code == "AUTH-0404")
            #expect(try await people.send("PATCH", "accounts/ann", #"{"expiresAt":null}"#).status == 200)
            #expect(try await people.login("ann").status == 200)
        }
    }

    @Test("a hash of other parameters is replaced at the next login")
    func rehash() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let name = try #require(AccountName("ann"))
            let id = name.id(in: "fleet")
            let weak = try PasswordHash.make(
                Array(People.password.utf8), .init(logRounds: 10, blockSize: 8, parallelism: 1))
            try await people.gateway.systemDatabase.write { writer in
                var account = try #require(try writer.get(id, as: AccountRecord.self))
                account.passwordHash = weak
                try writer.put(account)
            }
            #expect(try await people.login("ann", "wrong").code == "AUTH-0404")
            #expect(people.gateway.systemDatabase.directory.accounts[id]?.passwordHash == weak)
            #expect(try await people.login("ann").status == 200)
            let hash = try #require(people.gateway.systemDatabase.directory.accounts[id]?.passwordHash)
            #expect(hash != weak && !PasswordHash.isOutdated(hash))
            #expect(try await people.login("ann").status == 200)
        }
    }

    @Test(
        "a removed person is out at once, and the name does not bring the old tokens back"
    )
    func removed() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            #expect(try await people.call("GET", "account", as: session).status == 200)
            #expect(try await people.send("DELETE", "accounts/ann").status == 204)
            #expect(try await people.call("GET", "account", as: session).status == 401)
            #expect(try await people.login("ann").code == "AUTH-0404")
            #expect(try await people.send("DELETE", "accounts/ann").code == "AUTH-0411")
            // An invited person cannot take the name; an administrator can give it again.
            let invited = try await people.post("invitations", #"{"provider":"staff"}"#)
            let used = try await people.call(
                "POST", "link/use",
                ["token": people.token(invited), "name": "ann", "password": People.password])
            #expect(used.code == "AUTH-0418")
            #expect(try await people.account("ann").status == 201)
            #expect(try await people.call("GET", "account", as: session).status == 401)
            let next = try await people.login("ann").accessToken
            #expect(try await people.call("GET", "account", as: next).status == 200)
        }
    }

    @Test("sets of permissions are shared, and count from the next login or at once")
    func sets() async throws {
        try await People.serving { people async throws in
            #expect(
                try await people.send("PUT", "sets/crew", #"{"permissions":\#(People.reader)}"#).status == 204
            )
            for name in ["Crew", "a/b", "", String(repeating: "x", count: 65)] {
                let answer = try await people.send(
                    "PUT", "sets/\(name.replacingOccurrences(of: "/", with: "%2F"))", #"{"permissions":{}}"#)
                #expect([400, 404, 405].contains(answer.status), "\(name)")
            }
            try await people.account("ann", more: #","set":"crew""#)
            let session = try await people.login("ann").accessToken
            #expect(try await people.call("GET", "account", as: session).text.contains(#""everything":true"#))
            #expect(try await people.send("DELETE", "sets/crew").code == "AUTH-0412")
            let narrow =
                #"{"permissions":{"read":{"queriesByCollection":{"a":["true"]}}},"endSessions":true}"#
            #expect(try await people.send("PUT", "sets/crew", narrow).status == 204)
            #expect(try await people.call("GET", "account", as: session).status == 401)
            let next = try await people.login("ann").accessToken
            #expect(try await people.call("GET", "account", as: next).text.contains(#""a":["true"]"#))
            // A collection that the set no longer names is gone.
            let other = #"{"permissions":{"read":{"queriesByCollection":{"b":["true"]}}}}"#
            #expect(try await people.send("PUT", "sets/crew", other).status == 204)
            let sets = try await people.get("sets").text
            #expect(sets.contains(#""b":["true"]"#) && !sets.contains(#""a":["true"]"#))
            #expect(try await people.send("PATCH", "accounts/ann", #"{"set":null}"#).status == 200)
            #expect(try await people.send("DELETE", "sets/crew").status == 204)
            #expect(try await people.send("DELETE", "sets/crew").code == "AUTH-0411")
        }
    }

    @Test("ten thousand accounts are listed by pages, found by a part, log in, and go with their database")
    func many() async throws {
        try await People.serving { people async throws in
            let system = people.gateway.systemDatabase
            for start in stride(from: 0, to: 10_000, by: 500) {
                try await system.write { writer in
                    for number in start..<start + 500 {
                        let text = "person-\(String(number + 10_000).dropFirst())"
                        guard let name = AccountName(text) else { continue }
                        try writer.put(
                            AccountRecord(
                                id: name.id(in: "fleet"), database: "fleet", provider: "staff", name: text,
                                createdAtSeconds: people.clock.seconds))
                    }
                }
            }
            try await people.account("zoe")
            #expect(system.directory.accounts.count == 10_001)
            // A client unpacks no answer that shrinks to a hundredth: accounts of a thousand names do.
            let first = try await people.get("accounts?limit=20")
            #expect(first.object["total"] == "10001" && first.object["after"] == "person-0019")
            let next = try await people.get("accounts?limit=2&after=person-0999")
            #expect(next.items("accounts").compactMap { $0["name"] } == ["person-1000", "person-1001"])
            #expect(try await people.get("accounts?match=-4242").items("accounts").count == 1)
            #expect(try await people.get("accounts?limit=0").status == 400)
            for _ in 0..<5 { #expect(try await people.login("zoe").status == 200) }
            #expect(try await people.admin.delete("databases/fleet").status == 202)
            #expect(system.directory.accounts.isEmpty)
        }
    }
}
