import CRDT
import Hummingbird
import Identity
import NIOCore
import Synchronization
import Testing

@testable import ServiceKit

@Suite("Limits of databases and users")
struct UsageMeterTests {
    /// A meter with a clock that is moved by hand.
    private final class Bench: Sendable {
        private let passed = Mutex(Duration.zero)
        private let start = ContinuousClock.now
        let meter: UsageMeter

        init() {
            let holder = Holder()
            meter = UsageMeter(now: { holder.bench.withLock { $0?.now } ?? .now })
            holder.bench.withLock { $0 = self }
        }

        var now: ContinuousClock.Instant { start + passed.withLock { $0 } }
        func move(_ duration: Duration) { passed.withLock { $0 += duration } }

        private final class Holder: Sendable {
            let bench = Mutex<Bench?>(nil)
        }
    }

    private func identity(_ user: String, _ database: DatabaseID = "cars") -> Identity {
        Identity(
            userID: user, databaseID: database, peerKey: nil, grant: .everything, expiresAtSeconds: .max)
    }

    private func limits(
        whole: [LimitKind: Int64] = [:], eachUser: [LimitKind: Int64] = [:],
        users: [String: [LimitKind: Int64]] = [:]
    ) -> DatabaseLimits {
        func bounds(_ values: [LimitKind: Int64]) -> UsageLimits {
            values.reduce(into: UsageLimits()) { $0[$1.key] = $1.value }
        }
        var limits = DatabaseLimits(database: "cars")
        (limits.whole, limits.eachUser) = (bounds(whole), bounds(eachUser))
        limits.users = users.map { UserLimits(name: $0.key, limits: bounds($0.value)) }
        return limits
    }

    /// How many of a hundred requests are let in at once.
    private func admitted(_ bench: Bench, _ user: String, _ limits: DatabaseLimits?) -> Int {
        (0..<100).count { _ in (try? bench.meter.admit(identity(user), under: limits)) != nil }
    }

    @Test("a session's frame waits until the debt of its database or user is paid, whichever takes longer")
    func frames() throws {
        let bench = Bench()
        let limits = limits(whole: [.bytesPerSecond: 1_000], eachUser: [.bytesPerSecond: 100])
        let ann = identity("ann")
        // Two seconds' worth is there at the beginning.
        #expect(bench.meter.pay(200, by: ann, under: limits) == .zero)
        #expect(bench.meter.pay(400, by: ann, under: limits) == .seconds(4))
        bench.move(.seconds(4))
        #expect(bench.meter.pay(0, by: ann, under: limits) == .zero)
        #expect(bench.meter.pay(5_000, by: identity("bob"), under: limits) == .seconds(48))
        // Bob has used up what is for all.
        #expect(bench.meter.pay(0, by: ann, under: limits) == .seconds(3))
        #expect(bench.meter.pay(1_000_000, by: ann, under: self.limits()) == .zero)
    }

