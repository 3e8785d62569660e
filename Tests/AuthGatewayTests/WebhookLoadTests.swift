import Foundation
import Hummingbird
import Machine
import ServiceKit
import Synchronization
import Testing

@testable import AuthGateway

@Suite("Many logins by a webhook", .timeLimit(.minutes(5)))
struct WebhookLoadTests {
    private static func request(_ token: String) throws -> LoginRequest {
        try LoginRequest(json: #"{"databaseID":"fleet","provider":"p","token":"\#(token)"}"#.utf8)
    }

    private static func provider(_ hook: ListenAddress, turns: BoundedTurns? = nil) -> WebhookProvider {
        let all = BoundedTurns(Limits.webhookCalls, waiting: Limits.webhookWaiting, for: .seconds(60))
        return WebhookProvider(
            name: "p", url: "\(hook.origin)/hook", payload: .both, secrets: [],
            logger: GatewayFixture.quiet, timeout: .seconds(60), turns: turns ?? all)
    }

    @Test("as many logins are asked about at a time as the limit says, and the next one waits for its turn")
    func atOnce() async throws {
        let crowd = CrowdPart()
        try await ServiceHost(parts: [crowd], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let provider = Self.provider(hook)
            try await withThrowingTaskGroup { group in
                for number in 0...Limits.webhookCalls {
                    group.addTask {
                        _ = try await provider.answer(try Self.request("\(number)"), nowSeconds: 0)
                    }
                }
                // All of them are there at the same time; the one too many comes when one has left.
                #expect(await crowd.hasGathered(Limits.webhookCalls))
                #expect(crowd.present == Limits.webhookCalls)
                crowd.answerAll()
                try await group.waitForAll()
            }
        }
        #expect(crowd.most == Limits.webhookCalls)
    }

    @Test("a login that gets no turn in time is told that too many wait, and not that nobody answers")
    func noTurn() async throws {
        let crowd = CrowdPart()
        try await ServiceHost(parts: [crowd], listen: .anyLoopbackPort, logger: GatewayFixture.quiet).run {
            hook async throws in
            let provider = Self.provider(hook, turns: BoundedTurns(1, waiting: 1, for: .milliseconds(50)))
            let first = Task { try await provider.answer(try Self.request("first"), nowSeconds: 0) }
            #expect(await crowd.hasGathered(1))
            for _ in 0..<3 {
                let error = await #expect(throws: AuthGatewayError.self) {
                    try await provider.answer(try Self.request("next"), nowSeconds: 0)
                }
                #expect(error?.code == .providerBusy && error?.httpHeaders[.retryAfter] == "1")
            }
            crowd.answerAll()
            _ = try await first.value
            _ = try await provider.answer(try Self.request("later"), nowSeconds: 0)
        }
    }

    @Test("turns are given in order; whoever gives up or is turned away has none")
    func turns() async {
        let turns = BoundedTurns(1, waiting: 2, for: .seconds(60))
        #expect(await turns.begin())
        let order = Order()
        @Sendable func waiting(_ number: Int) -> Task<Bool, Never> {
            Task {
                let hasTurn = await turns.begin()
                order.numbers.withLock { $0.append(hasTurn ? number : -number) }
                return hasTurn
            }
        }
        let first = waiting(1)
        while turns.waiting < 1 { await Task.yield() }
        let second = waiting(2)
        while turns.waiting < 2 { await Task.yield() }
        #expect(await !turns.begin())
        first.cancel()
        #expect(await !first.value)
        let third = waiting(3)
        while turns.waiting < 2 { await Task.yield() }
        turns.end()
        #expect(await second.value)
        turns.end()
        #expect(await third.value)
        turns.end()
        #expect(await turns.begin())
        #expect(order.numbers.withLock { $0 } == [-1, 2, 3])
    }

    private final class Order: Sendable { let numbers = Mutex<[Int]>([]) }

    // MARK: The breaker

    /// A breaker whose time a test moves.
    private final class Bench {
        var breaker = CircuitBreaker()
        var now = ContinuousClock.now

        /// Returns whether a login from an address was admitted; then it fails.
        @discardableResult
        func fail(_ source: String) -> Bool {
            guard let ticket = breaker.admit(source, at: now) else { return false }
            breaker.hasFailed(ticket, at: now)
            return true
        }

        /// Returns whether a login from an address was admitted; then it is answered.
        @discardableResult
        func answer(_ source: String) -> Bool {
            guard let ticket = breaker.admit(source, at: now) else { return false }
            breaker.hasAnswered(ticket)
            return true
        }

