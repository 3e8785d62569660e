import CRDT
import DQL
import GRDB

extension ReadTransaction: SpillingSource {
    /// A sort on disk, beside the store.
    public func makeSpill(_ order: [SortDirection]) throws -> any SortSpill { try SpilledSort(order) }
}

extension WriteTransaction: SpillingSource {
    /// A sort on disk, beside the store.
    public func makeSpill(_ order: [SortDirection]) throws -> any SortSpill { try SpilledSort(order) }
}

/// Rows on disk in a private temporary database, sorted by SQLite: their keys are bytes in the language's
/// order (`KeyWriter`, not cut). The file has no name and vanishes when the database is closed, even after
/// a crash.
final class SpilledSort: SortSpill {
    private let order: [SortDirection]
    private let queue: DatabaseQueue

    init(_ order: [SortDirection]) throws {
        self.order = order
        var configuration = Configuration()
        // One transaction from the first row to the last.
        configuration.allowsUnsafeTransactions = true
        queue = try DatabaseQueue(path: "", configuration: configuration)
        try queue.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;
                    CREATE TABLE row (number INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL);
                    BEGIN
                    """)
        }
    }

    func add(_ keys: [Value?], _ row: Value?) throws {
        var writer = KeyWriter(partBytes: .max / 2)
        for (key, direction) in zip(keys, order) {
            if let nullsFirst = direction.nullsFirst {
                writer.append(.bool((key == nil || key == .some(.null)) != nullsFirst), isDescending: false)
            }
            writer.append(key, isDescending: direction.isDescending)
        }
        try queue.unsafeReentrantWrite { database in
            let statement = try RawStatement(cached: "INSERT INTO row (key, value) VALUES (?, ?)", database)
            statement.bind(1, writer.bytes)
            statement.bind(2, SpilledValue.encode(row))
            try statement.run()
        }
    }

    func forEach(_ visit: (Value?) throws -> Bool) throws {
        try queue.unsafeReentrantWrite { database in
            let statement = try RawStatement(
                cached: "SELECT value FROM row ORDER BY key, number", database)
            while try statement.step() {
                guard try visit(SpilledValue.decode(statement.blob(0))) else { return }
            }
        }
    }
}

/// Encodes a value as bytes without loss: the order of an object's keys, the type of a number. For this
/// process only.
enum SpilledValue {
    static func encode(_ value: Value?) -> [UInt8] {
        var bytes: [UInt8] = []
        if let value { write(value, to: &bytes) }
        return bytes
    }

    static func decode(_ bytes: UnsafeRawBufferPointer) -> Value? {
        var rest = bytes[...]
        return rest.isEmpty ? nil : read(&rest)
    }

    private static func write(_ value: Value, to bytes: inout [UInt8]) {
        func word(_ bits: UInt64) { withUnsafeBytes(of: bits) { bytes.append(contentsOf: $0) } }
        func run(_ run: some Collection<UInt8>) {
            word(UInt64(run.count))
            bytes.append(contentsOf: run)
        }
        switch value {
        case .null: bytes.append(0)
        case .bool(let flag): bytes.append(flag ? 2 : 1)
        case .int(let number):
            bytes.append(3)
            word(UInt64(bitPattern: number))
        case .double(let number):
            bytes.append(4)
            word(number.bitPattern)
        case .string(let text):
            bytes.append(5)
            run(text.utf8)
        case .binary(let data):
            bytes.append(6)
            run(data)
        case .array(let elements):
            bytes.append(7)
            word(UInt64(elements.count))
            for element in elements { write(element, to: &bytes) }
        case .object(let object):
            bytes.append(8)
            word(UInt64(object.count))
            for entry in object.entries {
                run(entry.key.utf8)
                write(entry.value, to: &bytes)
            }
        }
    }

    private static func read(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Value {
        switch rest.removeFirst() {
        case 0: .null
        case 1: .bool(false)
        case 2: .bool(true)
        case 3: .int(Int64(bitPattern: word(&rest)))
        case 4: .double(Double(bitPattern: word(&rest)))
        case 5: .string(String(decoding: run(&rest), as: UTF8.self))
        case 6: .binary([UInt8](run(&rest)))
        case 7: .array((0..<word(&rest)).map { _ in read(&rest) })
        case 8:
            .object(
                ObjectValue(
                    unique: (0..<word(&rest)).map { _ in
                        (key: String(decoding: run(&rest), as: UTF8.self), value: read(&rest))
                    }))
        default: preconditionFailure("this process wrote the value")
        }
    }

    private static func word(_ rest: inout Slice<UnsafeRawBufferPointer>) -> UInt64 {
        defer { rest = rest.dropFirst(8) }
        return UnsafeRawBufferPointer(rebasing: rest).loadUnaligned(as: UInt64.self)
    }

    private static func run(
        _ rest: inout Slice<UnsafeRawBufferPointer>
    ) -> Slice<UnsafeRawBufferPointer> {
        let count = Int(word(&rest))
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
}
