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

    @Test("a provider whose logins fail too often is left alone for a while, wherever they come from")
    func byProvider() throws {
        let start = ContinuousClock.now
        let time = Mutex(start)
        let limiter = AttemptLimiter { time.withLock { $0 } }
        let provider = AttemptLimiter.Source.provider(database: "d", name: "p")
        func code() -> AuthGatewayErrorCode? {
            do throws(AuthGatewayError) {
                try limiter.admit(.address("other"), provider)
                return nil
            } catch {
                return error.code
            }
        }
        for number in 0..<Limits.failuresPerProvider {
            #expect(code() == nil)
            limiter.failed(.address("\(number)"), provider)
        }
        #expect(code() == .tooManyAttempts)
        time.withLock { $0 = start + Limits.attemptWindow }
        #expect(code() == nil)
        limiter.failed(provider)
        #expect(code() == nil)
    }

    @Test("as many sources as are counted are remembered, and the oldest go first")
    func bounded() {
        let start = ContinuousClock.now
        let time = Mutex(start)
        let limiter = AttemptLimiter { time.withLock { $0 } }
        for _ in 0..<Limits.failuresPerAddress { limiter.failed(.address("old")) }
        time.withLock { $0 = start + .seconds(1) }
        for number in 0..<Limits.countedSources { limiter.failed(.address("\(number)")) }
        #expect((try? limiter.admit(.address("old"))) != nil)
        for _ in 1..<Limits.failuresPerAddress { limiter.failed(.address("\(Limits.countedSources - 1)")) }
        #expect((try? limiter.admit(.address("\(Limits.countedSources - 1)"))) == nil)
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
