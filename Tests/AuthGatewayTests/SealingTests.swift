import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("Changing the sealing key", .timeLimit(.minutes(2)))
struct SealingTests {
    let fixture = GatewayFixture()

    private var key: String { "\(fixture.folder)/secrets.key" }
    private var previous: String { "\(key).previous" }

    private func read(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }

    private func write(_ text: String?, _ path: String) throws {
        try? FileManager.default.removeItem(atPath: path)
        guard let text else { return }
        let mode: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        #expect(
            FileManager.default.createFile(atPath: path, contents: Data(text.utf8), attributes: mode))
    }

    private static func status(_ isChanging: Bool, _ outdated: Int) -> String {
        #"{"changing":\#(isChanging),"outdated":\#(outdated)}"#
    }

    private static let shared = "0123456789abcdef"

    /// A gateway with something of everything that is sealed; gives the first database's token.
    private func fill() async throws -> DevelopmentDatabase {
        let gateway = try fixture.gateway()
        return try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            for number in 0..<5 {
                #expect(try await admin.post("databases", #"{"id":"db\#(number)"}"#).status == 201)
                let body = """
                    {"name":"desk","anonymous":{"sharedToken":"\(Self.shared)","permission":"readOnly"}}
                    """
                #expect(try await admin.post("databases/db\(number)/providers", body).status == 201)
            }
            #expect(try await login(address, gateway.development.loginBody()).status == 200)
            return gateway.development
        }
    }

    /// Returns whether all secrets open: each token is shown, each provider accepts a login, each key signs.
    private func everythingOpens(_ gateway: AuthGateway, _ address: ListenAddress) async throws -> Bool {
        let admin = try Admin(address, fixture)
        var answers = [try await login(address, gateway.development.loginBody()).status]
        for number in 0..<5 {
            answers.append(try await admin.get("databases/db\(number)").status)
            let body = #"{"databaseID":"db\#(number)","provider":"desk","token":"\#(Self.shared)"}"#
            answers.append(try await login(address, body).status)
        }
        return answers.allSatisfy { $0 == 200 }
    }

    @Test("everything is sealed anew, both keys open until the previous one is removed, and then one does")
    func change() async throws {
        let development = try await fill()
        let old = try #require(read(key))
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            #expect(try await admin.get("sealing-key").text == Self.status(false, 0))
            let none = try await admin.delete("sealing-key/previous")
            #expect(none.status == 404 && none.code == "AUTH-0411")
            let answer = try await admin.post("sealing-key", "")
            // Six databases, one signing key, five providers.
            #expect(answer.status == 201 && answer.object == ["sealed": "12"])
            #expect(!answer.text.contains(try #require(self.read(self.key))))
            #expect(self.read(self.previous) == old && self.read(self.key) != old)
            #expect(try await admin.get("sealing-key").text == Self.status(true, 0))
            #expect(try await self.everythingOpens(gateway, address))
            // One change at a time: the second would forget a key that may be needed.
            let second = try await admin.post("sealing-key", "")
            #expect(second.status == 409 && second.code == "AUTH-0412")
            #expect(try await admin.delete("sealing-key/previous").status == 204)
            #expect(self.read(self.previous) == nil)
            #expect(try await self.everythingOpens(gateway, address))
        }
        let again = try fixture.gateway()
        try await fixture.serving(again) { address async throws in
            #expect(again.development == development)
            #expect(try await self.everythingOpens(again, address))
        }
        try write(old, key)
        let wrong = try fixture.gateway()
        let error = await #expect(throws: AuthGatewayError.self) { try await fixture.serving(wrong) { _ in } }
        #expect(error?.code == .secretSealed)
    }

    @Test("wherever a change is broken off, the next start opens everything and ends it")
    func brokenOff() async throws {
        let development = try await fill()
        let old = try #require(read(key))
        let new = SecretFile.random() + "\n"
        // The files after each step; nothing was sealed anew yet.
        let steps: [(current: String, previous: String?)] = [(old, old), (new, old)]
        for step in steps {
            try write(step.current, key)
            try write(step.previous, previous)
            let gateway = try fixture.gateway()
            try await fixture.serving(gateway) { address async throws in
                #expect(gateway.development == development)
                #expect(try await self.everythingOpens(gateway, address))
                let status = try await Admin(address, self.fixture).get("sealing-key").text
                #expect(status == Self.status(true, 0))
            }
        }
        // Some records were sealed anew, others not: by a gateway that knows the old key alone.
        let third = SecretFile.random() + "\n"
        try write(new, key)
        try write(nil, previous)
        let half = try fixture.gateway()
        try await fixture.serving(half) { address async throws in
            try self.write(third, self.key)
            try self.write(new, self.previous)
            // Made under the newest key; everything else is under the one before.
            #expect(try await Admin(address, self.fixture).post("databases", #"{"id":"late"}"#).status == 201)
            let status = try await Admin(address, self.fixture).get("sealing-key").text
            // Six databases, six signing keys, five providers.
            #expect(status == Self.status(true, 17))
            #expect(try await self.everythingOpens(half, address))
        }
        let last = try fixture.gateway()
        try await fixture.serving(last) { address async throws in
            let admin = try Admin(address, self.fixture)
            #expect(try await admin.get("sealing-key").text == Self.status(true, 0))
            #expect(try await admin.delete("sealing-key/previous").status == 204)
            #expect(try await self.everythingOpens(last, address))
            #expect(try await admin.get("databases/late").status == 200)
        }
    }

    @Test("of many changes and removals at once each is done whole or refused, by several gateways too")
    func atOnce() async throws {
        _ = try await fill()
        let (one, two) = (try fixture.gateway(), try fixture.gateway())
        try await fixture.serving(one) { first async throws in
            try await self.fixture.serving(two) { second async throws in
                for _ in 0..<4 {
                    let statuses = try await withThrowingTaskGroup(of: (isChange: Bool, Int).self) { group in
                        for address in [first, second, first, second] {
                            let admin = try Admin(address, self.fixture)
                            group.addTask { (true, try await admin.post("sealing-key", "").status) }
                            group.addTask {
                                (false, try await admin.delete("sealing-key/previous").status)
                            }
                        }
                        return try await group.reduce(into: []) { $0.append($1) }
                    }
                    #expect(
                        statuses.allSatisfy { ($0.isChange ? [201, 409] : [204, 404, 409]).contains($0.1) })
                }
                #expect(try await self.everythingOpens(one, first))
                #expect(try await self.everythingOpens(two, second))
            }
        }
        // The files alone open everything.
        let after = try fixture.gateway()
        try await fixture.serving(after) { address async throws in
            #expect(try await self.everythingOpens(after, address))
        }
    }

    @Test("while somebody changes the key nobody else does, and whoever is refused may try again")
    func locked() async throws {
        _ = try await fill()
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let admin = try Admin(address, self.fixture)
            do {
                let lock = try SealingKey(path: self.key, isOwn: true).lock()
                defer { withExtendedLifetime(lock) {} }
                for answer in [
                    try await admin.post("sealing-key", ""), try await admin.delete("sealing-key/previous"),
                ] {
                    #expect(answer.status == 409 && answer.code == "AUTH-0412")
                }
                #expect(self.read(self.previous) == nil)
            }
            #expect(try await admin.post("sealing-key", "").status == 201)
            #expect(try await admin.delete("sealing-key/previous").status == 204)
        }
    }

    @Test("where only the previous key is left, none is made beside it")
    func lost() async throws {
        _ = try await fill()
        try write(read(key), previous)
        try write(nil, key)
        #expect { try fixture.gateway() } throws: { ($0 as? AuthGatewayError)?.code == .stateUnusable }
        #expect(read(key) == nil)
    }

    @Test("gateways with files of their own go on through a change: the new key first opens, then seals")
    func separateFiles() async throws {
        let (old, new) = (SecretFile.random(), SecretFile.random())
        _ = try? fixture.gateway()
        let paths = ["one", "two"].map { "\(fixture.folder).\($0)" }
        for path in paths { try write(old, path) }
        let gateways = try paths.map { path in try fixture.gateway(choosing: { $0.secretsKey = path }) }
        try await fixture.serving(gateways[0]) { first async throws in
            try await self.fixture.serving(gateways[1]) { second async throws in
                let admins = [try Admin(first, self.fixture), try Admin(second, self.fixture)]
                var made = 0
                /// Lets each gateway make a database and each open it; returns the first failure, or nil.
                func refusal() async throws -> String? {
                    for admin in admins {
                        made += 1
                        let id = "made\(made)"
                        let answer = try await admin.post("databases", #"{"id":"\#(id)"}"#)
                        guard answer.status == 201 else { return "made: \(answer.code ?? "")" }
                        for other in admins {
                            var found = try await other.get("databases/\(id)")
                            // The other gateway reads the log as soon as it hears of it.
                            for _ in 0..<1_000 where found.status == 404 {
                                try await Task.sleep(for: .milliseconds(10))
                                found = try await other.get("databases/\(id)")
                            }
                            guard found.status == 200 else { return "opened: \(found.code ?? "")" }
                        }
                    }
                    return nil
                }
                #expect(try await refusal() == nil)
                for path in paths {
                    try self.write(new, "\(path).previous")
                    #expect(try await refusal() == nil)
                }
                for path in paths {
                    try self.write(new, path)
                    try self.write(old, "\(path).previous")
                    #expect(try await refusal() == nil)
                }
            }
        }
        // The next start seals what is left under the old key; then it may go.
        let again = try fixture.gateway(choosing: { $0.secretsKey = paths[0] })
        try await fixture.serving(again) { _ in }
        for path in paths { try write(nil, "\(path).previous") }
        let last = try fixture.gateway(choosing: { $0.secretsKey = paths[1] })
        try await fixture.serving(last) { address async throws in
            #expect(try await Admin(address, self.fixture).get("databases/made1").status == 200)
        }
    }

    @Test("a change that ended between its first two steps is taken up again")
    func takenUp() async throws {
        _ = try await fill()
        let old = try #require(read(key))
        try write(old, previous)
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            #expect(try await Admin(address, self.fixture).post("sealing-key", "").status == 201)
            #expect(self.read(self.key) != old && self.read(self.previous) == old)
            #expect(try await self.everythingOpens(gateway, address))
        }
    }

    @Test("a second gateway of the same files goes on through a change, and seals under the new key")
    func twoGateways() async throws {
        _ = try await fill()
        let one = try fixture.gateway()
        let two = try fixture.gateway()
        try await fixture.serving(one) { first async throws in
            try await self.fixture.serving(two) { second async throws in
                let (admin, other) = (try Admin(first, self.fixture), try Admin(second, self.fixture))
                #expect(try await admin.post("sealing-key", "").status == 201)
                #expect(try await other.post("databases", #"{"id":"late"}"#).status == 201)
                #expect(try await admin.delete("sealing-key/previous").status == 204)
                for address in [first, second] {
                    #expect(try await Admin(address, self.fixture).get("databases/late").status == 200)
                }
                #expect(try await self.everythingOpens(two, second))
            }
        }
    }

    @Test("a key that the configuration names is changed there: the next start seals under it")
    func configured() async throws {
        let path = "\(fixture.folder).configured"
        let first = SecretFile.random()
        _ = try? fixture.gateway()
        try write(first, path)
        func gateway() throws -> AuthGateway { try fixture.gateway(choosing: { $0.secretsKey = path }) }
        let before = try gateway()
        let development = try await fixture.serving(before) { address async throws in
            let admin = try Admin(address, self.fixture)
            for answer in [
                try await admin.post("sealing-key", ""), try await admin.delete("sealing-key/previous"),
            ] {
                #expect(answer.status != 201 && answer.status != 204)
            }
            return before.development
        }
        try write(SecretFile.random(), path)
        try write(first, "\(path).previous")
        let changing = try gateway()
        try await fixture.serving(changing) { address async throws in
            #expect(changing.development == development)
            let admin = try Admin(address, self.fixture)
            #expect(try await admin.get("sealing-key").text == Self.status(true, 0))
            #expect(try await admin.delete("sealing-key/previous").code == "AUTH-0412")
        }
        try write(nil, "\(path).previous")
        let after = try gateway()
        try await fixture.serving(after) { _ async throws in #expect(after.development == development) }
    }
}
