/// A document's id in its one canonical form: deterministic CBOR (RFC 8949 section 4.2) of a string,
/// integer, boolean, binary, array or object without floats and nulls. Ids are equal when their bytes are,
/// and sort by their bytes.
public struct DocumentID: Hashable, Sendable {
    /// The canonical bytes: the key in every store and on the wire.
    public let bytes: [UInt8]

    /// The canonical id of a value. Throws `floatInDocumentID`, `nullDocumentID`,
    /// `invalidDocumentID` or `tooDeep`.
    public init(_ value: Value) throws(CRDTError) {
        try DocumentID.check(value, depth: 0)
        bytes = CBOR.encode(value)
        guard bytes.count <= Limits.documentIDBytes else {
            throw CRDTError(
                .invalidDocumentID, "a document id may have \(Limits.documentIDBytes) bytes at most")
        }
    }

    /// An id from bytes that must be canonical already (a frame, a stored operation). Throws
    /// `invalidDocumentID` when they are not, and the errors of `init(_:)`.
    public init(canonical bytes: [UInt8]) throws(CRDTError) {
        guard !DocumentID.isPlain(bytes) else {
            self.bytes = bytes
            return
        }
        let id = try DocumentID(try CBOR.decode(bytes))
        guard id.bytes == bytes else {
            throw CRDTError(.invalidDocumentID, "a document id is not in canonical form")
        }
        self = id
    }

    /// An id from bytes that this process checked before it stored them.
    public init(trusted bytes: [UInt8]) { self.bytes = bytes }

    /// The id as a value. Null, which is no id, where a file with damaged bytes was read: whoever asks for
    /// the document by it, or writes it, gets `nullDocumentID`, and all other documents are read.
    public var value: Value { (try? CBOR.decode(bytes)) ?? .null }

    /// True if the bytes are a canonical id of one of the two commonest forms, an ASCII string or a small
    /// number. Reads the bytes in place, without decoding. Other bytes may still be a canonical id.
    static func isPlain(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { raw in
            guard let first = raw.first else { return false }
            switch first {
            case 0x00...0x17, 0x20...0x37: return raw.count == 1
            case 0x60...0x77: return raw.count == 1 + Int(first & 0x1F) && isASCII(raw)
            case 0x78:
                guard raw.count > 2, raw[1] >= 24, raw.count == 2 + Int(raw[1]) else { return false }
                return isASCII(UnsafeRawBufferPointer(rebasing: raw[2...]))
            default: return false
            }
        }
    }

    private static func check(_ value: Value, depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        switch value {
        case .double: throw CRDTError(.floatInDocumentID, "Floats are not supported in document IDs")
        case .null: throw CRDTError(.nullDocumentID, "Null document ID not allowed")
        case .array(let elements): for element in elements { try check(element, depth: depth + 1) }
        case .object(let object):
            for entry in object.entries { try check(entry.value, depth: depth + 1) }
        case .bool, .int, .string, .binary: break
        }
    }
}

extension DocumentID {
    /// Hashes all bytes in one call; the synthesized version would feed them one by one.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension DocumentID: Comparable {
    /// Order of the canonical bytes.
    public static func < (left: DocumentID, right: DocumentID) -> Bool {
        compareBytes(left.bytes, right.bytes) < 0
    }
}

extension DocumentID: CustomStringConvertible {
    /// A string id as it is, any other as JSON.
    public var description: String {
        let value = value
        return value.stringValue ?? JSONText.print(value, sortedKeys: true)
    }
}
