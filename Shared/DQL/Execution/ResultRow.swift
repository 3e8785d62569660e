import CRDT

/// One row as a statement hands it out: a value, or a whole document in place, which is decoded only on
/// request. Valid only during the visit; `kept` is a copy for later.
public struct ResultRow {
    // Fields and not an enum, whose payload would be copied whenever a row is passed on.
    /// Any row but a document in place.
    private let row: KeptRow?
    /// A document in place, as an undeclared reader sees it: the bytes of its id and its own.
    private let place: UnsafeRawBufferPointer
    private let known: DocumentID?
    private let bytes: UnsafeRawBufferPointer
    /// Keeps documents. It outlives the visit.
    private let keeper: Unmanaged<ExecutionContext>?

    init(_ value: Value) { self.init(KeptRow(value)) }

    init(document: DocumentRecord, _ keeper: ExecutionContext) {
        row = nil
        place = document.place
        known = document.known
        bytes = document.document.bytes
        self.keeper = Unmanaged.passUnretained(keeper)
    }

    /// A row that had to wait for those before it.
    init(_ kept: KeptRow) {
        row = kept
        place = UnsafeRawBufferPointer(start: nil, count: 0)
        known = nil
        bytes = place
        keeper = nil
    }

    /// The row decoded. Throws `unreadableDocument`.
    public var value: Value {
        get throws {
            if let row { return try row.value }
            do {
                return try Self.value(
                    of: DocumentReader(bytes), known ?? DocumentID(trusted: [UInt8](place)))
            } catch let error as CRDTError {
                throw DQLError.unreadable(error)
            }
        }
    }

    /// A copy of the row for later. A document is copied as its encoding, one run of bytes and not a tree.
    public var kept: KeptRow {
        guard let keeper else {
            guard let row else { preconditionFailure("a row is a document or another row") }
            return row
        }
        return keeper._withUnsafeGuaranteedRef { keeper in
            guard let known else { return KeptRow(keeper.keep(place, bytes)) }
            return known.bytes.withUnsafeBytes { KeptRow(keeper.keep($0, bytes)) }
        }
    }

    /// A document with `_id` first.
    static func value(of document: DocumentReader, _ id: DocumentID) throws -> Value {
        do {
            return .object(try document.root.value(after: (key: documentIDField, value: id.value)))
        } catch {
            throw DQLError.unreadable(error)
        }
    }
}

/// A row that outlives the statement: a value, or a document's encoding, decoded on request.
public struct KeptRow: Sendable {
    private enum Content: Sendable {
        case value(Value)
        case document(KeptDocument)
    }

    private let content: Content

    /// A row that is a value.
    public init(_ value: Value) { content = .value(value) }

    /// A row with its own memory, for a row that may be dropped before the others.
    init(_ record: DocumentRecord) {
        content = .document(
            record.withBytes { KeptDocument($0, $1, in: KeptBlock.make($0.count + $1.count), at: 0) })
    }

    init(_ document: KeptDocument) { content = .document(document) }

    /// The row, decoded again at each call. Throws `unreadableDocument`.
    public var value: Value {
        get throws {
            switch content {
            case .value(let value): value
            case .document(let document):
                try document.read { try ResultRow.value(of: $1, DocumentID(trusted: [UInt8]($0))) }
            }
        }
    }

    /// Hands out the bytes of the id and of the document if the row is a whole document as an undeclared
    /// reader sees it, valid during the call; nil for any other row. Equal bytes are equal rows; rows with
    /// different bytes may still read alike (a value was written again).
    public func withDocument<Result>(
        _ body: (_ id: UnsafeRawBufferPointer, _ document: UnsafeRawBufferPointer) -> Result
    ) -> Result? {
        guard case .document(let document) = content else { return nil }
        return document.withBytes(body)
    }

    /// The memory it takes, in bytes, approximately.
    var heldBytes: Int {
        switch content {
        case .value(let value): value.heldBytes
        case .document(let document): document.count + DQLLimits.elementBytes
        }
    }

    /// One field of the row, without decoding the others; nil if it does not exist. Throws
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

/// The bytes of kept rows.
final class KeptBlock: ManagedBuffer<Void, UInt8> {
    static func make(_ bytes: Int) -> KeptBlock {
        // Safe: `create` makes an instance of the class that it is called on.
        unsafeDowncast(create(minimumCapacity: bytes) { _ in }, to: KeptBlock.self)
    }
}

/// The bytes of an id, followed by those of its document. Immutable once made.
///
/// Unchecked Sendable: its part of the block is written once, before it is shared, and it never touches
/// other parts.
struct KeptDocument: @unchecked Sendable {
    private let block: KeptBlock
    private let start: UInt32
    private let idCount: UInt32
    private let allCount: UInt32
    /// The length in bytes.
    var count: Int { Int(allCount) }

    /// Copies a document into a block, which has room for it.
    init(
        _ id: UnsafeRawBufferPointer, _ document: UnsafeRawBufferPointer, in block: KeptBlock, at start: Int
    ) {
        self.block = block
        self.start = UInt32(start)
        idCount = UInt32(id.count)
        allCount = UInt32(id.count + document.count)
        block.withUnsafeMutablePointerToElements { first in
            let place = UnsafeMutableRawPointer(first + start)
            if let from = id.baseAddress { place.copyMemory(from: from, byteCount: id.count) }
            if let from = document.baseAddress {
                (place + id.count).copyMemory(from: from, byteCount: document.count)
            }
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
        try block.withUnsafeMutablePointerToElements { first in
            let bytes = UnsafeRawBufferPointer(start: first + Int(start), count: count)
            return try body(
                UnsafeRawBufferPointer(rebasing: bytes[..<Int(idCount)]),
                UnsafeRawBufferPointer(rebasing: bytes[Int(idCount)...]))
        }
    }
}

extension DQLError {
    /// A document whose bytes cannot be read.
    static func unreadable(_ error: CRDTError) -> DQLError {
        DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
    }
}
