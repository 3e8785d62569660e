import CRDT
import Foundation
import Identity
import LogFakes
import Logging
import NIOCore
import OperationLog
import Synchronization
import TestSupport
import Testing

@testable import ServiceKit

/// A clock that a test moves.
private final class MovedClock: Sendable {
    private let start = ContinuousClock.now
    private let passed = Mutex(Duration.zero)

    var now: ContinuousClock.Instant { start + passed.withLock { $0 } }
    func pass(_ time: Duration) { passed.withLock { $0 += time } }
}

@Suite("Contact with the log", .timeLimit(.minutes(2)))
struct LogContactTests {
    /// A log that answers, refuses, or keeps its callers waiting.
    private final class AwayLog: PassingOnLog, @unchecked Sendable {
        // Unchecked because its superclass is: this is guarded by its own lock.
        enum Mode { case here, refusing, silent }
        private let mode = Mutex(Mode.here)

        func be(_ mode: Mode) { self.mode.withLock { $0 = mode } }

        override func head(of database: DatabaseID) async throws -> LogPosition {
            while mode.withLock({ $0 }) == .silent { try await Task.sleep(for: .milliseconds(5)) }
            guard mode.withLock({ $0 }) == .here else {
                throw OperationLogError(.unreachable, "nobody is there")
            }
            return try await super.head(of: database)
        }
    }

