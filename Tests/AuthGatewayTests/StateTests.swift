import Foundation
import Identity
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("State of the gateway")
struct StateTests {
    let fixture = GatewayFixture()

    private func code(_ body: () throws -> Void) -> AuthGatewayErrorCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AuthGatewayError)?.code
        }
    }

    private func permissions(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.posixPermissions] as? NSNumber)?.intValue ?? 0
    }

    @Test("database, token and key are the same after every restart, and registered on every start")
    func restart() async throws {
        let first = try fixture.gateway()
        let (database, token) = try await fixture.serving(first) { address async throws in
            let answer = try await login(address, first.development.loginBody())
            return (first.development, answer.object["accessToken"] ?? "")
        }
        #expect(UUID(uuidString: database.id) != nil)
        #expect(Base64URL.decode(database.token)?.count == 32)
        let second = try fixture.gateway()
        try await fixture.serving(second) { _ async throws in
            #expect(second.development == database)
            let authenticator = Authenticator(
                system: second.systemDatabase, nowSeconds: { GatewayFixture.now })
            #expect(try await authenticator.identity(token: token).databaseID.text == database.id)
        }
        #expect(fixture.registered == [database.id, database.id])
    }

    @Test("two folders have different databases and secrets")
    func different() async throws {
        let one = try fixture.gateway()
        let database = try await fixture.serving(one) { _ in one.development }
        let otherFixture = GatewayFixture()
        let other = try otherFixture.gateway()
        let otherDatabase = try await otherFixture.serving(other) { _ in other.development }
        #expect(database.id != otherDatabase.id)
        #expect(database.token != otherDatabase.token)
    }

    @Test("nobody else can read the secrets, and what others may read again is refused")
    func permissions() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { _ in }
        #expect(try permissions(fixture.folder) == 0o700)
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.folder).sorted()
        #expect(files == ["admin.token", "development.token", "secrets.key"])
        let token = "\(fixture.folder)/development.token"
        #expect(try permissions(token) == 0o600)
        #expect(try String(contentsOfFile: token, encoding: .utf8) == gateway.development.token + "\n")
        for file in ["admin.token", "secrets.key"] {
            let path = "\(fixture.folder)/\(file)"
            #expect(try permissions(path) == 0o600)
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
            #expect(code { _ = try fixture.gateway() } == .secretUnsafe)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        }
        try Data("short".utf8).write(to: URL(fileURLWithPath: "\(fixture.folder)/admin.token"))
        #expect(code { _ = try fixture.gateway() } == .secretUnsafe)
    }

    @Test("the file of the development token is written again when others could read it, or it is another's")
    func tokenFile() async throws {
        let first = try fixture.gateway()
        try await fixture.serving(first) { _ in }
        let token = "\(fixture.folder)/development.token"
        for content in ["0123456789012345678901234567890123456789012\n", ""] {
            try Data(content.utf8).write(to: URL(fileURLWithPath: token))
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: token)
            let second = try fixture.gateway()
            try await fixture.serving(second) { _ in }
            #expect(try permissions(token) == 0o600)
            #expect(try String(contentsOfFile: token, encoding: .utf8) == second.development.token + "\n")
        }
    }

    @Test("the log holds no secret in clear, and another key opens none")
    func sealed() async throws {
        let first = try fixture.gateway()
        let token = try await fixture.serving(first) { address async throws in
            _ = try await login(address, first.development.loginBody())
            return first.development.token
        }
        for suffix in ["", "-wal"] {
            let bytes = FileManager.default.contents(atPath: fixture.logPath + suffix) ?? Data()
            #expect(bytes.range(of: Data(token.utf8)) == nil)
            #expect(bytes.range(of: Data("PRIVATE KEY".utf8)) == nil)
        }
        try FileManager.default.removeItem(atPath: "\(fixture.folder)/secrets.key")
        let second = try fixture.gateway()
        let error = await #expect(throws: AuthGatewayError.self) {
            try await fixture.serving(second) { _ in }
        }
        #expect(error?.code == .secretSealed)
    }

    private func write(_ state: String) throws -> String {
        _ = try fixture.gateway()
        let path = "\(fixture.folder)/state.json"
        try Data(state.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test("what the first version kept in its file is taken over, and the file is gone")
    func migration() async throws {
        let key = try DatabaseSigningKey(databaseID: "old", number: 1)
        let identity = Identity(
            userID: "ada", databaseID: "old", peerKey: nil, grant: .everything,
            expiresAtSeconds: GatewayFixture.now + 60)
        let token = AccessToken.issue(identity, with: key, nowSeconds: GatewayFixture.now)
        let pem = key.pem.replacingOccurrences(of: "\n", with: "\\n")
        let path = try write(
            """
            {"version":1,"development":"old","databases":[
            {"id":"old","developmentToken":"the-old-token","keys":[{"number":1,"pem":"\(pem)"}]}]}
            """)
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { _ async throws in
            #expect(gateway.development.id == "old")
            #expect(gateway.development.token == "the-old-token")
            let authenticator = Authenticator(
                system: gateway.systemDatabase, nowSeconds: { GatewayFixture.now })
            #expect(try await authenticator.identity(token: token).userID == "ada")
        }
        #expect(!FileManager.default.fileExists(atPath: path))
        let again = try fixture.gateway()
        try await fixture.serving(again) { _ async throws in
            #expect(again.development.token == "the-old-token")
        }
    }

    @Test("with another key than the log's nothing is changed: neither log nor file, and no key is made")
    func foreignKey() async throws {
        let first = try fixture.gateway()
        try await fixture.serving(first) { address async throws in
            _ = try await login(address, first.development.loginBody())
        }
        let state = #"{"version":1,"databases":[{"id":"mine","developmentToken":"t","keys":[]}]}"#
        // Another gateway's folder on the same log, and this one's without its key.
        let other = "\(fixture.folder).other"
        try FileManager.default.removeItem(atPath: "\(fixture.folder)/secrets.key")
        for (folder, hasKey) in [(other, true), (fixture.folder, false)] {
            _ = try fixture.gateway(folder: folder)
            let path = "\(folder)/state.json"
            try Data(state.utf8).write(to: URL(fileURLWithPath: path))
            if hasKey {
                let key = "\(folder)/secrets.key"
                let mode: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
                let text = Data("0123456789abcdef0123456789abcdef".utf8)
                #expect(FileManager.default.createFile(atPath: key, contents: text, attributes: mode))
            }
            let gateway = try fixture.gateway(folder: folder)
            let error = await #expect(throws: AuthGatewayError.self) {
                try await fixture.serving(gateway) { _ in }
            }
            #expect(error?.code == .secretSealed)
            #expect(FileManager.default.contents(atPath: path) == Data(state.utf8))
            #expect(FileManager.default.fileExists(atPath: "\(folder)/secrets.key") == hasKey)
            #expect(gateway.systemDatabase.directory.databases["mine"] == nil)
        }
    }

    @Test("of many first starts on one folder all have one key")
    func firstStarts() async throws {
        let folder = "\(fixture.folder).many"
        try SecretFile.makeFolder(folder)
        let texts = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<16 {
                group.addTask {
                    try SecretFile(path: "\(folder)/secrets.key", isOwn: true).text(
                        logger: GatewayFixture.quiet)
                }
            }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(texts.count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["secrets.key"])
    }

    @Test(
        "a damaged state is refused and not overwritten",
        arguments: [
            "", "{}", #"{"version":1}"#, #"{"version":99,"databases":[]}"#,
            #"{"version":1,"databases":[{"id":"a","developmentToken":"t","keys":[{"number":1,"pem":"x"}]}]}"#,
        ])
    func damaged(text: String) throws {
        let path = try write(text)
        #expect(code { _ = try fixture.gateway() } == .stateUnreadable)
        #expect(FileManager.default.contents(atPath: path) == Data(text.utf8))
    }

    @Test("a folder that cannot be made is an error")
    func unusable() throws {
        let parent = (fixture.folder as NSString).deletingLastPathComponent
        try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        #expect(FileManager.default.createFile(atPath: fixture.folder, contents: nil))
        #expect(code { _ = try fixture.gateway() } == .stateUnusable)
    }
}
