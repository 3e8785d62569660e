import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("Devices that join, and API keys of peers", .timeLimit(.minutes(10)))
struct JoinTests {
    /// The codes of a device that asks.
    private func begin(
        _ people: People, peerKey: String? = nil, from origin: String? = nil
    ) async throws -> (device: String, user: String) {
        var members = ["databaseID": "fleet", "name": "phone"]
        members["peerKey"] = peerKey
        let answer = try await people.call("POST", "join", members, from: origin)
        #expect(answer.status == 200 && answer.object["interval"] == "2")
        #expect(
            answer.object["verificationURIComplete"]?.hasSuffix(
                "/#/join/fleet/\(answer.object["userCode"] ?? "-")") == true)
        return (answer.object["deviceCode"] ?? "", answer.object["userCode"] ?? "")
    }

    /// Permissions that read by these queries in DQL.
    private static func grant(_ queries: String) -> String {
        #"{"qlVersion":1,"read":{"queriesByCollection":\#(queries)}}"#
    }

    private func ask(_ people: People, _ device: String) async throws -> Answer {
        people.clock.move(60)
        return try await people.call("POST", "join/key", ["deviceCode": device])
    }

    @Test("a person approves a device, which has a key of its own once, for its own peer alone")
    func joins() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            let peer = PeerKey().publicKeyString
            let (device, user) = try await begin(people, peerKey: peer)
            #expect(try await ask(people, device).code == "AUTH-0420")
            let seen = try await people.call(
                "GET", "account/joins/\(user.lowercased().replacingOccurrences(of: "-", with: ""))",
                as: session)
            #expect(seen.object["name"] == "phone" && seen.object["peerKey"] == peer)
            #expect(
                try await people.call("POST", "account/joins/\(user)", ["name": "Ann's phone"], as: session)
                    .status == 204)
            let made = try await ask(people, device)
            let key = made.object["apiKey"] ?? ""
            #expect(
                made.status == 200 && made.object["name"] == "Ann's phone"
                    && made.object["provider"] == "api-key")
            #expect(try await ask(people, device).code == "AUTH-0423")
            // It is for this peer, and opens nothing by itself.
            let answer = try await people.login(token: key, provider: "api-key", peerKey: peer)
            #expect(answer.status == 200 && answer.object["userID"] == "ann")
            #expect(try await people.login(token: key, provider: "api-key").code == "AUTH-0404")
            #expect(
                try await people.login(token: key, provider: "api-key", peerKey: PeerKey().publicKeyString)
                    .code == "AUTH-0404")
            #expect(try await people.call("GET", "account", as: key).status == 401)
            // Its token is no person's: it approves nothing.
            #expect(
                try await people.call("GET", "account/joins/\(user)", as: answer.accessToken).code
                    == "AUTH-0404")
            let listed = try await people.get("devices").items("devices")
            #expect(listed.count == 1 && listed[0]["approvedBy"] == "ann" && listed[0]["peerKey"] == peer)
            #expect(try await people.get("api-keys").items("apiKeys").isEmpty)
            // Its removal ends it at once.
            let token = answer.accessToken
            let authenticator = Authenticator(
                system: people.gateway.systemDatabase, nowSeconds: { people.clock.seconds })
            #expect(try await authenticator.identity(token: token).peerKey == peer)
            let own = try await people.call("GET", "account", as: session).items("devices")
            #expect(
                try await people.call("DELETE", "account/devices/\(own[0]["id"] ?? "")", as: session).status
                    == 204)
            await #expect(throws: IdentityError.self) { try await authenticator.identity(token: token) }
            #expect(
                try await people.login(token: key, provider: "api-key", peerKey: peer).code == "AUTH-0404")
        }
    }

    @Test("a device gets no more than its person has, and goes with the person")
    func bounded() async throws {
        try await People.serving { people async throws in
            try await people.account(
                "ann",
                more:
                    #","permissions":\#(Self.grant(#"{"a":["true"],"b":["_id.x = 1","_id.x = 2"]}"#))"#
            )
            let session = try await people.login("ann").accessToken
            let (device, user) = try await begin(people)
            for more in [
                #"{"read":{"everything":true}}"#, #"{"write":{"queriesByCollection":{"a":["true"]}}}"#,
                #"{"qlVersion":1,"read":{"queriesByCollection":{"b":["_id.x = 3"]}}}"#,
                #"{"read":{"queriesByCollection":{"b":["_id.x = 1"]}}}"#,
                #"{"qlVersion":1,"remoteQuery":true}"#,
            ] {
                let answer = try await people.call(
                    "POST", "account/joins/\(user)", as: session, raw: #"{"permissions":\#(more)}"#)
                #expect(answer.code == "AUTH-0401", "\(more)")
            }
            let less =
                #"{"permissions":\#(Self.grant(#"{"a":["_id.y = 1"],"b":["_id.x = 2"]}"#))}"#
            #expect(
                try await people.call("POST", "account/joins/\(user)", as: session, raw: less).status == 204)
            let key = try await ask(people, device).object["apiKey"] ?? ""
            #expect(try await people.login(token: key, provider: "api-key").status == 200)
            #expect(try await people.send("DELETE", "accounts/ann").status == 204)
            #expect(try await people.login(token: key, provider: "api-key").code == "AUTH-0404")
        }
    }

    @Test("codes end, are denied, and are answered once")
    func oddCases() async throws {
        try await People.serving { people async throws in
            let (late, lateUser) = try await begin(people)
            people.clock.move(Limits.joinSeconds)
            #expect(try await people.call("POST", "join/key", ["deviceCode": late]).code == "AUTH-0423")
            let approve = #"{"permissions":\#(People.reader)}"#
            #expect(try await people.post("joins/\(lateUser)", approve).code == "AUTH-0423")
            let (denied, deniedUser) = try await begin(people)
            #expect(try await people.post("joins/\(deniedUser)", #"{"deny":true}"#).status == 204)
            #expect(try await ask(people, denied).code == "AUTH-0422")
            #expect(try await ask(people, denied).code == "AUTH-0423")
            // Two answers at once.
            let (device, user) = try await begin(people)
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for body in [approve, #"{"deny":true}"#] {
                    group.addTask { try await people.post("joins/\(user)", body).status }
                }
                return try await group.reduce(into: []) { $0.append($1) }.sorted()
            }
            #expect(statuses == [204, 409])
            // Two questions at once after that: at most one has a key.
            let answers = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<2 {
                    group.addTask { try await people.call("POST", "join/key", ["deviceCode": device]).status }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.count { $0 == 200 } <= 1 && answers.contains(410))
            for code in ["", "x", "fleet:\(user):mimeo_", device + "x", "else" + device.dropFirst(5)] {
                #expect(
                    try await people.call("POST", "join/key", ["deviceCode": code]).code == "AUTH-0423",
                    "\(code)")
            }
        }
    }

    @Test("a device that asks too often has to ask less often")
    func slowDown() async throws {
        try await People.serving { people async throws in
            let (device, _) = try await begin(people)
            let ask = { try await people.call("POST", "join/key", ["deviceCode": device]) }
            #expect(try await ask().code == "AUTH-0420")
            let hurried = try await ask()
            #expect(hurried.status == 400 && hurried.code == "AUTH-0421" && hurried.retryAfter == "7")
            people.clock.move(2)
            #expect(try await ask().retryAfter == "12")
            people.clock.move(12)
            #expect(try await ask().code == "AUTH-0420")
        }
    }

    @Test("few devices of one network wait, so that others can")
    func crowd() async throws {
        try await People.serving { people async throws in
            for _ in 0..<Limits.joinsOfOneNetwork { _ = try await begin(people, from: "10.0.0.1") }
            let members = ["databaseID": "fleet"]
            let refused = try await people.call("POST", "join", members, from: "10.0.0.1")
            #expect(refused.status == 429 && refused.code == "AUTH-0410")
            _ = try await begin(people, from: "10.0.0.2")
            people.clock.move(Limits.joinSeconds)
            _ = try await begin(people, from: "10.0.0.1")
            #expect(try await people.get("joins").items("joins").count == 1)
        }
    }

    /// Fills the list with devices of these addresses, each a second younger than the one before.
    private func fill(_ people: People, _ addresses: [String]) async throws {
        let now = people.clock.seconds
        let records = addresses.enumerated().map { number, address in
            JoinRecord(
                id: "fleet/\(number)", database: "fleet", secretHash: "", name: "\(number)", peerKey: nil,
                address: address, createdAtSeconds: now - 300 + Int64(number) / 10,
                expiresAtSeconds: now + Limits.joinSeconds)
        }
        for start in stride(from: 0, to: records.count, by: 128) {
            try await people.gateway.systemDatabase.write { writer in
                for record in records[start..<min(start + 128, records.count)] { try writer.put(record) }
            }
        }
    }

    @Test(
        "a full list loses the oldest device of the network that asks most, and no other one's",
        arguments: [
            // 64 networks with all that they may have; single networks of one owner.
            { "10.\($0 % 64).0.1" }, { "2001:db8:7:\(String($0, radix: 16))::1" },
            { "192.0.\($0 / 256).\($0 % 256)" },
        ] as [@Sendable (Int) -> String])
    func fullList(address: @Sendable @escaping (Int) -> String) async throws {
        try await People.serving { people async throws in
            let honest = ["198.51.100.1", "2001:db8:8::1"]
            try await fill(people, honest + (0..<Limits.joins - honest.count).map(address))
            let joins = { people.gateway.systemDatabase.directory.joins }
            #expect(joins().count == Limits.joins)
            for number in 1...20 { _ = try await begin(people, from: "203.\(number).0.1") }
            #expect(joins().count == Limits.joins)
            let left = Set(joins().values.map(\.address))
            #expect(left.isSuperset(of: honest), "the honest devices go on")
            #expect((1...20).allSatisfy { left.contains("203.\($0).0.1") })
            // Whoever fills the list replaces the own ones, if the network may ask at all.
            for number in 0..<10 {
                _ = try await people.call(
                    "POST", "join", ["databaseID": "fleet"], from: address(number * 97))
            }
            #expect(joins().count == Limits.joins)
            #expect(Set(joins().values.map(\.address)).isSuperset(of: honest))
        }
    }

    @Test("a device that was answered makes room for nobody")
    func answeredStays() async throws {
        try await People.serving { people async throws in
            let (_, user) = try await begin(people, from: "10.0.0.1")
            #expect(
                try await people.post("joins/\(user)", #"{"permissions":\#(People.reader)}"#).status == 204)
            people.clock.move(300)
            try await fill(people, (0..<Limits.joins - 1).map { "10.0.0.\($0 % 8)" })
            _ = try await begin(people, from: "203.0.113.1")
            let joins = people.gateway.systemDatabase.directory.joins
            #expect(joins.count == Limits.joins && joins["fleet/\(user)"]?.answer != nil)
        }
    }

    @Test("a network asks for few codes in a minute, whether or not they still wait")
    func perMinute() async throws {
        try await People.serving { people async throws in
            for _ in 0..<Limits.joinsOfOneNetwork {
                let (_, user) = try await begin(people, from: "10.0.0.1")
                _ = try await people.post("joins/\(user)", #"{"deny":true}"#)
                try await people.gateway.systemDatabase.write {
                    try $0.remove("fleet/\(user)", JoinRecord.self)
                }
            }
            let members = ["databaseID": "fleet"]
            let refused = try await people.call("POST", "join", members, from: "10.0.0.1")
            #expect(refused.status == 429 && refused.code == "AUTH-0410" && refused.retryAfter == "60")
            _ = try await begin(people, from: "10.0.0.2")
            people.clock.move(60)
            _ = try await begin(people, from: "10.0.0.1")
        }
    }

    @Test(
        "each field of a device is held to its form",
        arguments: [
            "{}", #"{"databaseID":1}"#, #"{"databaseID":"fleet","name":""}"#,
            #"{"databaseID":"fleet","name":"a\nb"}"#,
            #"{"databaseID":"fleet","name":"a\u202eb"}"#, #"{"databaseID":"fleet","peerKey":"pk"}"#,
            #"{"databaseID":"fleet","more":1}"#,
        ])
    func fields(body: String) async throws {
        try await People.serving { people async throws in
            #expect(try await people.call("POST", "join", raw: body).code == "AUTH-0401")
            #expect(try await people.call("POST", "join", ["databaseID": "else"]).code == "AUTH-0402")
            #expect(
                try await people.call(
                    "POST", "join", ["databaseID": "fleet", "name": String(repeating: "x", count: 65)]
                ).code == "AUTH-0401")
        }
    }

    @Test("a peer logs in with an API key, which lists it and ends its tokens; the key's end is the token's")
    func apiKeys() async throws {
        try await People.serving { people async throws in
            let body =
                #"{"name":"gate","permissions":\#(People.reader),"expiresAt":\#(GatewayFixture.now + 3_600)}"#
            let made = try await people.post("api-keys", body)
            let (id, key) = (made.object["id"] ?? "", made.object["key"] ?? "")
            let peer = PeerKey().publicKeyString
            let answer = try await people.login(token: key, provider: "api-key", peerKey: peer)
            #expect(
                answer.status == 200 && answer.object["userID"] == "api-key:gate"
                    && answer.object["expiresIn"] == "3600")
            #expect(try await people.get("api-keys").text.contains(peer))
            for wrong in [key + "x", "mimeo_0000000000000000_x", "x", ""] {
                #expect(
                    try await people.login(token: wrong, provider: "api-key").code == "AUTH-0404", "\(wrong)")
            }
            let authenticator = Authenticator(
                system: people.gateway.systemDatabase, nowSeconds: { people.clock.seconds })
            let identity = try await authenticator.identity(token: answer.accessToken)
            #expect(identity.peerKey == peer && authenticator.refusal(of: identity) == nil)
            // A revocation of the key is one of its tokens.
            let revoked = try await people.post("revocations", #"{"kind":"token","value":"\#(id)"}"#)
            #expect(authenticator.refusal(of: identity) == .revoked)
            #expect(try await people.login(token: key, provider: "api-key").code == "AUTH-0408")
            _ = try await people.send("DELETE", "revocations/\(revoked.object["id"] ?? "")")
            people.clock.move(1)
            let later = try await authenticator.identity(
                token: try await people.login(token: key, provider: "api-key").accessToken)
            #expect(try await people.send("DELETE", "api-keys/\(id)").status == 204)
            #expect(authenticator.refusal(of: later) == .apiKeyRefused)
            #expect(try await people.login(token: key, provider: "api-key").code == "AUTH-0404")
        }
    }

    @Test(
        "beyond loopback nobody logs in with a development token, unless it is turned on or the file says so")
    func development() async throws {
        let fixture = GatewayFixture()
        try await People.serving(fixture, choosing: { $0.allowsDevelopment = false }) { people async throws in
            let token = "sixteen characters"
            let development = people.gateway.development
            let answer = try await AuthGatewayTests.login(people.admin.address, development.loginBody())
            #expect(
                answer.status == 403 && answer.code == "AUTH-0424"
                    && answer.text.contains("--development-login"))
            #expect(development.tokenLine(isShown: true).hasPrefix("development-login: off: "))
            _ = try await people.post(
                "providers",
                #"{"name":"development","anonymous":{"sharedToken":"\#(token)","permission":"readOnly"}}"#
            )
            #expect(
                try await people.login(token: token, provider: "development").status
                    == 200)
        }
        for (text, isLoopback) in [
            ("127.0.0.1:1", true), ("127.9.9.9:1", true), ("localhost:1", true), ("[::1]:1", true),
            ("*:1", false),
            ("0.0.0.0:1", false), ("127.0.0.1.example.org:1", false), ("10.0.0.1:1", false),
            ("[::]:1", false),
        ] {
            #expect(try ListenAddress(text).isLoopback == isLoopback, "\(text)")
            for (arguments, isAccepted) in [
                ([], isLoopback), (["--behind-proxy"], false), (["--no-behind-proxy"], isLoopback),
            ] as [([String], Bool)] {
                let options = try ServiceOptions.parse(["--listen", text] + arguments)
                let configuration = try ServiceConfiguration(options, port: 1, environment: [:])
                #expect(configuration.acceptsDevelopment == isAccepted, "\(text) \(arguments)")
            }
        }
    }
}
