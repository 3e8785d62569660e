import Attachments
import CRDT
import DQL
import Replica

/// The error families of the API we are compatible with. This file holds the one table from our stable codes
/// to the families, and from the families to the Swift cases.
package enum OriginalCode: String, Sendable, CaseIterable {
    case authenticationFailed = "authentication/failed-to-authenticate"
    case expirationHandlerMissing = "authentication/expiration-handler-missing"
    case ioAlreadyExists = "io/already-exists"
    case ioNotFound = "io/not-found"
    case ioPermissionDenied = "io/permission-denied"
    case ioOperationFailed = "io/operation-failed"
    case queryInvalid = "query/invalid"
    case queryArgumentsInvalid = "query/arguments-invalid"
    case queryExecution = "query/execution"
    case queryUnsupported = "query/unsupported"
    case attachmentFileNotFound = "store/attachment-file-not-found"
    case attachmentFilePermissionDenied = "store/attachment-file-permission-denied"
    case attachmentNotFound = "store/attachment-not-found"
    case attachmentTokenInvalid = "store/attachment-token-invalid"
    case attachmentNotCreated = "store/failed-to-create-attachment"
    case attachmentNotFetched = "store/failed-to-fetch-attachment"
    case storeBackend = "store/backend"
    case storeCRDT = "store/crdt"
    case storeDocumentID = "store/document-id"
    case storeTransactionReadOnly = "store/transaction-read-only"
    case storeDirectoryLocked = "store/persistence-directory-locked"
    case validationSizeLimit = "validation/size-limit-exceeded"
    case validationDepthLimit = "validation/depth-limit-exceeded"
    case validationConfig = "validation/invalid-ditto-config"
    case validationNotADictionary = "validation/not-a-dictionary"
    case validationNotJSONCompatible = "validation/not-json-compatible"
    case validationInvalidJSON = "validation/invalid-json"
    case validationInvalidCBOR = "validation/invalid-cbor"
    case unsupported = "unsupported"
    case unknown = "unknown"

    init(_ code: SDKErrorCode) {
        self =
            switch code {
            case .databaseIDInvalid, .serverURLInvalid, .privateKeyInvalid, .persistenceDirectoryInvalid,
                .configurationUndecodable:
                .validationConfig
            case .configurationNoCBOR: .validationInvalidCBOR
            case .configurationNoJSON, .metadataInvalidJSON: .validationInvalidJSON
            case .metadataNotJSON: .validationNotJSONCompatible
            case .metadataTooDeep: .validationDepthLimit
            case .metadataTooLarge: .validationSizeLimit
            case .metadataNotADictionary: .validationNotADictionary
            case .exportFileExists: .ioAlreadyExists
            case .exportFolderMissing: .ioNotFound
            case .exportForbidden: .ioPermissionDenied
            case .exportFailed: .ioOperationFailed
            case .attachmentFileMissing: .attachmentFileNotFound
            case .attachmentFileForbidden: .attachmentFilePermissionDenied
            case .attachmentFileUnusable, .attachmentFileChanged: .attachmentNotCreated
            case .attachmentTokenInvalid: .attachmentTokenInvalid
            case .attachmentCopyExists: .ioAlreadyExists
            case .attachmentCopyFolderMissing: .ioNotFound
            case .attachmentCopyForbidden: .ioPermissionDenied
            case .attachmentCopyFailed: .ioOperationFailed
            case .argumentTypeInvalid, .argumentOutOfRange, .argumentTooDeep: .queryArgumentsInvalid
            case .itemUndecodable: .queryExecution
            case .notObservable, .windowedSubscriptionUnsupported, .transactionNested,
                .statementNotTransactional, .placeNotWritable:
                .queryUnsupported
            case .collectionNameInvalid: .queryInvalid
            case .transactionReadOnly: .storeTransactionReadOnly
            case .expirationHandlerMissing: .expirationHandlerMissing
            case .loginRefused, .serverUnreachable, .loginAnswerMalformed, .serverSpeaksPlainHTTP:
                .authenticationFailed
            case .identityUnsupported: .unsupported
            case .identityFileUnusable, .parametersFileUnusable: .ioOperationFailed
            case .closed, .transactionEnded, .transactionTimeout, .updateEnded: .storeBackend
            case .unexpected: .unknown
            }
    }

    init(_ code: DQLErrorCode) {
        self =
            switch code {
            case .unsupportedClause, .unsupportedType, .unsupportedSubscription:
                .queryUnsupported
            case .missingArgument, .invalidArgument: .queryArgumentsInvalid
            case .idConflict, .duplicateIDs, .invalidDocument, .unstorableValue, .cancelled, .timeout,
                .tooManyRows, .invalidAmount, .collectionNotOffered, .indexExists, .unknownIndex,
                .tooManyIndexes,
                .severalRows:
                .queryExecution
            case .systemStatement, .indexStatement, .joinWithoutIndex: .queryUnsupported
            case .invalidDocumentID: .storeDocumentID
            case .readOnly: .storeTransactionReadOnly
            case .unreadableDocument: .storeBackend
            default: .queryInvalid
            }
    }

    init(_ code: ReplicaErrorCode) {
        self =
            switch code {
            case .directoryLocked: .storeDirectoryLocked
            case .directoryUnusable: .validationConfig
            case .documentTooLarge, .transactionTooLarge: .validationSizeLimit
            case .invalidCollection: .queryInvalid
            default: .storeBackend
            }
    }

    init(_ code: CRDTErrorCode) {
        self =
            switch code {
            case .floatInDocumentID, .nullDocumentID, .invalidDocumentID: .storeDocumentID
            case .tooDeep: .validationDepthLimit
            default: .storeCRDT
            }
    }

    init(_ code: AttachmentErrorCode) {
        self =
            switch code {
            case .idMalformed: .attachmentTokenInvalid
            case .notFound, .collected: .attachmentNotFound
            case .tooLarge, .storageFailed, .storageFull, .nearlyFull, .uploadUnknown, .uploadBusy,
                .uploadLimit, .uploadOffset:
                .attachmentNotCreated
            case .digestMismatch, .rangeInvalid, .chunksMalformed, .corrupt: .attachmentNotFetched
            }
    }

    /// The Swift case of the family.
    func error(_ message: String) -> DittoSwiftError {
        switch self {
        case .authenticationFailed:
            .authenticationError(reason: .failedToAuthenticate(message: message))
        case .expirationHandlerMissing:
            .authenticationError(reason: .expirationHandlerMissing(message: message))
        case .ioAlreadyExists: .ioError(reason: .alreadyExists(message: message))
        case .ioNotFound: .ioError(reason: .notFound(message: message))
        case .ioPermissionDenied: .ioError(reason: .permissionDenied(message: message))
        case .ioOperationFailed: .ioError(reason: .operationFailed(message: message))
        case .queryInvalid: .storeError(reason: .queryInvalid(message: message))
        case .queryArgumentsInvalid: .storeError(reason: .queryArgumentsInvalid(message: message))
        case .queryExecution: .storeError(reason: .queryError(message: message))
        case .queryUnsupported: .storeError(reason: .queryNotSupported(message: message))
        case .attachmentFileNotFound: .storeError(reason: .attachmentFileNotFound(message: message))
        case .attachmentFilePermissionDenied:
            .storeError(reason: .attachmentFilePermissionDenied(message: message))
        case .attachmentNotFound: .storeError(reason: .attachmentNotFound(message: message))
        case .attachmentTokenInvalid: .storeError(reason: .attachmentTokenInvalid(message: message))
        case .attachmentNotCreated: .storeError(reason: .failedToCreateAttachment(message: message))
        case .attachmentNotFetched: .storeError(reason: .failedToFetchAttachment(message: message))
        case .storeBackend: .storeError(reason: .backendError(message: message))
        case .storeCRDT: .storeError(reason: .crdtError(message: message))
        case .storeDocumentID: .storeError(reason: .documentIDInvalid(message: message))
        case .storeTransactionReadOnly: .storeError(reason: .transactionReadOnly(message: message))
        case .storeDirectoryLocked: .storeError(reason: .persistenceDirectoryLocked(message: message))
        case .validationSizeLimit: .validationError(reason: .sizeLimitExceeded(message: message))
        case .validationDepthLimit: .validationError(reason: .depthLimitExceeded(message: message))
        case .validationConfig: .validationError(reason: .invalidDittoConfig(message: message))
        case .validationNotADictionary: .validationError(reason: .notADictionary(message: message))
        case .validationNotJSONCompatible: .validationError(reason: .notJSONCompatible(message: message))
        case .validationInvalidJSON: .validationError(reason: .invalidJSON(message: message))
        case .validationInvalidCBOR: .validationError(reason: .invalidCBOR(message: message))
        case .unsupported: .unsupportedError(message: message)
        case .unknown: .unknownError(message: message)
        }
    }
}

