import HTTPTypes
import Hummingbird
import Logging
import Testing

@testable import ServiceKit

@Suite("Where /admin can be reached from", .timeLimit(.minutes(5)))
struct AdminReachTests {
    private func statuses(
        _ flags: [String], _ asked: [(path: String, headers: [String: String])]
    ) async throws -> [String] {
        let part = TestPart(mounting: { mount in
            for path in ["/admin/test/things", "/administration"] {
                mount.on(.get, path) { _, _ in .json("{}".utf8) }
            }
        })
        let options = try ServiceOptions.parse(["--listen", "127.0.0.1:0"] + flags)
        let configuration = try ServiceConfiguration(options, port: 0, environment: [:])
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let host = try ServiceHost(configuration, parts: [part], logger: quiet) { _ in }
        return try await host.run { address async throws in
            var answers: [String] = []
            for item in asked {
                let answer = try await ask(address, item.path, headers: item.headers)
                answers.append("\(answer.status) \(answer.code ?? "")")
            }
            return answers
        }
    }

    private static let path = "/admin/test/things"
    private static let refused = "403 SRV-0402"

    @Test("without the flag from everywhere, with it not through a proxy that nobody has vouched for")
    func withoutProxy() async throws {
        let forwarded = ["X-Forwarded-For": "127.0.0.1"]
        let asked = [
            (Self.path, [:]), (Self.path, forwarded), (Self.path, ["Via": "1.1 front"]),
            ("/admin/test/health", forwarded), ("/health", forwarded), ("/administration", forwarded),
        ]
        #expect(try await statuses([], asked) == Array(repeating: "200 ", count: 6))
        #expect(
            try await statuses(["--admin-loopback"], asked)
                == ["200 ", Self.refused, Self.refused, "200 ", "200 ", "200 "])
    }

    @Test("behind a proxy all addresses count that are named; one that names none is not believed")
    func behindProxy() async throws {
        let names = [
            "203.0.113.9", "127.0.0.1", "127.0.0.1,::1", "203.0.113.9, 127.0.0.1", "127.0.0.1, 203.0.113.9",
            "127.0.0.1,", "",
        ]
        let asked =
            names.map { (Self.path, ["X-Forwarded-For": $0]) } + [(Self.path, ["X-Real-IP": "127.0.0.1"])]
        #expect(
            try await statuses(["--admin-loopback", "--behind-proxy", "--drain-seconds", "0"], asked)
                == [
                    Self.refused, "200 ", "200 ", Self.refused, Self.refused, Self.refused, Self.refused,
                    Self.refused,
                ])
    }

    @Test("another machine is refused whatever it says")
    func anotherMachine() throws {
        let reach = AdminReach(isLoopback: true, trustsProxy: true)
        var named = HTTPFields()
        named[try #require(HTTPField.Name(ProxyFields.forwardedFor))] = "127.0.0.1"
        #expect(reach.isLocal([:], from: "127.0.0.1"))
        for address in ["203.0.113.9", nil] {
            #expect(!reach.isLocal([:], from: address))
            #expect(!reach.isLocal(named, from: address))
        }
    }

    @Test("the addresses of this machine are those of loopback, in every spelling")
    func addresses() {
        for address in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "::FFFF:127.0.0.1"] {
            #expect(AdminReach.isOfThisMachine(address), "\(address)")
        }
        for address in [
            "unknown", "", "10.0.0.1", "128.0.0.1", "::", "::2", "127.0.0.1.example.org", "127.0.0",
            "127.0.0.256",
            "127...1", "::ffff:10.0.0.1", "localhost",
        ] {
            #expect(!AdminReach.isOfThisMachine(address), "\(address)")
        }
    }
}
