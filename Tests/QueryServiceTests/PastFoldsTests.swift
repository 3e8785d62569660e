import CRDT
import DQL
import Foundation
import LogFakes
import Logging
import Machine
import OperationLog
import Replica
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import QueryService

/// A log that tells of its reads, before each.
private final class ToldLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its base is: what it adds is guarded by a lock.
    private let reads = Mutex<[Offset]>([])
    private let whenRead: @Sendable (_ after: Offset) async -> Void

    init(_ log: any OperationLog, whenRead: @escaping @Sendable (_ after: Offset) async -> Void) {
        self.whenRead = whenRead
        super.init(log)
    }

    /// The reads from the beginning.
    var beginnings: Int { reads.withLock { $0.count { $0 == 0 } } }

    override func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws
        -> [LogEntry]
    {
        reads.withLock { $0.append(offset) }
        await whenRead(offset)
        return try await super.read(database, after: offset, limit: limit)
    }
}

@Suite("A fold of the past is moved for those who wait for it", .timeLimit(.minutes(4)))
struct PastFoldsTests {
    private static let database = DatabaseID(QueryBench.database)
    private let pool = EvaluationPool()

    /// Calls `body` with a log of four operations, of which a read takes one or two.
    private func having(_ body: @escaping @Sendable (any OperationLog, String) async throws -> Void)
        async throws
    {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let large = String(repeating: "x", count: 600_000)
            for id in 1...4 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(id), 't': '\(large)'})")
            }
        }
        try await body(log, "\(bench.folder)/folds")
        await log.close()
    }

    private func folds(_ log: any OperationLog, _ folder: String) -> PastFolds {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return PastFolds(log: log, folder: folder, logger: logger)
    }

    private func documents(_ folds: PastFolds, _ evaluation: Evaluation) async throws -> Int {
        defer { pool.finish(evaluation) }
        return try await folds.read(Self.database, at: 4, evaluation) { documents in
            var count = 0
            _ = try documents.page(of: "c", after: 0) { _, _ in
                count += 1
                return true
            }
            return count
        }
    }

    private func statement(of credential: String) throws -> Evaluation {
        try pool.statement("", of: credential, in: Self.database)
    }

    @Test("it stops where its only reader has left, and the next one goes on from there")
    func stops() async throws {
        try await having { log, folder in
            let first = try statement(of: "ada")
            let told = ToldLog(log) { _ in first.end(.abandoned) }
            let folds = folds(told, folder)
            let gone = await #expect(throws: DQLError.self) { try await documents(folds, first) }
            #expect(gone?.code == .cancelled)
            // The same account has one place, so this one comes after the step that was under way.
            #expect(try await documents(folds, statement(of: "ada")) == 4)
            #expect(told.beginnings == 1)
            await folds.close()
        }
    }

    @Test("it goes on for the others when the one who began it has left")
    func shared() async throws {
        try await having { log, folder in
            let (isRead, mayRead) = (PendingAnswer<Void>(), PendingAnswer<Void>())
            let told = ToldLog(log) { offset in
                guard offset == 0 else { return }
                isRead.give(())
                await mayRead.value()
            }
            let folds = folds(told, folder)
            let (first, second) = (try statement(of: "ada"), try statement(of: "ben"))
            let gone = Task { try await documents(folds, first) }
            await isRead.value()
            let found = Task { try await documents(folds, second) }
            while await folds.waiting < 2 { await Task.yield() }
            first.end(.timeout)
            let error = await #expect(throws: DQLError.self) { try await gone.value }
            #expect(error?.code == .timeout)
            mayRead.give(())
            #expect(try await found.value == 4)
            #expect(told.beginnings == 1)
            await folds.close()
        }
    }

    @Test("whoever ends while it stops is told so by a code, also if the fold notices it first")
    func endsAtOnce() async throws {
        try await having { log, folder in
            let (reader, borrower) = (try statement(of: "ada"), try statement(of: "ben"))
            defer { pool.finish(borrower) }
            let rest = Mutex([reader, borrower])
            let told = ToldLog(log) { _ in
                let evaluation = rest.withLock { $0.isEmpty ? nil : $0.removeFirst() }
                // The one who waits is not called.
                evaluation?.whenEnded {}
                evaluation?.end(.timeout)
            }
            let folds = folds(told, folder)
            let gone = await #expect(throws: DQLError.self) { try await documents(folds, reader) }
            #expect(gone?.code == .timeout)
            let refused = await #expect(throws: DQLError.self) {
                try await folds.borrow(Self.database, at: 4, borrower)
            }
            #expect(refused?.code == .timeout)
            await folds.close()
        }
    }

    /// A log whose first read waits until the second answer is given.
    private func slow(_ log: any OperationLog) -> (
        log: ToldLog, isRead: PendingAnswer<Void>, mayRead: PendingAnswer<Void>
    ) {
        let (isRead, mayRead) = (PendingAnswer<Void>(), PendingAnswer<Void>())
        let told = ToldLog(log) { _ in if isRead.give(()) { await mayRead.value() } }
        return (told, isRead, mayRead)
    }

    @Test("one that is moved while its database is forgotten is closed, and its readers get another one")
    func forgottenOnTheWay() async throws {
        try await having { log, folder async throws in
            let (told, isRead, mayRead) = slow(log)
            let folds = folds(told, folder)
            let found = Task { try await documents(folds, statement(of: "ada")) }
            await isRead.value()
            await folds.forget("boats")
            await folds.forget(Self.database)
            mayRead.give(())
            #expect(try await found.value == 4)
            #expect(told.beginnings == 2)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count == 1)
            await folds.close()
        }
    }

    @Test("so is one that somebody borrows, on the way and when it is given back")
    func forgottenBeforeItIsLent() async throws {
        try await having { log, folder in
            let (told, isRead, mayRead) = slow(log)
            let folds = folds(told, folder)
            let (first, second) = (try statement(of: "ada"), try statement(of: "ben"))
            defer { for evaluation in [first, second] { pool.finish(evaluation) } }
            let found = Task { try await folds.borrow(Self.database, at: 4, first) }
            await isRead.value()
            await folds.forget(Self.database)
            mayRead.give(())
            let fold = try await found.value
            #expect(await fold.position.offset == 4)
            #expect(told.beginnings == 2)
            await folds.forget(Self.database)
            await folds.giveBack(fold)
            let other = try await folds.borrow(Self.database, at: 4, second)
            #expect(told.beginnings == 3)
            await folds.giveBack(other)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count == 1)
            await folds.close()
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
        }
    }

    @Test("a time in the past is looked for in turns, and no longer than its reader stays")
    func times() async throws {
        try await having { log, _ in
            let statement = try statement(of: "ada")
            defer { pool.finish(statement) }
            let told = ToldLog(log) { after in if after > 0 { statement.end(.timeout) } }
            let gone = await #expect(throws: DQLError.self) {
                try await PastTimes(log: told).offset(at: .max, in: Self.database, statement)
            }
            #expect(gone?.code == .timeout)
            let patient = try self.statement(of: "ada")
            defer { pool.finish(patient) }
            #expect(try await PastTimes(log: log).offset(at: .max, in: Self.database, patient) == 4)
        }
    }

    @Test("an account moves one at a time, and so many accounts do")
    func places() async throws {
        let places = FoldPlaces(2)
        let (ada, ben) = (Account("ada", in: Self.database), Account("ben", in: Self.database))
        #expect(await places.begin(ada))
        let second = Task { await places.begin(ada) }
        while places.users(of: ada) < 2 { await Task.yield() }
        #expect(await places.begin(ben))
        let cyd = Account("cyd", in: Self.database)
        let third = Task { await places.begin(cyd) }
        while places.users(of: cyd) < 1 { await Task.yield() }
        third.cancel()
        #expect(await !third.value)
        #expect(places.users(of: cyd) == 0)
        places.end(ada)
        #expect(await second.value)
        places.end(ada)
        places.end(ben)
        #expect(places.users(of: ada) == 0 && places.users(of: ben) == 0)
        #expect(await places.begin(ben))
    }
}
