import Attachments
import Hummingbird
import ServiceKit

/// Every code this service raises, except those of Attachments and Identity.
public enum AttachmentStoreErrorCode: String, Sendable, CaseIterable {
    /// 400: the form is not valid multipart/form-data, is incomplete, or its headers are too large.
    case formMalformed = "ATT-0101"
    /// 400: the form has no file, or more than one.
    case formFileCount = "ATT-0102"
    /// 400: fewer bytes arrived than were announced.
    case uploadIncomplete = "ATT-0103"
    /// 416: the range lies outside the attachment.
    case rangeNotSatisfiable = "ATT-0104"
    /// 412: the attachment has another ETag than the client's `If-Match`.
    case changed = "ATT-0105"
    /// 400: a header field of the tus protocol is missing or malformed.
    case tusFieldInvalid = "ATT-0201"
    /// 412: the request speaks no version of tus that this server knows.
    case tusVersion = "ATT-0202"
    /// 415: a piece of an upload has another content type than the protocol's.
    case tusContentType = "ATT-0203"
    /// 460: a piece of an upload does not have its checksum. None of its bytes counts.
    case checksumMismatch = "ATT-0204"
    /// 507: the database's attachments have as many bytes as they may (`--attachment-quota-bytes`).
    case quotaExceeded = "ATT-0301"
    /// 400: a parameter of an admin request is malformed.
    case requestMalformed = "ATT-0302"
    /// 404: no such database.
    case unknownDatabase = "ATT-0303"
    /// 409: another process is collecting in the database.
    case collectionRunning = "ATT-0304"
    /// 503: the bucket of `--attachment-bucket` does not answer, or its answer broke off. Try again later.
    case bucketUnavailable = "ATT-0401"
    /// 500: the bucket refuses the server's credentials, or they cannot be read.
    case bucketRefused = "ATT-0402"
}

/// The error of this service.
public struct AttachmentStoreError: Error, Sendable, HTTPReportable, CustomStringConvertible {
    /// The stable code.
    public let code: AttachmentStoreErrorCode
    /// For a person.
    public let message: String
    /// Header fields of the answer.
    public let httpHeaders: HTTPFields

    init(_ code: AttachmentStoreErrorCode, _ message: String, headers: HTTPFields = [:]) {
        self.code = code
        self.message = message
        httpHeaders = headers
    }

    /// The status that goes with the code.
    public var httpStatus: HTTPResponse.Status {
        switch code {
        case .rangeNotSatisfiable: .rangeNotSatisfiable
        case .tusVersion, .changed: .preconditionFailed
        case .tusContentType: .unsupportedMediaType
        case .checksumMismatch: HTTPResponse.Status(code: 460, reasonPhrase: "Checksum Mismatch")
        case .quotaExceeded: HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage")
        case .unknownDatabase: .notFound
        case .collectionRunning: .conflict
        case .bucketUnavailable: .serviceUnavailable
        case .bucketRefused: .internalServerError
        case .formMalformed, .formFileCount, .uploadIncomplete, .tusFieldInvalid, .requestMalformed:
            .badRequest
        }
    }
    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message; reasons of a bucket go only into the log.
    public var publicMessage: String {
        switch code {
        case .bucketUnavailable, .bucketRefused: "the server cannot reach its attachments; try again later"
        default: message
        }
    }
    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}

/// An error of the blob store as an answer; disk errors go only into the log.
struct BlobFailure: HTTPReportable {
    let error: AttachmentError

    init(error: AttachmentError) { self.error = error }

    /// Returns a closure's result, or throws its `AttachmentError` as an answer.
    static func from<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as AttachmentError {
            throw BlobFailure(error: error)
        }
    }

    var httpStatus: HTTPResponse.Status {
        switch error.code {
        case .idMalformed, .digestMismatch: .badRequest
        case .notFound, .uploadUnknown: .notFound
        case .collected: .gone
        case .uploadBusy: HTTPResponse.Status(code: 423, reasonPhrase: "Locked")
        case .uploadLimit: .tooManyRequests
        case .uploadOffset: .conflict
        case .tooLarge: .contentTooLarge
        case .rangeInvalid: .rangeNotSatisfiable
        case .storageFull, .nearlyFull: HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage")
        case .storageFailed, .corrupt, .chunksMalformed: .internalServerError
        }
    }

    var publicCode: String { error.code.rawValue }

    var httpHeaders: HTTPFields {
        switch error.code {
        case .uploadBusy: [.retryAfter: "1"]
        case .uploadLimit: [.retryAfter: "60"]
        default: [:]
        }
    }

    var publicMessage: String {
        // A damaged attachment has a message of its own, without a path.
        error.code == .storageFailed ? "the server failed; see its log for the reason" : error.message
    }
}
