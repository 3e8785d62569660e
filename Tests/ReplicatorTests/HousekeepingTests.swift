import CRDT
import DQL
import Exchange
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

@testable import Replicator

private let silent: Logger = {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
}()

@Suite("Housekeeping: reaping, snapshots, truncation", .timeLimit(.minutes(5)))
struct HousekeepingTests {
    private static let day: UInt64 = 86_400_000

    /// A log with a writer of its own, and housekeepers whose clocks are days ahead.
    fileprivate final class Shop: Sendable {
        static let database: DatabaseID = "d"
        let folder: URL
        let log: any OperationLog
        let kind: HousekeptLog
        let writer: PeerReplica

        init(_ folder: URL, _ kind: HousekeptLog, _ log: any OperationLog) async throws {
            self.folder = folder
            self.kind = kind
            self.log = log
            try await log.createDatabase(Self.database)
            writer = try PeerReplica(
                directory: folder.appendingPathComponent("writer").path,
                environment: Environment.system, logger: silent)
        }

        func write(_ statement: String) async throws {
            let prepared = try PreparedStatement(statement)
            let made = try writer.write { transaction in
                try prepared.execute(
                    in: transaction, idGenerator: { Environment.system.generateDocumentID() })
            }
            let operation = try #require(made.operation)
            let outcomes = try await log.append(
                [AppendRequest(operation, authorKey: "writer")], to: Self.database)
            guard case .appended = outcomes[0] else { throw OperationLogError(.busy, "\(outcomes)") }
        }

        func materializer(_ name: String = "fold") async throws -> Materializer {
            try await Materializer.open(
                Self.database, log: log, folder: folder.appendingPathComponent(name).path,
                logger: silent)
        }

        func housekeeper(
            _ materializer: Materializer, daysAhead: UInt64 = 0, _ options: HousekeepingOptions = .init()
        ) -> Housekeeper {
            Housekeeper(
                materializer: materializer, log: log, database: Self.database, options: options,
                logger: silent,
                wallMilliseconds: { Environment.system.wallMilliseconds() + daysAhead * day })
        }
    }