/// An error in parts. The command line prints them; the public error's message is composed of them.
package struct Failure: Error, Sendable, Equatable {
    /// Our stable code, or a server's.
    package let code: String
    /// A message for a person.
    package let message: String
    /// The place in the statement, if the error is about one.
    package let position: SourcePosition?
    /// The family of the API we are compatible with.
    package let original: OriginalCode

    /// Takes the parts of any error.
    package init(_ error: any Error) {
        switch error {
        case let error as Failure: self = error
        case let error as DQLError:
            self.init(
                error.code.rawValue, Self.text(error.message, suggestion: error.suggestion),
                OriginalCode(error.code), error.position)
        case let error as ReplicaError:
            self.init(error.code.rawValue, error.message, OriginalCode(error.code))
        case let error as CRDTError:
            self.init(error.code.rawValue, error.message, OriginalCode(error.code))
        case let error as AttachmentError:
            self.init(error.code.rawValue, error.message, OriginalCode(error.code))
        case let error as SDKError: self.init(error.code, error.message, error.original, error.position)
        default: self.init(SDKErrorCode.unexpected.rawValue, "\(error)", .unknown)
        }
    }

    /// An attachment that is here and cannot be read: a broken disk, a file without rights.
    package init(reading error: AttachmentError) {
        let isOfDisk = [.storageFailed, .storageFull, .nearlyFull].contains(error.code)
        let original = isOfDisk ? OriginalCode.attachmentNotFetched : OriginalCode(error.code)
        self.init(error.code.rawValue, error.message, original)
    }

    /// A refusal by the server.
    init(remote code: String, _ message: String) { self.init(code, message, .unknown) }

    private init(
        _ code: String, _ message: String, _ original: OriginalCode, _ position: SourcePosition? = nil
    ) {
        self.code = code
        self.message = message
        self.original = original
        self.position = position
    }

    /// A message with its suggestion, whichever module raised it.
    package static func text(_ message: String, suggestion: String?) -> String {
        DQLError.text(message, suggestion: suggestion)
    }

    /// The public error.
    var publicError: DittoSwiftError {
        let place = position.map { " at \($0.line):\($0.column)" } ?? ""
        return original.error("\(code)\(place): \(message)")
    }
}

extension DittoSwiftError {
    /// The public error for any error of the modules below. A public error and a cancellation stay as they
    /// are.
    static func translated(_ error: any Error) -> any Error {
        switch error {
        case is DittoSwiftError, is CancellationError: error
        default: Failure(error).publicError
        }
    }
}
