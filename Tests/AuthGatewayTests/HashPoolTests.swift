import Machine
import Testing

@testable import AuthGateway

@Suite("The pool of hashes", .timeLimit(.minutes(5)))
struct HashPoolTests {
    /// Holds the only thread of a pool until it is opened.
    private static func hold(_ pool: HashPool) async -> (gate: PendingAnswer<Void>, task: Task<Void, Never>) {
        let (begun, gate) = (PendingAnswer<Void>(), PendingAnswer<Void>())
        let task = Task {
            _ = try? await pool.run(for: "holder") { () throws(AuthGatewayError) in
                begun.give(())
                gate.wait()
            }
        }
        await begun.value()
        return (gate, task)
    }

    @Test("the networks that wait take turns, and a login that was given up has none")
    func order() async {
        let pool = HashPool(threads: 1)
        let (gate, holder) = await Self.hold(pool)
        let order = Monitor([String]())
        var logins: [Task<Bool, Never>] = []
        for name in ["a1", "a2", "a3", "b1", "c1", "b2"] {
            logins.append(
                Task {
                    let done: Void? = try? await pool.run(for: String(name.prefix(1))) {
                        () throws(AuthGatewayError) in
                        order.change { $0.append(name) }
                    }
                    return done != nil
                })
            while pool.waiting < logins.count { await Task.yield() }
        }
        logins[1].cancel()
        logins[4].cancel()
        #expect(await !logins[1].value)
        #expect(await !logins[4].value)
        gate.give(())
        await holder.value
        for place in [0, 2, 3, 5] { #expect(await logins[place].value) }
        #expect(order.read { $0 } == ["a1", "b1", "a3", "b2"])
        #expect(pool.waiting == 0)
    }

    @Test("logins of many networks, some of them given up at any time, have no more threads than there are")
    func bound() async {
        let pool = HashPool(threads: 2)
        let run = Monitor((now: 0, most: 0, done: 0))
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let login = Task {
                        try? await pool.run(for: "\(number % 7)") { () throws(AuthGatewayError) in
                            run.change { $0 = ($0.now + 1, max($0.most, $0.now + 1), $0.done) }
                            run.change { $0 = ($0.now - 1, $0.most, $0.done + 1) }
                        }
                    }
                    if number % 3 == 0 {
                        for _ in 0..<number % 11 { await Task.yield() }
                        login.cancel()
                    }
                    _ = await login.value
                }
            }
        }
        #expect(run.read { $0.most <= 2 && $0.done >= 200 })
        #expect(pool.waiting == 0)
        // Each thread was given back.
        let (first, second) = (await Self.hold(pool), await Self.hold(pool))
        first.gate.give(())
        second.gate.give(())
        await first.task.value
        await second.task.value
    }

    @Test("one network waits with as many logins as it may, and the others wait beside it")
    func full() async {
        let pool = HashPool(threads: 1)
        let (gate, holder) = await Self.hold(pool)
        let logins = (0..<Limits.hashesWaitingOfOne).map { _ in
            Task { (try? await pool.run(for: "many") { () throws(AuthGatewayError) in }) != nil }
        }
        while pool.waiting < Limits.hashesWaitingOfOne { await Task.yield() }
        await #expect(throws: AuthGatewayError.self) {
            try await pool.run(for: "many") { () throws(AuthGatewayError) in }
        }
        let other = Task { (try? await pool.run(for: "other") { () throws(AuthGatewayError) in }) != nil }
        while pool.waiting < Limits.hashesWaitingOfOne + 1 { await Task.yield() }
        logins[0].cancel()
        #expect(await !logins[0].value)
        gate.give(())
        await holder.value
        for login in logins.dropFirst() { #expect(await login.value) }
        #expect(await other.value)
    }
}
