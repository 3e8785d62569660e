import CRDT
import GRDB

/// A local write that the server refused for good (rule 20). Its documents show the server's state again;
/// the write is kept here for the application, within `ReplicaLimits.refusedWrites` and `refusedBytes`.
public struct RefusedWrite: Sendable, Equatable {
    /// The commit that made it.
    public let commit: UInt64
    /// The server's code for the reason.
    public let code: String
    /// The server's text for a person.
    public let message: String
    /// The time when the store learned of it, Unix milliseconds.
    public let milliseconds: UInt64
    /// The write as an operation.
    public let operation: Operation

    /// The documents that the write would have changed.
    public var documents: [DocumentKey] {
        operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
    }
}

/// The refusal of a commit, kept longer than the write itself.
public struct RefusedCommit: Sendable, Equatable {
    /// The commit.
    public let commit: UInt64
    /// The server's code.
    public let code: String
    /// A text for a person; empty once the write is deleted.
    public let message: String
}

enum RefusedWrites {
    static func insert(
        _ position: UInt64, _ bytes: [UInt8], code: String, message: String, at milliseconds: UInt64,
        _ database: Database
    ) throws {
        try database.run(
            """
            INSERT OR REPLACE INTO refused (position, code, message, milliseconds, bytes)
            VALUES (?, ?, ?, ?, ?)
            """, position, code, message, milliseconds, bytes)
    }

    /// Forgets the oldest ones beyond the bounds.
    static func trim(_ database: Database) throws {
        let all = try RawStatement(
            fresh: "SELECT position, LENGTH(bytes) FROM refused ORDER BY position DESC", database)
        var count = 0
        var bytes: Int64 = 0
        var doomed: Int64?
        while doomed == nil, try all.step() {
            count += 1
            bytes += all.int(1)
            let isTooMany = count > ReplicaLimits.refusedWrites || bytes > ReplicaLimits.refusedBytes
            if isTooMany, count > 1 { doomed = all.int(0) }
        }
        guard let doomed else { return }
        // Their refusal is still told: a caller that waits for one would take it for acknowledged.
        let memory = try RawStatement(
            cached: """
                INSERT OR REPLACE INTO refused_commit (position, code)
                SELECT position, code FROM refused WHERE position <= ?
                """, database)
        memory.bind(1, doomed)
        try memory.run()
        let removal = try RawStatement(cached: "DELETE FROM refused WHERE position <= ?", database)
        removal.bind(1, doomed)
        try removal.run()
        let oldest = try RawStatement(
            cached: """
                DELETE FROM refused_commit WHERE position <=
                (SELECT position FROM refused_commit ORDER BY position DESC LIMIT 1 OFFSET ?)
                """, database)
        oldest.bind(1, Int64(ReplicaLimits.refusedCommits))
        try oldest.run()
    }
}

extension PeerReplica {
    /// The writes that the server refused, oldest first.
    public func refusedWrites() throws -> [RefusedWrite] { try refusedWrites(from: 0, through: .max) }

    /// The refusal of a commit; nil if it was not refused.
    public func refusal(ofCommit commit: UInt64) throws -> RefusedCommit? {
        guard commit <= UInt64(Int64.max) else { return nil }
        return try refusedCommits(from: commit, limit: 1).first.flatMap { $0.commit == commit ? $0 : nil }
    }

    /// At most `limit` refused commits, ascending from `first` on; also the latest
    /// `ReplicaLimits.refusedCommits` of those whose writes are deleted.
    public func refusedCommits(from first: UInt64 = 0, limit: Int = .max) throws -> [RefusedCommit] {
        guard first <= UInt64(Int64.max) else { return [] }
        return try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    fresh: """
                        SELECT position, code, message FROM refused WHERE position >= ?1
                        UNION ALL SELECT position, code, '' FROM refused_commit WHERE position >= ?1
                        ORDER BY 1 LIMIT ?2
                        """, database, first, Int64(limit))
                var found: [RefusedCommit] = []
                while try statement.step() {
                    found.append(
                        RefusedCommit(
                            commit: statement.bits(0), code: statement.text(1), message: statement.text(2)))
                }
                return found
            }
        }
    }

    /// The latest refused commits, descending.
    public func latestRefusedCommits(_ count: Int) throws -> [UInt64] {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    fresh: """
                        SELECT position FROM refused UNION ALL SELECT position FROM refused_commit
                        ORDER BY 1 DESC LIMIT ?
                        """, database, Int64(count))
                var found: [UInt64] = []
                while try statement.step() { found.append(statement.bits(0)) }
                return found
            }
        }
    }

    private func refusedWrites(from first: Int64, through last: Int64) throws -> [RefusedWrite] {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    fresh: """
                        SELECT position, code, message, milliseconds, bytes FROM refused
                        WHERE position BETWEEN ? AND ? ORDER BY position
                        """, database, first, last)
                var found: [RefusedWrite] = []
                while try statement.step() {
                    found.append(
                        RefusedWrite(
                            commit: statement.bits(0), code: statement.text(1), message: statement.text(2),
                            milliseconds: statement.bits(3),
                            operation: try Operation(decoding: statement.bytes(4))))
                }
                return found
            }
        }
    }
}