        /// Makes a webhook silent.
        func silence() {
            for number in 0..<Limits.silentAddresses { fail("dead \(number)") }
            now += Limits.webhookSilence
            for number in 0..<Limits.silentAddresses { fail("dead \(number)") }
        }
    }

    @Test("logins of one address that make a webhook fail shut out that address, for a while, and no other")
    func stranger() {
        let bench = Bench()
        for _ in 0..<Limits.webhookFailures { #expect(bench.fail("stranger")) }
        #expect(!bench.fail("stranger"))
        for number in 0..<50 { #expect(bench.answer("honest \(number)")) }
        #expect(!bench.fail("stranger"))
        bench.now += Limits.webhookRest
        #expect(bench.answer("stranger"))
        #expect(bench.fail("stranger"))
    }

    @Test("strangers with many addresses do not make a webhook silent that answers others")
    func strangers() {
        let bench = Bench()
        for second in 0..<60 {
            for number in 0..<40 { bench.fail("stranger \(second) \(number)") }
            bench.now += .seconds(1)
            if second % 9 == 8 { #expect(bench.answer("honest \(second)")) }
            #expect(!bench.breaker.isSilent(at: bench.now))
        }
    }

    @Test("a webhook that answers nobody for a while is silent; few addresses do not prove that")
    func silent() {
        let bench = Bench()
        for _ in 0..<4 {
            for number in 1..<Limits.silentAddresses { bench.fail("\(number)") }
            bench.now += Limits.webhookSilence
        }
        #expect(!bench.breaker.isSilent(at: bench.now))
        bench.fail("one more")
        #expect(bench.breaker.isSilent(at: bench.now))
    }

    @Test("a silent webhook is probed by addresses that have not failed, some at a time; an answer ends it")
    func probes() {
        let bench = Bench()
        bench.silence()
        var probes: [CircuitBreaker.Ticket] = []
        for number in 0..<(Limits.webhookProbes + 10) {
            if let ticket = bench.breaker.admit("new \(number)", at: bench.now) { probes.append(ticket) }
        }
        // One more, since nobody else has probed within the pause.
        #expect(probes.count == Limits.webhookProbes + 1)
        // One that leaves makes room for one.
        bench.breaker.hasLeft(probes[0])
        #expect(bench.breaker.admit("next", at: bench.now) != nil)
        #expect(bench.breaker.admit("after", at: bench.now) == nil)
        bench.breaker.hasAnswered(probes[1])
        #expect(!bench.breaker.isSilent(at: bench.now))
        for number in 0..<300 { #expect(bench.answer("all \(number)")) }
    }

    @Test("addresses that failed probe a silent webhook too, one in a pause")
    func failedProbes() {
        let bench = Bench()
        bench.silence()
        #expect(bench.fail("dead 0"))
        for number in 0..<Limits.silentAddresses { #expect(!bench.fail("dead \(number)")) }
        bench.now += Limits.webhookProbePause
        #expect(bench.answer("dead 1"))
        #expect(bench.answer("dead 2"))
    }

    @Test("many addresses push out the oldest of them")
    func bounded() {
        let bench = Bench()
        for _ in 0..<Limits.webhookFailures { bench.fail("old") }
        bench.answer("somebody")
        bench.now += .seconds(1)
        for number in 0..<Limits.countedSources { bench.fail("\(number)") }
        #expect(bench.answer("old"))
    }
}

/// Lets logins gather, and answers all of them when told.
private final class CrowdPart: ServicePart {
    private struct State {
        var present = 0
        var most = 0
        var answers = false
    }

    let name = "crowd"
    private let state = Mutex(State())

    var present: Int { state.withLock { $0.present } }
    var most: Int { state.withLock { $0.most } }

    func answerAll() { state.withLock { $0.answers = true } }

    func hasGathered(_ count: Int) async -> Bool {
        let end = ContinuousClock.now + .seconds(60)
        while present < count, ContinuousClock.now < end { try? await Task.sleep(for: .milliseconds(5)) }
        return present >= count
    }

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/hook") { [self] _, _ in
            state.withLock { state in
                state.present += 1
                state.most = max(state.most, state.present)
            }
            while !state.withLock({ $0.answers }) { try await Task.sleep(for: .milliseconds(5)) }
            state.withLock { $0.present -= 1 }
            return .json(Webhook.seedAnswer.utf8)
        }
    }
}