    private func withShop(_ kind: HousekeptLog, _ body: (Shop) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            try await kind.use(in: folder) { log in
                let shop = try await Shop(folder, kind, log)
                try await body(shop)
                try shop.writer.close()
                await log.close()
            }
        }
    }

    private func everything(_ replica: some Replica) throws -> [DocumentKey: [UInt8]] {
        try replica.read { transaction in
            var states: [DocumentKey: [UInt8]] = [:]
            for collection in try transaction.collectionNames() {
                try transaction.changes(in: collection, after: 0) { document in
                    let key = DocumentKey(collection: collection, id: document.id)
                    states[key] = [UInt8](document.state) + Array("\(document.position)".utf8)
                    return true
                }
            }
            return states
        }
    }

    @Test(
        "tombstones older than the time-to-live are reaped in every fold, younger and live ones stay",
        arguments: HousekeptLog.all)
    func reaping(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}), ({'_id': 3})")
            try await shop.write("DELETE FROM c WHERE _id = 1 OR _id = 2")
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 2, 'again': true})")
            let fold = try await shop.materializer()
            let young = try await shop.housekeeper(fold, daysAhead: 29).turn(reaps: true)
            #expect(young == Housekeeper.Report())
            let old = try await shop.housekeeper(fold, daysAhead: 31).turn(reaps: true)
            #expect(old?.reaped == 1)
            #expect(try everything(fold.replica).count == 2)
            #expect(try fold.replica.reapFloor() == 2)
            let again = try await shop.housekeeper(fold, daysAhead: 31).turn(reaps: true)
            #expect(again == Housekeeper.Report())
            let other = try await shop.materializer("other")
            try await other.advance()
            #expect(try everything(other.replica) == everything(fold.replica))
            var never = HousekeepingOptions()
            never.tombstoneTimeToLive = nil
            let off = try await shop.housekeeper(fold, daysAhead: 900, never).turn(reaps: true)
            #expect(off == Housekeeper.Report())
            await other.close()
            await fold.close()
        }
    }

    @Test("a snapshot whose lease is lost while it is written is cut short, and nothing comes of it")
    func cutShort() async throws {
        try await withShop(.sqlite) { shop in
            for number in 0..<3 {
                let text = String(repeating: "t", count: 300_000)
                try await shop.write("INSERT INTO c DOCUMENTS ({'_id': \(number), 'text': '\(text)'})")
            }
            let fickle = FickleLog(shop.log)
            let fold = try await Materializer.open(
                Shop.database, log: fickle, folder: shop.folder.appendingPathComponent("fickle").path,
                logger: silent)
            var options = HousekeepingOptions()
            (options.snapshotOperations, options.keptOperations) = (1, 0)
            let housekeeper = Housekeeper(
                materializer: fold, log: fickle, database: Shop.database, options: options, logger: silent,
                wallMilliseconds: { Environment.system.wallMilliseconds() })
            let report = try await housekeeper.turn(reaps: false)
            #expect(report == Housekeeper.Report(isCutShort: true))
            #expect(try await shop.log.snapshot(of: Shop.database) == nil)
            #expect(try await shop.log.truncation(of: Shop.database).offset == 0)
            await fold.close()
        }
    }

    @Test(
        "a tombstone that a restored log got back stays until the frontier covers it: only it tells holders",
        arguments: HousekeptLog.all)
    func givenBack(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            let lost = try PeerReplica(
                directory: shop.folder.appendingPathComponent("lost").path,
                environment: Environment.system, logger: silent)
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(1)))
            var states: [EncodedState] = []
            var requests: [AppendRequest] = []
            for statement in ["INSERT INTO c DOCUMENTS ({'_id': 1})", "DELETE FROM c"] {
                let prepared = try PreparedStatement(statement)
                let made = try lost.write { transaction in
                    try prepared.execute(
                        in: transaction, idGenerator: { Environment.system.generateDocumentID() })
                }
                requests.append(AppendRequest(try #require(made.operation), authorKey: "lost"))
                states.append(try #require(try lost.read { try $0.state(of: key) }))
            }
            try lost.close()
            let back = Operation(
                actor: ActorID(0xBAC), sequence: 1, timestamp: Environment.system.wallMilliseconds() << 16,
                changes: [Operation.Change(collection: "c", id: key.id, delta: StateChange.encode(states[1]))]
            )
            _ = try await shop.log.append([AppendRequest(back, authorKey: "back")], to: Shop.database)
            let fold = try await shop.materializer()
            #expect(try await shop.housekeeper(fold, daysAhead: 31).turn(reaps: true) == .init())
            // Who holds the document learns of the deletion.
            let held = try states[0].withUnsafeBytes { try DocumentReader($0).vector() }
            let page = HoldingsPage(
                candidates: [DocumentVersion(key: key, vector: held.encoded())], isLast: true)
            let query = try SubscriptionQuery(
                statement: "SELECT * FROM c", arguments: ObjectValue(), isRestricted: false)
            func told() throws -> HoldingsAnswer {
                try fold.replica.read {
                    try $0.compare(page, of: query, bytes: 1_000, rows: 10) { _ in true }
                }
            }
            #expect(try told().documents.map(\.content) == [.state(states[1])])

            _ = try await shop.log.append(requests, to: Shop.database)
            #expect(try await shop.housekeeper(fold, daysAhead: 31).turn(reaps: true)?.reaped == 1)
            #expect(try everything(fold.replica).isEmpty)
            #expect(try told().lost.map(\.key) == [key])
            await fold.close()
        }
    }

    @Test("more tombstones than one operation names go in several", arguments: HousekeptLog.all)
    func manyTombstones(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            let count = Limits.reapedDocuments * 2 + 7
            let documents = (1...count).map { "({'_id': \($0)})" }.joined(separator: ", ")
            try await shop.write("INSERT INTO c DOCUMENTS \(documents)")
            try await shop.write("DELETE FROM c WHERE _id > 5")
            let fold = try await shop.materializer()
            #expect(try await shop.housekeeper(fold, daysAhead: 31).turn(reaps: true)?.reaped == count - 5)
            #expect(try everything(fold.replica).count == 5)
            #expect(try await shop.log.head(of: Shop.database).offset == 5)
            await fold.close()
        }
    }

    @Test("a document that is written while it is reaped stays", arguments: HousekeptLog.all)
    func concurrentWrite(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            try await shop.write("DELETE FROM c")
            let fold = try await shop.materializer()
            try await fold.advance()
            // Behind the fold's back: the reaping was read before, and is decided by the log.
            let lease = try #require(
                try await shop.log.lease("housekeeping", of: 1, for: .seconds(60), in: Shop.database))
            let readAt = await fold.position.offset
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 2, 'saved': true})")
            let tombstone = try #require(
                try everything(fold.replica).keys.first { $0.id == (try? DocumentID(2)) })
            let operation = CRDT.Operation(
                actor: lease.actor, sequence: 1, timestamp: 1 << 62,
                changes: [
                    .init(
                        collection: tombstone.collection, id: tombstone.id,
                        delta: ReapingChange.encode(
                            at: VersionVector([.init(actor: shop.writer.actor, time: 1)])))
                ])
            let condition = AppendCondition(
                readAt: readAt, reads: [.document(tombstone.collection, tombstone.id)])
            let request = AppendRequest(operation, under: lease, condition: condition)
            #expect(
                try await shop.log.append([request], to: Shop.database) == [.conflict(.condition(offset: 3))])
            try await shop.log.release(lease, retiring: false, in: Shop.database)
            #expect(try await shop.housekeeper(fold, daysAhead: 31).turn(reaps: true)?.reaped == 1)
            #expect(try everything(fold.replica).count == 1)
            await fold.close()
        }
    }

    @Test(
        "a database that nobody has open is reaped too, once per interval, and closed again",
        arguments: HousekeptLog.all)
    func closedDatabase(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            try await shop.write("DELETE FROM c WHERE _id = 1")
            var options = HousekeepingOptions()
            options.tombstoneTimeToLive = .milliseconds(1)
            options.interval = .milliseconds(40)
            let counts = Mutex((opened: 0, closed: 0))
            let place = shop.folder.appendingPathComponent("hub").path
            let jobs = Housekeeping(
                log: shop.log, options: options, logger: silent, isOpen: { _ in false },
                hub: { database in
                    counts.withLock { $0.opened += 1 }
                    return try await DatabaseHub.open(
                        database, log: shop.log, folder: place, logger: silent)
                },
                close: { hub in
                    await hub.close()
                    counts.withLock { $0.closed += 1 }
                },
                open: { [] }, idle: IdleDatabases(kept: 0, patience: .zero), holds: { _ in nil })
            // Two processes, which both find the database closed.
            let running = (Task { try await jobs.run() }, Task { try await jobs.run() })
            #expect(try await eventually { counts.withLock { $0.closed } == 1 })
            #expect(try await shop.log.head(of: Shop.database).offset == 3)
            for _ in 0..<10 { try await Task.sleep(for: options.interval) }
            #expect(counts.withLock { $0.opened } == 1)
            #expect(counts.withLock { $0.closed } == 1)
            running.0.cancel()
            running.1.cancel()
            let fold = try await shop.materializer()
            try await fold.advance()
            #expect(try everything(fold.replica).count == 1)
            await fold.close()
        }
    }

    @Test(
        "a hub that somebody uses is not closed by the housekeeping; one that is being closed lets nobody in",
        arguments: HousekeptLog.all)
    func idleHub(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            let hub = try await DatabaseHub.open(
                Shop.database, log: shop.log, folder: shop.folder.appendingPathComponent("hub").path,
                logger: silent)
            let session = try #require(await hub.enter())
            #expect(await !hub.retireIfIdle())
            await hub.leave(session)
            #expect(await hub.retireIfIdle())
            #expect(await hub.enter() == nil)
            await hub.close()
        }
    }

    @Test("one process does it at a time", arguments: HousekeptLog.all)
    func oneAtATime(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let fold = try await shop.materializer()
            let lease = try #require(
                try await shop.log.lease("housekeeping", of: 1, for: .seconds(60), in: Shop.database))
            #expect(try await shop.housekeeper(fold).turn(reaps: true) == nil)
            try await shop.log.release(lease, retiring: false, in: Shop.database)
            #expect(try await shop.housekeeper(fold).turn(reaps: true) != nil)
            await fold.close()
        }
    }

    private var often: HousekeepingOptions {
        var options = HousekeepingOptions()
        options.snapshotOperations = 10
        options.keptOperations = 3
        return options
    }

    @Test("a fold that begins with the snapshot is the fold of the whole log", arguments: HousekeptLog.all)
    func snapshot(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            for number in 1...12 {
                try await shop.write("INSERT INTO c\(number % 3) DOCUMENTS ({'_id': \(number)})")
            }
            try await shop.write("DELETE FROM c1 WHERE _id = 1")
            let whole = try await shop.materializer("whole")
            let report = try await shop.housekeeper(whole, often).turn(reaps: false)
            #expect(report == Housekeeper.Report(reaped: 0, snapshot: 13, truncated: 10))
            #expect(try await shop.housekeeper(whole, often).turn(reaps: false) == Housekeeper.Report())
            try await shop.write("UPDATE c2 SET a = 1")
            try await whole.advance()
            let fresh = try await shop.materializer("fresh")
            #expect(await fresh.position.offset == 13)
            try await fresh.advance()
            #expect(try everything(fresh.replica) == everything(whole.replica))
            #expect(
                try fresh.replica.read { try $0.frontier() } == whole.replica.read { try $0.frontier() })
            #expect(await fresh.position == whole.position)
            await fresh.close()
            // Its file is a materialization like any other.
            let again = try await shop.materializer("fresh")
            #expect(await again.position == whole.position)
            await again.close()
            await whole.close()
        }
    }

    @Test(
        "a fold that has fallen behind the truncation begins anew with the snapshot",
        arguments: HousekeptLog.all)
    func behind(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 0})")
            let late = try await shop.materializer("late")
            try await late.advance()
            for number in 1...20 { try await shop.write("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            let whole = try await shop.materializer("whole")
            _ = try await shop.housekeeper(whole, often).turn(reaps: false)
            await #expect(throws: OperationLogError.self) { try await late.advance() }
            #expect(await late.hasLostHistory)
            await late.close()
            let again = try await shop.materializer("late")
            #expect(try everything(again.replica) == everything(whole.replica))
            await again.close()
            await whole.close()
        }
    }

    @Test("a damaged snapshot is never begun with", arguments: HousekeptLog.all)
    func damaged(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            for number in 1...12 { try await shop.write("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            let whole = try await shop.materializer("whole")
            var options = often
            options.keptOperations = 1_000
            _ = try await shop.housekeeper(whole, options).turn(reaps: false)
            try shop.damageSnapshot()
            let fresh = try await shop.materializer("fresh")
            #expect(await fresh.position.offset == 0)
            try await fresh.advance()
            #expect(try everything(fresh.replica) == everything(whole.replica))
            await fresh.close()
            try await shop.log.truncate(Shop.database, through: 5, keepingHashesAfter: 0)
            let refusal = await #expect(throws: OperationLogError.self) {
                _ = try await shop.materializer("another")
            }
            #expect(refusal?.code == .corruptSnapshot)
            await whole.close()
        }
    }

    @Test(
        "nothing is removed for a snapshot that cannot be read: it is written anew before",
        arguments: HousekeptLog.all)
    func damagedBeforeTruncation(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            for number in 1...12 { try await shop.write("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            let whole = try await shop.materializer("whole")
            var keeping = often
            keeping.keptOperations = 1_000
            let first = try await shop.housekeeper(whole, keeping).turn(reaps: false)
            #expect(first == Housekeeper.Report(reaped: 0, snapshot: 12, truncated: nil))
            // As if its writer had died before it truncated.
            try shop.damageSnapshot()
            try await shop.write("INSERT INTO c DOCUMENTS ({'_id': 13})")
            let next = try await shop.housekeeper(whole, often).turn(reaps: false)
            #expect(next == Housekeeper.Report(reaped: 0, snapshot: 13, truncated: 10))
            let fresh = try await shop.materializer("fresh")
            #expect(try everything(fresh.replica) == everything(whole.replica))
            await fresh.close()
            await whole.close()
        }
    }

    @Test(
        "a snapshot that cannot be read back takes no one's place, and nothing is removed for it",
        arguments: HousekeptLog.all)
    func unreadableDraft(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            for number in 1...12 { try await shop.write("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            let whole = try await shop.materializer("whole")
            var keeping = often
            keeping.keptOperations = 1_000
            _ = try await shop.housekeeper(whole, keeping).turn(reaps: false)
            let good = try await shop.log.snapshot(of: Shop.database)
            for number in 13...24 { try await shop.write("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            let log = ForgetfulLog(shop.log)
            let other = try await Materializer.open(
                Shop.database, log: log, folder: shop.folder.appendingPathComponent("other").path,
                logger: silent)
            let housekeeper = Housekeeper(
                materializer: other, log: log, database: Shop.database, options: often, logger: silent,
                wallMilliseconds: { Environment.system.wallMilliseconds() })
            let refusal = await #expect(throws: OperationLogError.self) {
                _ = try await housekeeper.turn(reaps: false)
            }
            #expect([.corruptSnapshot, .noSnapshot].contains(refusal?.code))
            #expect(try await shop.log.snapshot(of: Shop.database) == good)
            #expect(try await shop.log.truncation(of: Shop.database).offset == 0)
            await other.close()
            await whole.close()
        }
    }

    @Test("storage stays flat however long is written", arguments: HousekeptLog.all)
    func flat(kind: HousekeptLog) async throws {
        try await withShop(kind) { shop in
            try kind.holdAutovacuum()
            let whole = try await shop.materializer("whole")
            var options = often
            options.keptOperations = 20
            var sizes: [UInt64] = []
            let text = String(repeating: "x", count: 400)
            let writes = Depth.pick(fast: 250, deep: 2_000)
            options.snapshotOperations = UInt64(writes / 10)
            for number in 1...writes {
                try await shop.write(
                    "INSERT INTO c DOCUMENTS ({'_id': \(number % 20), 'n': \(number), 't': '\(text)'}) "
                        + "ON ID CONFLICT DO UPDATE")
                guard number % (writes / 10) == 0 else { continue }
                _ = try await shop.housekeeper(whole, options).turn(reaps: true)
                sizes.append(try shop.logSize())
            }
            let early = try #require(sizes.dropFirst(2).first)
            let late = try #require(sizes.last)
            #expect(late <= early + early / 4, "the log's file grew: \(sizes)")
            await whole.close()
        }
    }
}

extension HousekeepingTests.Shop {
    /// Flips bits of the snapshot's first chunk, whatever they are.
    func damageSnapshot() throws { try kind.damageSnapshot(in: folder) }

    /// The bytes that the log takes.
    func logSize() throws -> UInt64 { try kind.size(in: folder) }
}
