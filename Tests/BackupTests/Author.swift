import CRDT
import DQL
import Foundation
import Logging
import Machine
import OperationLog
import Postgres
import Replica
import TestSupport
import Testing

@testable import Backup

/// Writes a history into one database of a log, and knows the documents' digest after each operation.
final class Author {
    static let quiet: Logger = {
        var logger = Logger(label: "test")
        logger.handler = SwiftLogNoOpLogHandler()
        return logger
    }()

    let log: any RestorableLog
    let database: DatabaseID
    private let replica: Materialization
    /// The ids in collection c.
    private var living: Set<Int> = []
    private var sequences: [UInt64: UInt64] = [:]
    /// The digest at each offset, from 0.
    private(set) var digests: [FoldDigest] = [FoldDigest()]
    /// The time of each operation, in milliseconds.
    private(set) var times: [UInt64] = [0]

    init(_ log: any RestorableLog, _ database: DatabaseID = "app", folder: URL) async throws {
        (self.log, self.database) = (log, database)
        try await log.createDatabase(database)
        replica = try Materialization(
            directory: folder.appendingPathComponent("author-\(database)").path, environment: .system,
            logger: Self.quiet)
    }

    /// Runs a statement as one of some actors.
    func execute(_ statement: String, as actor: UInt64 = 1) async throws {
        let compiled = try StatementCompiler.compile(statement)
        let sequence = sequences[actor, default: 0] + 1
        let drafted = try replica.draft(as: ActorID(actor), sequence: SequenceNumber(sequence)) {
            transaction -> StatementResult in
            try compiled.execute(in: transaction, idGenerator: { preconditionFailure("ids are given") })
        }
        let operation = try #require(drafted.operation)
        sequences[actor] = sequence
        let outcome = try await log.append(
            [AppendRequest(operation, authorKey: "key of \(actor)")], to: database)
        #expect(outcome == [.appended(offset: Offset(UInt64(digests.count)))])
        let head = try await log.head(of: database)
        _ = try replica.fold([Materialization.LogItem(position: head, bytes: operation.encoded())])
        digests.append(try digest())
        times.append(HybridClock.milliseconds(of: operation.timestamp))
    }

    /// Some statements of several actors: documents come, change, grow counters, and go.
    func writeSome(_ count: Int, _ random: inout SplitMix64) async throws {
        for _ in 0..<count {
            let (id, n) = (random.below(7), random.below(1_000))
            let statements = [
                "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': \(n)}) ON ID CONFLICT DO UPDATE",
                "INSERT INTO d DOCUMENTS ({'_id': \(id), 't': 'x\(n)'}) ON ID CONFLICT DO UPDATE",
                "UPSERT", "DELETE FROM c WHERE _id = \(id)",
            ]
            let statement = statements[random.below(4)]
            let actor = UInt64(1 + random.below(4))
            guard statement.hasPrefix("INSERT") || living.contains(id) else { continue }
            if statement.hasPrefix("INSERT INTO c") { living.insert(id) }
            if statement.hasPrefix("DELETE") { living.remove(id) }
            try await execute(
                statement == "UPSERT" ? "UPDATE c APPLY k INCREMENT BY 1 WHERE _id = \(id)" : statement,
                as: actor)
        }
    }

    /// Writes the log's snapshot.
    /// - Parameter other: the author whose documents it gets; nil for the right ones.
    @discardableResult
    func snapshot(of other: Author? = nil) async throws -> LogSnapshot {
        let reader = try #require(try (other ?? self).replica.snapshotReader())
        defer { reader.close() }
        let position = try await log.head(of: database)
        let draft = try await log.beginSnapshot(of: database, at: position)
        while let chunk = try reader.next() { try await log.add(chunk, to: draft, in: database) }
        return try await log.finish(draft, in: database)
    }

    /// Writes the log's snapshot, and removes the operations it covers.
    func truncate() async throws {
        let snapshot = try await snapshot()
        try await log.truncate(database, through: snapshot.position.offset, keepingHashesAfter: 0)
    }

    private func digest() throws -> FoldDigest {
        var digest = FoldDigest()
        let reader = try #require(try replica.snapshotReader())
        defer { reader.close() }
        while let chunk = try reader.next() {
            for case .document(let document) in try SnapshotChunk.records(in: chunk) { digest.add(document) }
        }
        return digest
    }

    func close() throws { try replica.close() }
}

/// A place for logs and backups of one test.
struct Place {
    let folder: URL

    var backups: BackupFolder { BackupFolder(folder.appendingPathComponent("backups").path) }

    func log(_ name: String) throws -> SQLiteOperationLog {
        try SQLiteOperationLog(
            path: folder.appendingPathComponent("\(name).sqlite").path, logger: Author.quiet)
    }

    @discardableResult
    func backUp(
        _ log: any OperationLog, _ change: (inout BackupMaker.Options) -> Void = { _ in }
    ) async throws -> Manifest {
        var options = BackupMaker.Options()
        change(&options)
        return try await BackupMaker(log, into: backups, options, logger: Author.quiet).make()
    }

    @discardableResult
    func restore(
        into log: any RestorableLog, from name: String? = nil,
        _ change: (inout Restorer.Options) -> Void = { _ in }
    ) async throws -> Restorer.Report {
        var options = Restorer.Options()
        change(&options)
        let path = name.map { "\(backups.path)/\($0)" } ?? backups.path
        return try await Restorer(path, options, logger: Author.quiet).restore(into: log)
    }

    static func use(_ body: (Place) async throws -> Void) async throws {
        try await withTemporaryDirectory { try await body(Place(folder: $0)) }
    }
}

/// The code that a body throws; nil if it throws nothing.
func code(_ body: () async throws -> Void) async throws -> BackupErrorCode? {
    do {
        try await body()
        return nil
    } catch let error as BackupError {
        return error.code
    }
}
