import AsyncHTTPClient
import Hummingbird
import Identity
import Logging
import NIOCore
import Testing

@testable import ServiceKit

@Suite("Authenticator")
struct AuthenticatorTests {
    private let now: Int64 = 1_800_000_000
    private let key: DatabaseSigningKey
    private let token: String

    init() throws {
        key = try DatabaseSigningKey(databaseID: "cars", number: 1)
        token = AccessToken.issue(
            Identity(
                userID: "ada", databaseID: "cars", peerKey: nil, grant: .everything,
                expiresAtSeconds: now + 100),
            with: key, nowSeconds: now)
    }

    private var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    /// A service whose one route answers with the user.
    private static func part(_ authenticator: Authenticator) -> TestPart {
        TestPart(mounting: { mount in
            mount.on(.get, "/who") { request, _ in
                .json(Array(try await authenticator.identity(for: request).userID.utf8))
            }
        })
    }

    @Test("a bearer token is an identity, and anything else a 401 with a code and the scheme")
    func header() async throws {
        let now = now
        let authenticator = Authenticator(
            source: InMemoryKeySource(KeySet([key.publicKey])), nowSeconds: { now })
        let token = token
        try await serving([Self.part(authenticator)]) { address async throws in
            #expect(
                try await ask(address, "/who", headers: ["Authorization": "Bearer \(token)"]).body == "ada")
            #expect(
                try await ask(address, "/who", headers: ["Authorization": "bearer \(token)"]).body == "ada")
            let missing = try await ask(address, "/who")
            #expect(missing.status == 401)
            #expect(missing.code == "AUTH-0109")
            #expect(missing.headers["www-authenticate"] == "Bearer")
            for text in ["Bearer", "Basic eDp5", token] {
                #expect(try await ask(address, "/who", headers: ["Authorization": text]).code == "AUTH-0109")
            }
            let forged = try await ask(address, "/who", headers: ["Authorization": "Bearer \(token)x"])
            #expect(forged.status == 401)
            #expect(forged.code == "AUTH-0104")
        }
    }

    @Test(
        "the token of a field stands after the scheme and spaces, and alone",
        arguments: [
            ("Bearer abc.d-e_f", "abc.d-e_f"), ("BEARER  abc ", "abc"), ("  bEaReR   a", "a"),
            ("Bearer", nil), ("Bearer ", nil), ("Bearer    ", nil), ("", nil), ("Bearera", nil),
            ("Bearer a b", nil), ("Basic abc", nil), ("Bearer\tabc", nil), ("abc", nil), ("Bearer é", "é"),
        ] as [(String, String?)])
    func bearer(_ field: String, _ token: String?) {
        #expect(Authenticator.bearer(field) == token)
    }

    @Test("a grant that cannot be enforced is a 403")
    func forbidden() async throws {
        let now = now
        let grant = Grant(read: AccessRules(queriesByCollection: ["cars": ["color == 1"]]))
        let token = AccessToken.issue(
            Identity(
                userID: "ada", databaseID: "cars", peerKey: nil, grant: grant, expiresAtSeconds: now + 100),
            with: key, nowSeconds: now)
        let authenticator = Authenticator(
            source: InMemoryKeySource(KeySet([key.publicKey])), nowSeconds: { now })
        try await serving([Self.part(authenticator)]) { address async throws in
            let answer = try await ask(address, "/who", headers: ["Authorization": "Bearer \(token)"])
            #expect(answer.status == 403)
            #expect(answer.code == "AUTH-0201")
        }
    }

    @Test("keys are fetched when the first token comes, and again for a key that is new")
    func fetched() async throws {
        let keys = InMemoryKeySource()
        let fetches = Box(0)
        let key = key
        let token = token
        let now = now
        try await serving { mount in
            mount.on(.get, JWKSKeySource.path) { _, _ in
                fetches.change { $0 += 1 }
                return .json(keys.current.json())
            }
        } _: { address async throws in
            let source = JWKSKeySource(issuer: try Origin(address.origin), interval: .milliseconds(50))
            let authenticator = Authenticator(source: source, nowSeconds: { now })
            let unknown = await #expect(throws: IdentityError.self) {
                try await authenticator.identity(token: token)
            }
            #expect(unknown?.code == .tokenKeyUnknown)
            keys.insert(key.publicKey)
            try await Task.sleep(for: .milliseconds(60))
            #expect(try await authenticator.identity(token: token).userID == "ada")
            #expect(try await authenticator.identity(token: token).userID == "ada")
            #expect(fetches.value == 2)
        }
    }

    @Test("unknown keys do not become the issuer's load")
    func rateLimited() async throws {
        let fetches = Box(0)
        let token = token
        try await serving { mount in
            mount.on(.get, JWKSKeySource.path) { _, _ in
                fetches.change { $0 += 1 }
                return .json(KeySet().json())
            }
        } _: { address async throws in
            let source = JWKSKeySource(issuer: try Origin(address.origin), interval: .seconds(3_600))
            let authenticator = Authenticator(source: source)
            await withTaskGroup { tasks in
                for _ in 0..<50 { tasks.addTask { _ = try? await authenticator.identity(token: token) } }
            }
            #expect(fetches.value == 1)
        }
    }

    @Test("an issuer that cannot be reached, or answers nonsense, is a 503")
    func unreachable() async throws {
        let token = token
        let quiet = quiet
        try await serving { mount in
            mount.on(.get, JWKSKeySource.path) { _, _ in .json(Array("nonsense".utf8)) }
        } _: { address async throws in
            for origin in ["http://127.0.0.1:1", address.origin] {
                let source = JWKSKeySource(issuer: try Origin(origin), logger: quiet)
                let part = Self.part(Authenticator(source: source))
                try await serving([part]) { address async throws in
                    for _ in 0..<2 {
                        let answer = try await ask(
                            address, "/who", headers: ["Authorization": "Bearer \(token)"])
                        #expect(answer.status == 503)
                        #expect(answer.code == "SRV-0601")
                    }
                }
            }
        }
    }
}
