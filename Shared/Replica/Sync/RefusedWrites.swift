import CRDT
import GRDB

/// A local write that the server refused for good (rule 20). Its documents show the server's state again;
/// what it wanted to write is kept here for the application, as long as `ReplicaLimits.refusedWrites` and
/// `refusedBytes` allow.
public struct RefusedWrite: Sendable, Equatable {
    /// The commit that made it.
    public let commit: UInt64
    /// Why: the server's code and words.
    public let code: String
    /// For a person.
    public let message: String
    /// When the store learned of it, Unix milliseconds.
    public let milliseconds: UInt64
    /// What it wanted to change.
    public let operation: Operation

    /// The documents it wanted to change.
    public var documents: [DocumentKey] {
        operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
    }
}

enum RefusedWrites {
    static func insert(
        _ position: UInt64, _ bytes: [UInt8], code: String, message: String, at milliseconds: UInt64,
        _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: """
                INSERT OR REPLACE INTO refused (position, code, message, milliseconds, bytes)
                VALUES (?, ?, ?, ?, ?)
                """, database)
        statement.bind(1, bits: position)
        statement.bind(2, code)
        statement.bind(3, message)
        statement.bind(4, bits: milliseconds)
        statement.bind(5, bytes)
        try statement.run()
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
        let removal = try RawStatement(cached: "DELETE FROM refused WHERE position <= ?", database)
        removal.bind(1, doomed)
        try removal.run()
    }
}

extension Replica {
    /// The writes that the server refused, oldest first.
    public func refusedWrites() throws -> [RefusedWrite] { try refusedWrites(from: 0, through: .max) }

    /// Why a commit was refused; nil when it was not, or is forgotten.
    public func refusal(ofCommit commit: UInt64) throws -> RefusedWrite? {
        guard commit <= UInt64(Int64.max) else { return nil }
        return try refusedWrites(from: Int64(commit), through: Int64(commit)).first
    }

    private func refusedWrites(from first: Int64, through last: Int64) throws -> [RefusedWrite] {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    fresh: """
                        SELECT position, code, message, milliseconds, bytes FROM refused
                        WHERE position BETWEEN ? AND ? ORDER BY position
                        """, database)
                statement.bind(1, first)
                statement.bind(2, last)
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