    @Test("frames of many sessions keep requests out for no longer than a frame waits, and forgive no debt")
    func manyFrames() throws {
        let bench = Bench()
        let limits = limits(whole: [.bytesPerSecond: 1_000])
        let ann = identity("ann")
        for _ in 1...3 {
            #expect(
                bench.meter.pay(1_000_000, by: ann, under: limits, owingAtMost: .seconds(45)) == .seconds(45))
        }
        #expect(admitted(bench, "bob", limits) == 0)
        bench.move(.seconds(46))
        #expect(admitted(bench, "bob", limits) == 100)
        // One second is there, and a large body leaves more than frames may.
        #expect(bench.meter.pay(101_000, by: ann, under: limits) == .seconds(100))
        #expect(bench.meter.pay(10, by: ann, under: limits, owingAtMost: .seconds(45)) == .seconds(100))
        bench.move(.seconds(50))
        #expect(admitted(bench, "bob", limits) == 0)
    }

    @Test("requests of two seconds may come at once, and then as many as the limit says")
    func requests() throws {
        let bench = Bench()
        let limits = limits(whole: [.requestsPerSecond: 10])
        #expect(admitted(bench, "ann", limits) == 20)
        #expect(admitted(bench, "bob", limits) == 0, "the limit is the database's")
        #expect(admitted(bench, "ann", nil) == 100)
        let refused = try #require(throws: LimitReached.self) {
            try bench.meter.admit(identity("bob"), under: limits)
        }
        #expect(refused.httpStatus == .tooManyRequests && refused.publicCode == "SRV-0432")
        #expect(refused.httpHeaders[.retryAfter] == "1")
        #expect(refused.publicMembers["limit"] == "requestsPerSecond")
        #expect(refused.publicMembers["of"] == "database")
        bench.move(.milliseconds(500))
        #expect(admitted(bench, "bob", limits) == 5)
        bench.move(.seconds(3_600))
        #expect(admitted(bench, "ann", limits) == 20)
    }

    @Test("each user has a limit of the own, some by their names, and one's use is no other's")
    func users() throws {
        let bench = Bench()
        let limits = limits(
            whole: [.requestsPerSecond: 40], eachUser: [.requestsPerSecond: 5],
            users: ["bob": [.requestsPerSecond: 20], "root": [:]])
        #expect(admitted(bench, "ann", limits) == 10)
        #expect(admitted(bench, "cleo", limits) == 10)
        #expect(admitted(bench, "bob", limits) == 40)
        // Requests that the users' limits refused have taken nothing of the database's.
        #expect(admitted(bench, "root", limits) == 20)
        let refused = try #require(throws: LimitReached.self) {
            bench.move(.milliseconds(100))
            try bench.meter.admit(identity("ann"), under: limits)
        }
        #expect(refused.publicMembers["of"] == "user")
    }

    @Test("bytes are paid afterwards: a large body goes through, and those after it wait")
    func bytes() throws {
        let bench = Bench()
        let limits = limits(eachUser: [.bytesPerSecond: 1_000])
        try bench.meter.admit(identity("ann"), under: limits)
        bench.meter.pay(12_000, by: identity("ann"), under: limits)
        let refused = try #require(throws: LimitReached.self) {
            try bench.meter.admit(identity("ann"), under: limits)
        }
        // Two seconds were there, ten are owed, and one byte of the eleventh.
        #expect(refused.httpHeaders[.retryAfter] == "11")
        #expect(admitted(bench, "bob", limits) == 100)
        bench.move(.seconds(10))
        #expect(admitted(bench, "ann", limits) == 0)
        bench.move(.milliseconds(2))
        #expect(admitted(bench, "ann", limits) == 100)
    }

    @Test("nobody waits longer than an hour, however much others of the database have used")
    func largestDebt() throws {
        let bench = Bench()
        let limits = limits(whole: [.bytesPerSecond: 1_000])
        for _ in 0..<10 {
            let debt = bench.meter.pay(16_000_000, by: identity("ann"), under: limits)
            #expect(debt == .seconds(3_600))
        }
        let refused = try #require(throws: LimitReached.self) {
            try bench.meter.admit(identity("bob"), under: limits)
        }
        #expect(refused.httpHeaders[.retryAfter] == "3601")
        bench.move(.seconds(3_601))
        try bench.meter.admit(identity("bob"), under: limits)
    }

    /// Takes what is written, so many pieces of it.
    private struct Client: ResponseBodyWriter {
        var pieces: Int

        mutating func write(_ buffer: ByteBuffer) async throws {
            guard pieces > 0 else { throw CancellationError() }
            pieces -= 1
        }

        consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
    }

    @Test("an answer costs what was sent of it: nothing where only its head was asked for")
    func answers() async throws {
        let bench = Bench()
        let (ann, limits) = (identity("ann"), limits(eachUser: [.bytesPerSecond: 1_000]))
        let charge = UsageCharge()
        charge.name(UsageCharge.Payer(meter: bench.meter, identity: ann, limits: limits))
        let body = ResponseBody(contentLength: 12_000) { writer in
            for _ in 0..<12 { try await writer.write(ByteBuffer(repeating: 0, count: 1_000)) }
            try await writer.finish(nil)
        }
        let answer = Response(status: .ok, body: body).charged(to: charge)
        #expect(answer.body.contentLength == 12_000 && answer.headers[.contentLength] == "12000")
        #expect(answer.createHeadResponse().headers[.contentLength] == "12000")
        try bench.meter.admit(ann, under: limits)
        // A client that goes away: one piece is on the way to it.
        await #expect(throws: CancellationError.self) { try await answer.body.write(Client(pieces: 0)) }
        try bench.meter.admit(ann, under: limits)
        bench.move(.seconds(1))
        try await answer.body.write(Client(pieces: 12))
        let refused = try #require(throws: LimitReached.self) {
            try bench.meter.admit(ann, under: limits)
        }
        #expect(refused.httpHeaders[.retryAfter] == "11")
    }

    @Test("what was used while there was no such limit is no debt when there is one again")
    func liftedLimits() throws {
        let bench = Bench()
        let both = limits(whole: [.requestsPerSecond: 10, .bytesPerSecond: 1_000])
        let others = limits(whole: [.sessions: 5])
        #expect(admitted(bench, "ann", both) == 20)
        bench.meter.pay(9_000, by: identity("ann"), under: both)
        for _ in 0..<50 { #expect(admitted(bench, "ann", others) == 100) }
        bench.meter.pay(1_000_000, by: identity("ann"), under: others)
        #expect(admitted(bench, "ann", both) == 20)
        // Bytes of a request from before the limit was lifted, and nobody asks meanwhile.
        bench.meter.pay(1_000_000, by: identity("ann"), under: others)
        bench.move(.seconds(2))
        #expect(admitted(bench, "ann", both) == 20)
    }

    @Test("sessions have places until they end, or are never begun; those from before a limit count")
    func sessions() throws {
        let bench = Bench()
        let limits = limits(whole: [.sessions: 3], eachUser: [.sessions: 2])
        let first = try bench.meter.begin(identity("ann"), under: nil)
        var second: UsageMeter.Place? = try bench.meter.begin(identity("ann"), under: limits)
        let refused = try #require(throws: LimitReached.self) {
            try bench.meter.begin(identity("ann"), under: limits)
        }
        #expect(refused.httpHeaders[.retryAfter] == "10" && refused.publicMembers["of"] == "user")
        let third = try bench.meter.begin(identity("bob"), under: limits)
        let full = try #require(throws: LimitReached.self) {
            try bench.meter.begin(identity("cleo"), under: limits)
        }
        #expect(full.publicMembers["of"] == "database")
        #expect(try bench.meter.begin(identity("ann", "boats"), under: nil) !== first)
        _ = second
        second = nil
        let fourth = try bench.meter.begin(identity("cleo"), under: limits)
        first.leave()
        first.leave()
        let fifth = try bench.meter.begin(identity("ann"), under: limits)
        #expect(throws: LimitReached.self) { try bench.meter.begin(identity("dan"), under: limits) }
        for place in [third, fourth, fifth] { place.leave() }
        _ = try bench.meter.begin(identity("dan"), under: limits)
    }

    @Test("metrics tell the use of each limit, and of users that of the nearest to it")
    func readings() throws {
        let bench = Bench()
        let limits = limits(
            whole: [.requestsPerSecond: 100, .sessions: 4], eachUser: [.requestsPerSecond: 50],
            users: ["bob": [.requestsPerSecond: 10]])
        let places = try ["ann", "bob"].map { try bench.meter.begin(identity($0), under: limits) }
        for _ in 0..<20 {
            for _ in 0..<20 { try bench.meter.admit(identity("ann"), under: limits) }
            for _ in 0..<9 { try bench.meter.admit(identity("bob"), under: limits) }
            bench.move(.seconds(1))
        }
        let readings = bench.meter.readings([limits])
        func reading(_ kind: LimitKind, isUser: Bool) throws -> UsageMeter.Reading {
            try #require(readings.first { $0.kind == kind && $0.isUser == isUser })
        }
        #expect(readings.count == 3)
        let whole = try reading(.requestsPerSecond, isUser: false)
        #expect(whole.used == 29 && whole.most == 100)
        let nearest = try reading(.requestsPerSecond, isUser: true)
        #expect(nearest.used == 9 && nearest.most == 10)
        let sessions = try reading(.sessions, isUser: false)
        #expect(sessions.used == 2 && sessions.most == 4)
        withExtendedLifetime(places) {}
    }
}
