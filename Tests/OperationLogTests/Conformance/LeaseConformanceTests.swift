import CRDT
import Testing

@testable import OperationLog

@Suite("Log contract: leases")
struct LeaseConformanceTests {
    private let long = Duration.seconds(3_600)

    @Test(
        "slots are given out until all are held, each with an actor of its own", arguments: LogDriver.allCases
    )
    func slots(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            let first = try #require(try await log.lease("writer", of: 2, for: long, in: "db"))
            let second = try #require(try await other.lease("writer", of: 2, for: long, in: "db"))
            #expect(first.actor != second.actor)
            #expect(try await log.lease("writer", of: 2, for: long, in: "db") == nil)
            #expect(try await log.lease("reaper", of: 1, for: long, in: "db") != nil)
            try await log.createDatabase("second")
            #expect(try await log.lease("writer", of: 1, for: long, in: "second")?.epoch == 1)
            await other.close()
        }
    }

    @Test(
        "who comes after gets the actor again, and who came before may not write as it any more",
        arguments: LogDriver.allCases)
    func fencing(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let first = try #require(try await log.lease("writer", of: 1, for: long, in: "db"))
            #expect(try await append(log, first, 1) == .appended(offset: 1))
            try await log.release(first, retiring: false, in: "db")
            #expect(try await append(log, first, 2) == .conflict(.leaseLost))
            let other = try openAnother()
            let second = try #require(try await other.lease("writer", of: 1, for: long, in: "db"))
            #expect(second.actor == first.actor)
            #expect(second.epoch == first.epoch + 1)
            #expect(try await append(log, first, 2) == .conflict(.leaseLost))
            #expect(try await log.renew(first, for: long, in: "db") == false)
            try await log.release(first, retiring: true, in: "db")
            #expect(try await append(other, second, 2) == .appended(offset: 2))
            #expect(try await other.renew(second, for: long, in: "db"))
            await other.close()
        }
    }

    @Test("a lease whose time has run out is lost, whoever takes it", arguments: LogDriver.allCases)
    func expiry(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let first = try #require(try await log.lease("writer", of: 1, for: .milliseconds(1), in: "db"))
            // One that came in time is there; the next one comes later.
            var next: UInt64 = 0
            let isLost = try await eventually {
                next += 1
                return try await append(log, first, SequenceNumber(next)) == .conflict(.leaseLost)
            }
            #expect(isLost)
            #expect(try await log.renew(first, for: long, in: "db") == false)
            let second = try #require(try await log.lease("writer", of: 1, for: long, in: "db"))
            #expect(second.actor == first.actor)
            #expect(second.epoch == 2)
        }
    }

    @Test("a retired actor is not given out again", arguments: LogDriver.allCases)
    func retired(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let first = try #require(try await log.lease("writer", of: 1, for: long, in: "db"))
            try await log.release(first, retiring: true, in: "db")
            let second = try #require(try await log.lease("writer", of: 1, for: long, in: "db"))
            #expect(second.actor != first.actor)
            #expect(second.epoch == 2)
            #expect(try await append(log, first, 1) == .conflict(.leaseLost))
            #expect(try await append(log, second, 1) == .appended(offset: 1))
        }
    }

    @Test("an actor that is retired while it is held is lost to its holder", arguments: LogDriver.allCases)
    func retiredInUse(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let first = try #require(try await log.lease("writer", of: 2, for: long, in: "db"))
            let second = try #require(try await log.lease("writer", of: 2, for: long, in: "db"))
            try await log.retire([first.actor, ActorID(5)], in: "db")
            #expect(try await append(log, first, 1) == .conflict(.leaseLost))
            #expect(try await log.renew(first, for: long, in: "db") == false)
            #expect(try await append(log, second, 1) == .appended(offset: 1))
            let third = try #require(try await log.lease("writer", of: 2, for: long, in: "db"))
            #expect(third.number == first.number)
            #expect(third.actor != first.actor)
        }
    }

    @Test("a lease is for its own actor and database only", arguments: LogDriver.allCases)
    func foreignUse(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            try await log.createDatabase("second")
            let lease = try #require(try await log.lease("writer", of: 1, for: long, in: "db"))
            let foreign = ActorLease(
                purpose: lease.purpose, number: lease.number, actor: ActorID(5), epoch: lease.epoch)
            #expect(try await append(log, foreign, 1) == .conflict(.leaseLost))
            #expect(try await append(log, lease, 1, to: "second") == .conflict(.leaseLost))
            #expect(try await append(log, lease, 1) == .appended(offset: 1))
            let asPeer = AppendRequest(
                record: request(lease.actor.rawValue, 2).record, authorKey: "key", touches: [])
            #expect(try await log.append([asPeer], to: "db") == [.conflict(.foreignActor)])
        }
    }

    @Test("a purpose has a name of bounded length, a database exists", arguments: LogDriver.allCases)
    func invalid(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let name = String(repeating: "x", count: LogLimits.purposeBytes + 1)
            for purpose in ["", name] {
                let refusal = try await code { _ = try await log.lease(purpose, of: 1, for: long, in: "db") }
                #expect(refusal == .invalidRequest)
            }
            #expect(
                try await code { _ = try await log.lease("writer", of: 1, for: long, in: "no") }
                    == .unknownDatabase)
        }
    }

    private func append(
        _ log: any OperationLog, _ lease: ActorLease, _ sequence: SequenceNumber,
        to database: DatabaseID = "db"
    ) async throws -> AppendOutcome? {
        let operation = CRDT.Operation(
            actor: lease.actor, sequence: sequence, timestamp: sequence.rawValue, changes: [])
        return try await log.append([AppendRequest(operation, under: lease)], to: database).first
    }
}
