import AuthGateway
import Foundation
import Identity
import ServiceKit
import Testing

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
        let token = try await fixture.serving(first) { address async throws in
            return try await login(address, first.development.loginBody()).object["accessToken"] ?? ""
        }
        let second = try fixture.gateway()
        #expect(second.development == first.development)
        #expect(UUID(uuidString: second.development.id) != nil)
        #expect(Base64URL.decode(second.development.token)?.count == 32)
        let authenticator = Authenticator(source: second.keySource, nowSeconds: { GatewayFixture.now })
        #expect(try await authenticator.identity(token: token).databaseID == first.development.id)
        try await fixture.serving(second) { _ in }
        #expect(fixture.registered == [first.development.id, first.development.id])
    }

    @Test("two folders have different databases and secrets")
    func different() throws {
        let one = try fixture.gateway().development
        let other = try GatewayFixture().gateway().development
        #expect(one.id != other.id)
        #expect(one.token != other.token)
    }

    @Test("nobody else can read the secrets")
    func permissions() throws {
        _ = try fixture.gateway()
        #expect(try permissions(fixture.folder) == 0o700)
        #expect(try permissions("\(fixture.folder)/state.json") == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.folder) == ["state.json"])
    }

    @Test(
        "a damaged state is refused and not overwritten",
        arguments: [
            "", "{}", #"{"version":1}"#, #"{"version":99,"databases":[]}"#,
            #"{"version":1,"databases":[{"id":"a","developmentToken":"t","keys":[{"number":1,"pem":"x"}]}]}"#,
        ])
    func damaged(text: String) throws {
        _ = try fixture.gateway()
        let path = "\(fixture.folder)/state.json"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        #expect(code { _ = try fixture.gateway() } == .stateUnreadable)
        #expect(FileManager.default.contents(atPath: path) == Data(text.utf8))
    }

    @Test("a folder that cannot be made is an error")
    func unusable() throws {
        #expect(FileManager.default.createFile(atPath: fixture.folder, contents: nil))
        #expect(code { _ = try fixture.gateway() } == .stateUnusable)
    }
}
