import CRDT
import GRDB

// An own operation's row holds its bytes, or refers to what it inserted (decision 0030).
//
// A transaction that inserts many documents would write each of them twice: as the document, and as the
// change that is to be uploaded. Both say the same, and `Insertion.delta(ofState:)` makes the one of the
// other, byte for byte. So the row of such an operation holds its header in `bytes` and its parts in
// `refers`: runs of documents that stand one after the other in a table, and whole changes between them.
//
// Invariant: as long as `refers` is not NULL, each document of its runs stands in its row, as the operation's
// commit has left it: with its state, and with that commit as its position. Whoever is about to change or
// remove a document therefore makes the operation whole first, in the same transaction (`DocumentRows`).

/// A part of an operation that refers to documents.
enum OperationPart: Equatable {
    /// Documents that stand one after the other.
    case run(table: Int64, first: Int64, count: Int64)
    case change(Operation.Change)

    static func encode(_ parts: [OperationPart]) -> [UInt8] {
        CBOR.encode(
            .array(
                parts.map { part in
                    switch part {
                    case .run(let table, let first, let count):
                        .array([.int(table), .int(first), .int(count)])
                    case .change(let change):
                        .array([.string(change.collection), .binary(change.id.bytes), .binary(change.delta)])
                    }
                }))
    }

    static func decode(_ bytes: [UInt8]) throws -> [OperationPart] {
        guard case .array(let parts)? = try? CBOR.decode(bytes) else { throw StoredOperation.damaged }
        return try parts.map { part in
            guard let parts = part.arrayValue, parts.count == 3 else { throw StoredOperation.damaged }
            switch (parts[0], parts[1], parts[2]) {
            case (.int(let table), .int(let first), .int(let count)):
                return .run(table: table, first: first, count: count)
            case (.string(let collection), .binary(let id), .binary(let delta)):
                return .change(
                    Operation.Change(
                        collection: collection, id: DocumentID(trusted: id), delta: delta))
            default: throw StoredOperation.damaged
            }
        }
    }
}

/// An own operation as its row has it.
struct StoredOperation {
    /// Its commit.
    let position: UInt64
    /// Its encoding, or no more than the header's.
    let bytes: [UInt8]
    /// Encoded parts; nil where `bytes` are all.
    let refers: [UInt8]?

    static let damaged = ReplicaError(.damaged, "an own operation cannot be read")

    /// The columns that `init(_:from:)` reads.
    static let columns = "position, bytes, refers"

    /// Of a row that has the columns from `place` on.
    init(_ row: borrowing RawStatement, from place: Int32 = 0) {
        position = row.bits(place)
        bytes = row.bytes(place + 1)
        refers = row.isNull(place + 2) ? nil : row.bytes(place + 2)
    }

    /// The encoding.
    func whole(_ database: Database) throws -> [UInt8] {
        guard let refers else { return bytes }
        let header = try OperationHeader.peek(bytes)
        var changes: [Operation.Change] = []
        for part in try OperationPart.decode(refers) {
            switch part {
            case .change(let change): changes.append(change)
            case .run(let table, let first, let count):
                changes += try Self.changes(table, first, count, position, database)
            }
        }
        return Operation(
            actor: header.actor, sequence: header.sequence, timestamp: header.timestamp, changes: changes
        ).encoded()
    }

    private static func changes(
        _ table: Int64, _ first: Int64, _ count: Int64, _ position: UInt64, _ database: Database
    ) throws -> [Operation.Change] {
        let name = try RawStatement(reused: "SELECT name FROM collection WHERE number = ?", database)
        name.bind(1, table)
        guard try name.step() else { throw damaged }
        let collection = name.text(0)
        let rows = try RawStatement(
            reused: """
                SELECT id, position, state FROM documents_\(table) WHERE number >= ?1 AND number < ?1 + ?2
                ORDER BY number
                """, database)
        rows.bind(1, first)
        rows.bind(2, count)
        var changes: [Operation.Change] = []
        while try rows.step() {
            guard rows.bits(1) == position, let made = Insertion.delta(ofState: rows.blob(2)) else {
                throw damaged
            }
            changes.append(
                Operation.Change(
                    collection: collection, id: DocumentID(trusted: rows.bytes(0)), delta: made.delta))
        }
        guard changes.count == count else { throw damaged }
        return changes
    }
}

extension OwnOperations {
    /// Stores what a transaction has become: by reference where that saves writing much twice.
    static func insert(_ written: WrittenOperation, position: UInt64, _ database: Database) throws {
        guard let parts = parts(of: written) else {
            let operation = written.operation
            return try insert(operation, operation.encoded(), position: position, database)
        }
        let header = Operation(
            actor: written.actor, sequence: written.sequence, timestamp: written.timestamp, changes: [])
        try insert(
            header, header.encoded(), refers: OperationPart.encode(parts), position: position, database)
    }

    /// nil where the operation is stored whole.
    private static func parts(of written: WrittenOperation) -> [OperationPart]? {
        var bytes = 0
        for change in written.changes {
            if case .inserted(let document, _?) = change.written { bytes += document.state.count }
        }
        guard bytes >= ReplicaLimits.referredBytes else { return nil }
        var parts: [OperationPart] = []
        for change in written.changes {
            guard case .inserted(_, let place?) = change.written else {
                parts.append(
                    .change(
                        Operation.Change(
                            collection: change.key.collection, id: change.key.id,
                            delta: WrittenOperation.delta(change.written))))
                continue
            }
            if case .run(place.table, let first, let count)? = parts.last, first + count == place.number {
                parts[parts.count - 1] = .run(table: place.table, first: first, count: count + 1)
            } else {
                parts.append(.run(table: place.table, first: place.number, count: 1))
            }
        }
        return parts
    }

    /// Whether any operation refers to documents.
    static func anyRefers(_ database: Database) throws -> Bool {
        try RawStatement(cached: "SELECT 1 FROM operation WHERE refers IS NOT NULL LIMIT 1", database)
            .hasRow()
    }

    /// Makes an operation whole that refers to a document: before that changes.
    static func makeWhole(referringTo id: DocumentID, in table: DocumentTable, _ database: Database) throws {
        let statement = try RawStatement(
            cached: """
                SELECT \(StoredOperation.columns) FROM operation WHERE refers IS NOT NULL AND position =
                    (SELECT position FROM documents_\(table) WHERE id = ?)
                """, database)
        statement.bind(1, id.bytes)
        guard try statement.step() else { return }
        let stored = StoredOperation(statement)
        statement.reset()
        try makeWhole(stored, database)
    }

    /// Makes all operations whole: before much is about to change.
    static func makeAllWhole(_ database: Database) throws {
        while true {
            let statement = try RawStatement(
                cached: "SELECT \(StoredOperation.columns) FROM operation WHERE refers IS NOT NULL LIMIT 1",
                database)
            guard try statement.step() else { return }
            let stored = StoredOperation(statement)
            statement.reset()
            try makeWhole(stored, database)
        }
    }

    private static func makeWhole(_ stored: StoredOperation, _ database: Database) throws {
        let bytes = try stored.whole(database)
        let update = try RawStatement(
            cached: "UPDATE operation SET bytes = ?, refers = NULL WHERE position = ?", database)
        update.bind(1, bytes)
        update.bind(2, bits: stored.position)
        try update.run()
    }
}
