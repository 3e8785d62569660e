/// Every code this module raises; the raw value is stable and published.
public enum CRDTErrorCode: String, Sendable, CaseIterable {
    /// The bytes end before the thing they announce.
    case truncated = "CRDT-0101"
    /// The bytes are not the canonical encoding of anything.
    case malformed = "CRDT-0102"
    /// The first byte names a format version that this build does not know.
    case unsupportedVersion = "CRDT-0103"
    /// Values or maps are nested deeper than `Limits.nestingDepth`.
    case tooDeep = "CRDT-0104"
    /// A text is not valid UTF-8.
    case invalidUTF8 = "CRDT-0105"
    /// The text is not JSON (RFC 8259); the message names line and column.
    case invalidJSON = "CRDT-0201"
    /// The bytes are not a CBOR item (RFC 8949) of a kind that values have.
    case invalidCBOR = "CRDT-0202"
    /// A text or item has more members and elements than its reader allows.
    case tooManyValues = "CRDT-0203"
    /// The reader of a text or item has stopped: its time is over, or its client is gone.
    case interrupted = "CRDT-0204"
    /// A document id holds a float.
    case floatInDocumentID = "CRDT-0301"
    /// A document id is or holds null.
    case nullDocumentID = "CRDT-0302"
    /// A document id is of a type that ids cannot have, or too long.
    case invalidDocumentID = "CRDT-0303"
    /// A value does not fit the kind that it is declared or used as.
    case unsupportedKind = "CRDT-0401"
    /// A path steps through a field declared as REGISTER, or is empty.
    case invalidPath = "CRDT-0402"
}

/// An error about a value, an encoding or a change. For bad input only: broken internal state is a
/// precondition.
public struct CRDTError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The stable code.
    public let code: CRDTErrorCode
    /// A message for a person. It holds no document content except a field's name.
    public let message: String

    /// An error of this code.
    public init(_ code: CRDTErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// `CRDT-0101: message`.
    public var description: String { "\(code.rawValue): \(message)" }
}
