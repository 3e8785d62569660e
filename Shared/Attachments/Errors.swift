/// Every code this module raises.
public enum AttachmentErrorCode: String, Sendable, CaseIterable {
    /// The id is not 43 characters of base64url.
    case idMalformed = "BLOB-0101"
    /// No blob of this id is stored.
    case notFound = "BLOB-0102"
    /// The blob is larger than the store accepts.
    case tooLarge = "BLOB-0103"
    /// The bytes that arrived are not those the sender announced.
    case digestMismatch = "BLOB-0104"
    /// The asked range lies outside the blob.
    case rangeInvalid = "BLOB-0105"
    /// The folder cannot be made, read or written.
    case storageFailed = "BLOB-0201"
    /// A stored file no longer has the digest it is named after.
    case corrupt = "BLOB-0202"
    /// The disk is full. Nothing was stored; what is stored can be read.
    case storageFull = "BLOB-0203"
}

/// What this module throws.
public struct AttachmentError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code.
    public let code: AttachmentErrorCode
    /// For a person.
    public let message: String

    /// An error of the given parts.
    public init(_ code: AttachmentErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// There is no blob of an id: nothing else is said of it.
    public static let unknown = AttachmentError(.notFound, "no attachment has this id")

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}
