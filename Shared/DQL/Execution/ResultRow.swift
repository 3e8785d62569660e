import CRDT

/// One row as a statement hands it out: a value, or a whole document in place, of which nothing is decoded
/// until somebody asks. Valid only during the visit; `kept` is a copy for later.
public struct ResultRow {
    private enum Content {
        case value(Value)
        /// As an undeclared reader sees it.
        case document(DocumentRecord)
        /// One that had to wait for those that come before it.
        case kept(KeptRow)
    }

    private let content: Content

    init(_ value: Value) { content = .value(value) }

    init(document: DocumentRecord) { content = .document(document) }

    init(_ kept: KeptRow) { content = .kept(kept) }

    /// The row decoded. Throws `unreadableDocument`.
    public var value: Value {
        get throws {
            switch content {
            case .value(let value): return value
            case .document(let record): return try Self.value(of: record.document, record.id)
            case .kept(let row): return try row.value
            }
        }
    }

    /// The row to keep: of a document a copy of its encoding, which is one run of bytes and not a tree.
    public var kept: KeptRow {
        switch content {
        case .value(let value): KeptRow(value)
        case .document(let record): KeptRow(record)
        case .kept(let row): row
        }
    }

    /// A document with `_id` first.
    static func value(of document: DocumentReader, _ id: DocumentID) throws -> Value {
        do {
            let fields = try document.root.value()
            var entries: [ObjectValue.Entry] = []
            entries.reserveCapacity(fields.count + 1)
            entries.append((key: documentIDField, value: id.value))
            for entry in fields.entries where !utf8Equal(entry.key, documentIDField) { entries.append(entry) }
            return .object(ObjectValue(unique: entries))
        } catch let error as CRDTError {
            throw DQLError.unreadable(error)
        }
    }
}

/// A row that outlives the statement: a value, or a document's encoding, decoded when it is asked for.
public struct KeptRow: Sendable {
    // Unchecked: `KeptDocument` is written once, before anybody else has it.
    private enum Content: @unchecked Sendable {
        case value(Value)
        case document(KeptDocument)
    }

    private let content: Content

    /// A row that is a value.
    public init(_ value: Value) { content = .value(value) }

    init(_ record: DocumentRecord) { content = .document(KeptDocument.copy(of: record)) }

    /// The row decoded; made anew at each call. Throws `unreadableDocument`.
    public var value: Value {
        get throws {
            switch content {
            case .value(let value): value
            case .document(let document):
                try document.read { try ResultRow.value(of: $1, DocumentID(trusted: [UInt8]($0))) }
            }
        }
    }

    /// Hands out the bytes of the id and of the document where the row is a whole document as an undeclared
    /// reader sees it, valid during the call; nil for any other row. Equal bytes are equal rows; rows with
    /// other bytes may still read alike (a value was written again).
    public func withDocument<Result>(
        _ body: (_ id: UnsafeRawBufferPointer, _ document: UnsafeRawBufferPointer) -> Result
    ) -> Result? {
        guard case .document(let document) = content else { return nil }
        return document.withBytes(body)
    }

    /// About how many bytes of memory it takes.
    var heldBytes: Int {
        switch content {
        case .value(let value): value.heldBytes
        case .document(let document): document.header.count + DQLLimits.elementBytes
        }
    }

    /// One field of the row, without decoding the others; nil when there is none. Throws
    /// `unreadableDocument`.
    public func field(_ name: String) throws -> Value? {
        switch content {
        case .value(let value): value[name]
        case .document(let document):
            try document.read { id, reader in
                if utf8Equal(name, documentIDField) { return DocumentID(trusted: [UInt8](id)).value }
                return try reader.root.field(name)?.value()
            }
        }
    }
}

/// The bytes of an id and of a document behind it, in one allocation. Never changed once it is made.
private final class KeptDocument: ManagedBuffer<(id: Int, count: Int), UInt8> {
    static func copy(of record: DocumentRecord) -> KeptDocument {
        record.withBytes { id, document in
            let sizes = (id: id.count, count: id.count + document.count)
            let made = create(minimumCapacity: sizes.count) { _ in sizes }
            made.withUnsafeMutablePointerToElements { start in
                let bytes = UnsafeMutableRawBufferPointer(start: start, count: sizes.count)
                bytes.copyMemory(from: id)
                UnsafeMutableRawBufferPointer(rebasing: bytes[sizes.id...]).copyMemory(from: document)
            }
            // Safe: `create` makes one of the class that it is asked of.
            return unsafeDowncast(made, to: KeptDocument.self)
        }
    }

    func read<Result>(_ body: (UnsafeRawBufferPointer, DocumentReader) throws -> Result) throws -> Result {
        try withBytes { id, document in
            do {
                return try body(id, DocumentReader(document))
            } catch let error as CRDTError {
                throw DQLError.unreadable(error)
            }
        }
    }

    func withBytes<Result>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result {
        try withUnsafeMutablePointers { sizes, start in
            let bytes = UnsafeRawBufferPointer(start: start, count: sizes.pointee.count)
            return try body(
                UnsafeRawBufferPointer(rebasing: bytes[..<sizes.pointee.id]),
                UnsafeRawBufferPointer(rebasing: bytes[sizes.pointee.id...]))
        }
    }
}

extension DQLError {
    /// A document whose bytes cannot be read.
    static func unreadable(_ error: CRDTError) -> DQLError {
        DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
    }
}
