import Foundation
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Attempts")
struct AttemptTests {
    let fixture = GatewayFixture()

    @Test("an address that failed too often waits, whatever it sends; logins that succeed are not counted")
    func byAddress() async throws {
        let gateway = try fixture.gateway()
        try await fixture.serving(gateway) { address async throws in
            let good = gateway.development.loginBody()
            for _ in 0..<(Limits.failuresPerAddress + 5) {
                #expect(try await login(address, good).status == 200)
            }
            let bad = good.replacingOccurrences(of: gateway.development.token, with: "wrong")
            for _ in 0..<Limits.failuresPerAddress {
                #expect(try await login(address, bad).status == 401)
            }
            for body in [bad, good] {
                let answer = try await login(address, body)
                #expect(answer.status == 429 && answer.code == "AUTH-0410")
                let wait = Int64(answer.retryAfter ?? "") ?? 0
                #expect((1...Limits.attemptWindow.components.seconds + 1).contains(wait))
            }
        }
    }

    @Test("a webhook that fails counts for nobody who asks; names that nobody has do")
    func othersFaults() async throws {
        let webhook = Webhook(Webhook.Reply(status: 500, body: "{}"))
        try await ServiceHost(parts: [webhook], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let gateway = try self.fixture.gateway(
                providers: """
                    {"databases": {"fleet": {"providers": {
                    "my-auth": {"webhookUrl": "\(hook.origin)/hook"}}}}}
                    """)
            try await self.fixture.serving(gateway) { address async throws in
                func body(_ provider: String) -> String {
                    #"{"databaseID":"fleet","provider":"\#(provider)","token":"t"}"#
                }
                for _ in 0..<(Limits.failuresPerAddress + 5) {
                    #expect(try await login(address, body("my-auth")).status == 503)
                }
                #expect(try await login(address, gateway.development.loginBody()).status == 200)
                for _ in 0..<Limits.failuresPerAddress {
                    #expect(try await login(address, body("nobody")).status == 404)
                }
                #expect(try await login(address, gateway.development.loginBody()).status == 429)
            }
        }
    }

    /// A limiter whose time a test moves.
    private final class Bench: Sendable {
        private final class Clock: Sendable { let passed = Mutex(Duration.zero) }

        private let clock: Clock
        let limiter: AttemptLimiter

        init() {
            let (start, clock) = (ContinuousClock.now, Clock())
            self.clock = clock
            limiter = AttemptLimiter { start + clock.passed.withLock { $0 } }
        }

        func pass(_ time: Duration) { clock.passed.withLock { $0 += time } }

        /// Returns whether an attempt may begin; it ends at once.
        func isAdmitted(_ source: AttemptLimiter.Source, at provider: AttemptLimiter.Source? = nil) -> Bool {
            guard (try? limiter.begin(source, at: provider)) != nil else { return false }
            limiter.end(source, at: provider, .uncounted)
            return true
        }

        func fail(
            _ source: AttemptLimiter.Source, at provider: AttemptLimiter.Source? = nil,
            _ outcome: AttemptLimiter.Outcome = .refused
        ) {
            guard (try? limiter.begin(source, at: provider)) != nil else { return }
            limiter.end(source, at: provider, outcome)
        }
    }

    private let provider = AttemptLimiter.Source.provider(database: "d", name: "p")

