/// Every code this module raises.
public enum AttachmentErrorCode: String, Sendable, CaseIterable {
    /// The id is not 43 characters of base64url.
    case idMalformed = "BLOB-0101"
    /// No blob of this id is stored.
    case notFound = "BLOB-0102"
    /// The blob is larger than the store accepts.
    case tooLarge = "BLOB-0103"
    /// The digest of the received bytes is not the announced id.
    case digestMismatch = "BLOB-0104"
    /// The requested range lies outside the blob.
    case rangeInvalid = "BLOB-0105"
    /// No unfinished upload has this name, or it is another credential's, or its time is over.
    case uploadUnknown = "BLOB-0106"
    /// Another request is writing to the upload. Try again shortly.
    case uploadBusy = "BLOB-0107"
    /// The credential has too many unfinished uploads, or too many bytes in them. Finish or delete some.
    case uploadLimit = "BLOB-0108"
    /// The bytes do not begin where the upload ends.
    case uploadOffset = "BLOB-0109"
    /// The attachment was removed, because no document had mentioned it for a long time.
    case collected = "BLOB-0110"
    /// A list of chunk hashes does not fit its attachment.
    case chunksMalformed = "BLOB-0111"
    /// The folder cannot be created, read or written.
    case storageFailed = "BLOB-0201"
    /// A stored file no longer has the digest that is its name. It was set aside, in the folder `damaged`;
    /// storing the right bytes again replaces it.
    case corrupt = "BLOB-0202"
    /// The disk is full. Nothing was stored; stored blobs can still be read.
    case storageFull = "BLOB-0203"
    /// The disk is nearly full, and what is left is for those who make room. Nothing was stored; stored blobs
    /// can still be read.
    case nearlyFull = "BLOB-0204"
}

/// An error of this module.
public struct AttachmentError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code.
    public let code: AttachmentErrorCode
    /// A message for a person.
    public let message: String

    /// An error of the given parts.
    public init(_ code: AttachmentErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// No blob has this id. The message says nothing else.
    public static let unknown = AttachmentError(.notFound, "no attachment has this id")

    /// The answer to an upload while the disk is nearly full.
    public static let nearlyFull = AttachmentError(
        .nearlyFull, "the server's disk is nearly full; nothing was stored")

    /// A blob that was collected.
    public static let gone = AttachmentError(
        .collected, "the attachment was removed: no document has mentioned it for a long time")

    /// No unfinished upload of the asking credential has this name.
    public static let unknownUpload = AttachmentError(
        .uploadUnknown, "there is no such upload; it was finished long ago, deleted, or its time is over")

    /// Somebody else is writing the upload.
    public static let busyUpload = AttachmentError(
        .uploadBusy, "another request is writing to this upload; try again shortly")

    /// The owner has too much under way.
    public static let tooManyUploads = AttachmentError(
        .uploadLimit, "too many uploads are unfinished; finish or delete some, or wait until they expire")

    /// A blob over the limit.
    public static func tooLarge(_ maximumBytes: Int64) -> AttachmentError {
        AttachmentError(.tooLarge, "an attachment may have at most \(maximumBytes) bytes")
    }

    /// A blob that was set aside.
    public static func damaged(_ id: BlobID) -> AttachmentError {
        AttachmentError(
            .corrupt, "the attachment \(id) is damaged here and was set aside; store it again to replace it")
    }

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}