    private static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    private static func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            if try await condition() { return true }
            try await Task.sleep(for: .milliseconds(5))
        }
        return try await condition()
    }

    @Test("the state follows from the time since the last confirmed moment, to the second")
    func states() {
        let clock = MovedClock()
        let contact = LogContact(clock: { clock.now })
        #expect(contact.state == .lost && contact.silence == nil)
        #expect(contact.health.status == .failing)
        contact.confirm(asOf: contact.now)
        var states: [LogContact.State] = []
        for _ in 0...60 {
            states.append(contact.state)
            clock.pass(.seconds(1))
        }
        let expected: [LogContact.State] =
            Array(repeating: .held, count: 10) + Array(repeating: .missed, count: 50) + [.lost]
        #expect(states == expected)
        #expect(contact.health.detail == "no contact with the operation log for 61 s")
        contact.confirm(asOf: contact.now)
        #expect(contact.state == .held && contact.health == .ok)
    }

    @Test("an answer confirms the moment in which it was asked for, and an older one takes nothing back")
    func moments() {
        let clock = MovedClock()
        let contact = LogContact(clock: { clock.now })
        let (first, second) = (contact.now, contact.now + .seconds(7))
        clock.pass(.seconds(12))
        contact.confirm(asOf: first)
        #expect(contact.state == .missed && contact.silence == .seconds(12))
        contact.confirm(asOf: second)
        contact.confirm(asOf: first)
        #expect(contact.state == .held && contact.silence == .seconds(5))
    }

    /// Everything in one process that asks about contact.
    private struct Bench {
        let log: AwayLog
        let clock: MovedClock
        let system: SystemDatabase
        let authenticator: Authenticator
        let admin: AdminCredential
        let accessToken: String
        let apiKey: String
        let identity: Identity
    }

    private static let credential = String(repeating: "c", count: 43)

    private static func run(_ body: @escaping @Sendable (Bench, ListenAddress) async throws -> Void)
        async throws
    {
        try await withTemporaryDirectory { folder in
            let file = try SQLiteOperationLog(
                path: folder.appendingPathComponent("log.sqlite").path, logger: quiet)
            let (log, clock) = (AwayLog(file), MovedClock())
            // Beats are real: a minute of the clock passes within one of them.
            let contact = LogContact(
                LogContact.Bounds(contact: .seconds(10), grace: .seconds(60)), clock: { clock.now })
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path, pause: .milliseconds(1),
                contact: contact, logger: quiet)
            let key = try DatabaseSigningKey(databaseID: "cars", number: 1)
            let token = folder.appendingPathComponent("admin.token")
            try Data(credential.utf8).write(to: token)
            let authenticator = Authenticator(
                source: InMemoryKeySource(KeySet([key.publicKey])), system: system)
            let admin = AdminCredential(path: token.path, contact: contact)
            let part = TestPart(mounting: { mount in
                mount.on(.get, "/who") { request, _ in
                    .json(Array(try await authenticator.identity(for: request).userID.utf8))
                }
                mount.on(.get, "/admin/who") { request, _ in
                    try admin.admit(request, route: "/x")
                    return .json(Array("admin".utf8))
                }
            })
            try await serving([SystemDatabasePart(system), part]) { address async throws in
                let api = APIKey()
                let now = Int64(Date().timeIntervalSince1970)
                try await system.write { writer in
                    try writer.put(DatabaseRecord(id: "cars", createdAtSeconds: 1))
                    try writer.put(
                        APIKeyRecord(
                            id: api.id, database: "cars", name: "k", secretHash: api.secretHash,
                            permissions: .everything, createdAtSeconds: now, expiresAtSeconds: now + 1_000))
                }
                let identity = Identity(
                    userID: "ada", databaseID: "cars", peerKey: nil, grant: .everything,
                    expiresAtSeconds: now + 1_000)
                try await body(
                    Bench(
                        log: log, clock: clock, system: system, authenticator: authenticator, admin: admin,
                        accessToken: AccessToken.issue(identity, with: key, nowSeconds: now),
                        apiKey: api.text, identity: identity), address)
            }
            await file.close()
        }
    }

    /// Status and code of each kind of credential, and the health.
    private static func seen(_ bench: Bench, _ address: ListenAddress) async throws -> [String] {
        var found: [String] = []
        for (path, credential) in [
            ("/who", bench.accessToken), ("/who", bench.apiKey), ("/admin/who", Self.credential),
            ("/admin/who", "wrong"),
        ] {
            let answer = try await ask(address, path, headers: ["Authorization": "Bearer \(credential)"])
            found.append("\(answer.status) \(answer.code ?? "")")
        }
        for path in ["/health", "/admin/test/health"] {
            found.append("\(try await ask(address, path).status)")
        }
        return found
    }

    private static let held = ["200 ", "200 ", "200 ", "401 SRV-0401", "200", "200"]
    private static let missed = ["200 ", "200 ", "200 ", "401 SRV-0401", "503", "503"]
    private static let lost = [
        "503 SRV-0602", "503 SRV-0602", "503 SRV-0602", "401 SRV-0401", "503", "503",
    ]

    @Test(
        "cut off or unanswered: health fails after 10 s, credentials are refused after 60 s, and all goes on",
        arguments: [true, false])
    func cutOff(isSilent: Bool) async throws {
        try await Self.run { bench, address async throws in
            #expect(try await Self.seen(bench, address) == Self.held)
            bench.log.be(isSilent ? .silent : .refusing)
            // A beat that was under way has ended.
            _ = try? await Task.sleep(for: .milliseconds(50))
            bench.clock.pass(.seconds(9))
            // A log that refuses fails health with the first read of it, before the contact is missed.
            let early = try await Self.seen(bench, address)
            #expect(early.prefix(4) == Self.held.prefix(4) && (!isSilent || early == Self.held))
            bench.clock.pass(.seconds(1))
            #expect(try await Self.seen(bench, address) == Self.missed)
            try bench.authenticator.requireStanding(of: bench.identity)
            bench.clock.pass(.seconds(49))
            #expect(try await Self.seen(bench, address) == Self.missed)
            bench.clock.pass(.seconds(1))
            #expect(try await Self.seen(bench, address) == Self.lost)
            let error = #expect(throws: ServiceError.self) {
                try bench.authenticator.requireStanding(of: bench.identity)
            }
            #expect(error?.code == .contactLost && error?.httpHeaders[.retryAfter] == "1")
            bench.log.be(.here)
            #expect(try await Self.eventually { try await Self.seen(bench, address) == Self.held })
            try bench.authenticator.requireStanding(of: bench.identity)
        }
    }

    @Test("nobody has to write: the head is read again and again, and each answer is contact")
    func idle() async throws {
        try await Self.run { bench, _ async throws in
            for _ in 0..<3 {
                bench.clock.pass(.seconds(30))
                #expect(try await Self.eventually { bench.system.contact.state == .held })
            }
        }
    }

    @Test("what was revoked while an instance was cut off counts with the first answer")
    func revoked() async throws {
        try await Self.run { bench, _ async throws in
            bench.clock.pass(.seconds(60))
            try await bench.system.write {
                try $0.put(Revocation(database: "cars", subject: .user, value: "ada", sinceSeconds: 1))
            }
            try await bench.system.refresh()
            let error = #expect(throws: IdentityError.self) {
                try bench.authenticator.requireStanding(of: bench.identity)
            }
            #expect(error?.code == .revoked)
        }
    }

    @Test(
        "the log's file that is gone, or another one in its place, is no contact", arguments: [true, false])
    func fileGone(isReplaced: Bool) async throws {
        try await withTemporaryDirectory { folder in
            let path = folder.appendingPathComponent("log.sqlite").path
            let log = try SQLiteOperationLog(path: path, logger: Self.quiet)
            let clock = MovedClock()
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path,
                contact: LogContact(clock: { clock.now }), logger: Self.quiet)
            try await system.open()
            try await system.refresh()
            let kept = "\(path).kept"
            try FileManager.default.moveItem(atPath: path, toPath: kept)
            if isReplaced { try Data().write(to: URL(fileURLWithPath: path)) }
            clock.pass(.seconds(11))
            let error = await #expect(throws: OperationLogError.self) { try await system.refresh() }
            #expect(error?.code == .unreachable && system.contact.state == .missed)
            try? FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: kept, toPath: path)
            try await system.refresh()
            #expect(system.contact.state == .held)
            await system.close()
            await log.close()
        }
    }
}
