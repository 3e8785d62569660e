import Foundation
import Hummingbird
import Identity
import Logging
import Machine
import TestSupport
import Testing

@testable import ServiceKit

@Suite("Sessions of the console")
struct ConsoleSessionTests {
    private static let credential = String(repeating: "k", count: 43)

    /// A server that says which credential each request has, with cookies that stand for credentials.
    private static func run(
        nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds,
        _ body: @escaping @Sendable (ListenAddress, ConsoleSessions, URL) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let file = folder.appendingPathComponent("admin.token")
            try Data(credential.utf8).write(to: file)
            let sessions = ConsoleSessions(
                credential: AdminCredential(path: file.path), system: nil, nowSeconds: nowSeconds)
            let part = TestPart(mounting: { mount in
                for path in ["/admin/who", "/api/who"] {
                    mount.on(.get, path) { request, _ in
                        .json(Array((request.headers[.authorization] ?? "nobody").utf8))
                    }
                }
            })
            let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }
            try await ServiceHost(parts: [part], listen: .anyLoopbackPort, console: sessions, logger: quiet)
                .run { try await body($0, sessions, file) }
        }
    }

    private static func cookie(
        _ sessions: ConsoleSessions, _ token: String?, at place: ConsoleSessions.Place,
        until end: Int64 = .max
    ) throws -> String {
        let field = try sessions.cookie(
            for: .init(token: token, expiresAtSeconds: end), at: place, isSecure: false)
        return String(field.prefix { $0 != ";" })
    }

    private static func who(
        _ address: ListenAddress, _ path: String, _ cookie: String, _ more: [String: String] = [:]
    ) async throws -> String {
        let headers = ["Cookie": cookie, "X-Mimeo-Console": "fleet"].merging(more) { $1 }
        return try await ask(address, path, headers: headers).body
    }

    @Test("a cookie stands for its credential in its place and in no other")
    func places() async throws {
        try await Self.run { address, sessions, _ in
            let admin = try Self.cookie(sessions, nil, at: .admin)
            let user = try Self.cookie(sessions, "token-1", at: .database("fleet"))
            let both = "other=1; \(admin); \(user)"
            #expect(try await Self.who(address, "/admin/who", both) == "Bearer \(Self.credential)")
            #expect(try await Self.who(address, "/api/who", both) == "Bearer token-1")
            #expect(try await Self.who(address, "/api/who", admin) == "nobody")
            #expect(try await Self.who(address, "/admin/who", user) == "nobody")
            // Another database than the request names.
            let other = ["X-Mimeo-Console": "depot"]
            #expect(try await Self.who(address, "/api/who", both, other) == "nobody")
            // A database's cookie under the administrator's name.
            let moved = admin.prefix { $0 != "=" } + user.drop { $0 != "=" }
            #expect(try await Self.who(address, "/admin/who", String(moved)) == "nobody")
        }
    }

    @Test("a cookie counts only with the console's field and without another credential")
    func field() async throws {
        try await Self.run { address, sessions, _ in
            let admin = try Self.cookie(sessions, nil, at: .admin)
            let bare = try await ask(address, "/admin/who", headers: ["Cookie": admin])
            #expect(bare.body == "nobody")
            let own = ["Authorization": "Bearer own"]
            #expect(try await Self.who(address, "/admin/who", admin, own) == "Bearer own")
        }
    }

    @Test("a cookie ends at its time, and when the admin credential changes")
    func ends() async throws {
        let now = Box<Int64>(1_000)
        try await Self.run(nowSeconds: { now.value }) { address, sessions, file in
            let admin = try Self.cookie(sessions, nil, at: .admin, until: 2_000)
            #expect(try await Self.who(address, "/admin/who", admin) == "Bearer \(Self.credential)")
            now.change { $0 = 2_000 }
            #expect(try await Self.who(address, "/admin/who", admin) == "nobody")
            now.change { $0 = 1_000 }
            try Data(String(repeating: "m", count: 43).utf8).write(to: file)
            #expect(try await Self.who(address, "/admin/who", admin) == "nobody")
        }
    }

    @Test("a cookie's field is kept from scripts and other sites, and a token that fits none is refused")
    func form() async throws {
        try await Self.run { _, sessions, _ in
            let session = ConsoleSessions.Session(
                token: "a credential", expiresAtSeconds: SystemClock.seconds() + 60)
            let field = try sessions.cookie(for: session, at: .database("fleet"), isSecure: true)
            for part in ["; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/", "; Max-Age="] {
                #expect(field.contains(part))
            }
            #expect(!field.contains("a credential"))
            let long = ConsoleSessions.Session(
                token: String(repeating: "x", count: 4_000), expiresAtSeconds: .max)
            #expect(throws: ServiceError.self) {
                try sessions.cookie(for: long, at: .database("fleet"), isSecure: false)
            }
        }
    }
}
