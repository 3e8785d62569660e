import CRDT
import GRDB

// An own operation's row holds its bytes, or refers to what it inserted (decision 0033).
//
// A transaction that inserts many documents would write each of them twice: as the document, and as the
// change that is to be uploaded. Both say the same, and `Insertion.delta(ofState:)` makes the one of the
// other, byte for byte. So the row of such an operation holds its header in `bytes` and its parts in
// `refers`: runs of documents that stand one after the other in a table, and whole changes between them.
//
// Beside them stands a checksum of the states, so that a document that was damaged since is noticed, and no
// other bytes are uploaded.
//
// Invariant: as long as `refers` is not NULL, each document of its runs stands in its row, as the operation's
// commit has left it: with its state, and with that commit as its position. A caller about to change or
// remove a document therefore makes the operation whole first, in the same transaction (`DocumentRows`).

/// A part of an operation that refers to documents.
enum OperationPart: Equatable {
    /// Documents that stand one after the other.
    case run(table: Int64, first: Int64, count: Int64)
    case change(Operation.Change)

    /// `checksum`: of the states of the runs, one after the other.
    static func encode(_ parts: [OperationPart], checksum: UInt64) -> [UInt8] {
        var all: [Value] = [.int(Int64(bitPattern: checksum))]
        for part in parts {
            switch part {
            case .run(let table, let first, let count):
                all.append(.array([.int(table), .int(first), .int(count)]))
            case .change(let change):
                all.append(
                    .array([
                        .string(change.collection.text), .binary(change.id.bytes),
                        .binary(change.delta.bytes),
                    ]))
            }
        }
        return CBOR.encode(.array(all))
    }

    static func decode(_ bytes: [UInt8]) throws -> (parts: [OperationPart], checksum: UInt64) {
        guard case .array(let all)? = try? CBOR.decode(bytes), let checksum = all.first?.intValue else {
            throw StoredOperation.damaged
        }
        let parts = try all.dropFirst().map { part -> OperationPart in
            guard let parts = part.arrayValue, parts.count == 3 else { throw StoredOperation.damaged }
            switch (parts[0], parts[1], parts[2]) {
            case (.int(let table), .int(let first), .int(let count)):
                return .run(table: table, first: first, count: count)
            case (.string(let collection), .binary(let id), .binary(let delta)):
                return .change(
                    Operation.Change(
                        collection: CollectionName(collection), id: DocumentID(trusted: id),
                        delta: EncodedDelta(delta)))
            default: throw StoredOperation.damaged
            }
        }
        return (parts, UInt64(bitPattern: checksum))
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

    /// The operation of a row that has the columns from `place` on.
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
        var found: UInt64 = 0
        let (parts, checksum) = try OperationPart.decode(refers)
        for part in parts {
            switch part {
            case .change(let change): changes.append(change)
            case .run(let table, let first, let count):
                changes += try Self.changes(table, first, count, position, &found, database)
            }
        }
        guard found == checksum else { throw Self.damaged }
        return Operation(
            actor: header.actor, sequence: header.sequence, timestamp: header.timestamp, changes: changes
        ).encoded()
    }

    /// Returns whether all its collections are such, by their names' bytes; reads no document.
    func isWithin(_ database: Database, _ isSuch: (UnsafeRawBufferPointer) -> Bool) throws -> Bool {
        guard let refers else { return bytes.withUnsafeBytes { Operation.isWithin($0, isSuch) } }
        return try OperationPart.decode(refers).parts.allSatisfy { part in
            var name =
                switch part {
                case .change(let change): change.collection.text
                case .run(let table, _, _): try Self.collection(table, database).text
                }
            return name.withUTF8 { isSuch(UnsafeRawBufferPointer($0)) }
        }
    }

    private static func collection(_ number: Int64, _ database: Database) throws -> CollectionName {
        let statement = try RawStatement(
            reused: "SELECT name FROM collection WHERE number = ?", database, number)
        guard try statement.step() else { throw damaged }
        return CollectionName(statement.text(0))
    }

    private static func changes(
        _ table: Int64, _ first: Int64, _ count: Int64, _ position: UInt64, _ checksum: inout UInt64,
        _ database: Database
    ) throws -> [Operation.Change] {
        let collection = try Self.collection(table, database)
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
            checksum = hash64(rows.blob(2), seed: checksum)
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
    /// - Returns: its encoding, if that had to be made.
    static func insert(
        _ written: WrittenOperation, position: UInt64, _ database: Database
    ) throws -> [UInt8]? {
        guard let (parts, checksum) = parts(of: written) else {
            let operation = written.operation
            let bytes = operation.encoded()
            try insert(operation, bytes, position: position, database)
            return bytes
        }
        let header = Operation(
            actor: written.actor, sequence: written.sequence, timestamp: written.timestamp, changes: [])
        try insert(
            header, header.encoded(), refers: OperationPart.encode(parts, checksum: checksum),
            position: position, database)
        return nil
    }

    /// nil where the operation is stored whole.
    private static func parts(
        of written: WrittenOperation
    ) -> (parts: [OperationPart], checksum: UInt64)? {
        var bytes = 0
        for change in written.changes {
            if case .inserted(let document, _?) = change.written { bytes += document.state.count }
        }
        guard bytes >= ReplicaLimits.referredBytes else { return nil }
        var parts: [OperationPart] = []
        var checksum: UInt64 = 0
        for change in written.changes {
            guard case .inserted(let document, let place?) = change.written else {
                parts.append(
                    .change(
                        Operation.Change(
                            collection: change.key.collection, id: change.key.id,
                            delta: WrittenOperation.delta(change.written))))
                continue
            }
            checksum = hash64(document.state.bytes, seed: checksum)
            if case .run(place.table, let first, let count)? = parts.last, first + count == place.number {
                parts[parts.count - 1] = .run(table: place.table, first: first, count: count + 1)
            } else {
                parts.append(.run(table: place.table, first: place.number, count: 1))
            }
        }
        return (parts, checksum)
    }

    /// Returns whether any operation refers to documents.
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
                """, database, id.bytes)
        guard try statement.step() else { return }
        let stored = StoredOperation(statement)
        statement.reset()
        try makeWhole(stored, database)
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