    @Test("where logins fail too often an address has one mistake; one that made none is let in, always")
    func byProvider() {
        let bench = Bench()
        bench.fail(.address("clumsy"), at: provider)
        for number in 0..<Limits.failuresPerProvider {
            #expect(bench.isAdmitted(.address("clumsy"), at: provider) == (number < 599))
            bench.fail(.address("\(number)"), at: provider)
        }
        // Whoever attacks has locked out those who failed, and nobody else.
        #expect(!bench.isAdmitted(.address("5"), at: provider))
        for number in 0..<100 { #expect(bench.isAdmitted(.address("honest \(number)"), at: provider)) }
        bench.fail(.address("new"), at: provider)
        #expect(!bench.isAdmitted(.address("new"), at: provider))
        #expect(bench.isAdmitted(.address("new"), at: .provider(database: "d", name: "other")))
        bench.pass(Limits.attemptWindow)
        for name in ["new", "clumsy", "5"] { #expect(bench.isAdmitted(.address(name), at: provider)) }
    }

    @Test("a hundred logins that nobody can read make their address wait, which has not failed otherwise")
    func malformed() {
        let bench = Bench()
        for _ in 0..<Limits.malformedPerAddress {
            #expect(bench.isAdmitted(.malformed("noisy")))
            bench.fail(.malformed("noisy"), .unknown)
        }
        #expect(!bench.isAdmitted(.malformed("noisy")))
        #expect(bench.isAdmitted(.malformed("other")) && bench.isAdmitted(.address("noisy")))
        bench.pass(Limits.attemptWindow)
        #expect(bench.isAdmitted(.malformed("noisy")))
    }

    @Test("attempts that are under way count like failures once there is one, and not before")
    func underWay() throws {
        let bench = Bench()
        for _ in 0..<Limits.attemptsUnderWay { try bench.limiter.begin(.address("office")) }
        #expect(throws: AuthGatewayError.self) { try bench.limiter.begin(.address("office")) }
        bench.limiter.end(.address("office"), .uncounted)
        #expect(bench.isAdmitted(.address("office")))
        // A guesser that sends all at once learns no more than one burst.
        for _ in 1..<Limits.attemptsUnderWay { bench.limiter.end(.address("office"), .refused) }
        #expect(!bench.isAdmitted(.address("office")))

        bench.fail(.address("one"))
        for _ in 1..<Limits.failuresPerAddress { try bench.limiter.begin(.address("one")) }
        #expect(throws: AuthGatewayError.self) { try bench.limiter.begin(.address("one")) }
        // What is under way does not end with the window.
        bench.pass(Limits.attemptWindow)
        bench.limiter.end(.address("one"), .refused)
        for _ in 2..<Limits.failuresPerAddress { bench.limiter.end(.address("one"), .uncounted) }
        #expect(bench.isAdmitted(.address("one")))
    }

    @Test("a name that nobody has counts for the address, and not for the provider")
    func unknown() {
        let bench = Bench()
        for number in 0..<Limits.failuresPerProvider {
            bench.fail(.address("\(number % 50)"), at: provider, .unknown)
        }
        bench.fail(.address("a"), at: provider)
        #expect(bench.isAdmitted(.address("a"), at: provider))
        for _ in 1..<Limits.failuresPerAddress { bench.fail(.address("a"), at: provider, .unknown) }
        #expect(!bench.isAdmitted(.address("a"), at: provider))
    }

    @Test("an address of IPv6 counts for its /64, however it is written; one of IPv4 for itself")
    func networks() {
        func network(_ address: String) -> String { AttemptLimiter.network(of: address) }
        #expect(network("2001:db8:1:2:3:4:5:6") == network("2001:db8:1:2:ffff::1"))
        #expect(network("2001:0DB8:0001:0002::") == network("2001:db8:1:2::9"))
        #expect(network("2001:db8:1:2::1") != network("2001:db8:1:3::1"))
        #expect(network("fe80::1%eth0") == network("fe80::2"))
        #expect(network("10.1.2.3") == "10.1.2.3" && network("::ffff:10.1.2.3") == "10.1.2.3")
        #expect(network("10.1.2.3") != network("10.1.2.4"))
        #expect(network("::1") != network("10.1.2.3"))
        #expect(network("unknown") == "unknown" && network("") == "")
        // Some proxies name the port.
        #expect(network("10.1.2.3:50123") == "10.1.2.3" && network("10.1.2.3:") == "10.1.2.3")
        #expect(network("[2001:db8:1:2::1]:443") == network("2001:db8:1:2::9"))
        #expect(
            network("[::ffff:10.1.2.3]:443") == "10.1.2.3" && network("[fe80::1%a]") == network("fe80::2"))
    }

    @Test("many addresses push out the oldest of them, and neither a provider nor the admin's")
    func bounded() {
        let bench = Bench()
        for _ in 0..<Limits.failuresPerAddress {
            bench.fail(.address("old"))
            bench.fail(.admin("old"))
        }
        for number in 0..<Limits.failuresPerProvider { bench.fail(.address("x\(number)"), at: provider) }
        bench.pass(.seconds(1))
        for number in 0..<Limits.countedSources { bench.fail(.address("\(number)")) }
        #expect(bench.isAdmitted(.address("old")))
        #expect(!bench.isAdmitted(.admin("old")))
        bench.fail(.address("mistaken"))
        #expect(!bench.isAdmitted(.address("mistaken"), at: provider))
        let last = AttemptLimiter.Source.address("\(Limits.countedSources - 1)")
        for _ in 1..<Limits.failuresPerAddress { bench.fail(last) }
        #expect(!bench.isAdmitted(last))
    }

    @Test("behind a proxy the last address that it names is counted, and without one none is believed")
    func forwarded() async throws {
        for trusts in [true, false] {
            let fixture = GatewayFixture()
            let gateway = try fixture.gateway(choosing: { $0.trustsProxy = trusts })
            try await fixture.serving(gateway) { address async throws in
                let good = gateway.development.loginBody()
                let bad = good.replacingOccurrences(of: gateway.development.token, with: "wrong")
                for number in 0..<Limits.failuresPerAddress {
                    _ = try await login(address, bad, from: "10.0.0.\(number), 10.1.1.1")
                }
                #expect(
                    try await login(address, good, from: "10.1.1.1, 10.2.2.2").status == (trusts ? 200 : 429))
                #expect(try await login(address, good, from: "10.2.2.2, 10.1.1.1").status == 429)
            }
        }
    }
}
