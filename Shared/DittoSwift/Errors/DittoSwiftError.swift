import Foundation

/// An error of the SDK. The message of a case begins with a stable code (`DQL-0105: …`, `STORE-0101: …`,
/// `SDK-0301: …`); `OriginalCode` maps codes to cases.
public enum DittoSwiftError: Error, LocalizedError, Sendable {
    /// Offline licences. Kept for source compatibility; never raised, because there is no licence.
    case activationError(reason: ActivationErrorReason)
    /// A failed login, or a start of sync that cannot log in.
    case authenticationError(reason: AuthenticationErrorReason)
    /// Encryption at rest. Kept for source compatibility; never raised.
    case encryptionError(reason: EncryptionErrorReason)
    /// A file or directory outside the store.
    case ioError(reason: IOErrorReason)
    /// The store, or a statement run on it.
    case storeError(reason: StoreErrorReason)
    /// Transport diagnostics. Kept for source compatibility; never raised.
    case transportError(reason: TransportErrorReason)
    /// A value that does not have the required shape.
    case validationError(reason: ValidationErrorReason)
    /// Kept for source compatibility; never raised.
    case busError(reason: BusErrorReason)
    /// Kept for source compatibility; never raised.
    case migrationError(reason: MigrationErrorReason)
    /// A feature that this version does not have.
    case unsupportedError(message: String)
    /// An error that no other case describes.
    case unknownError(message: String)

    /// Offline licences.
    public enum ActivationErrorReason: Sendable {
        /// Not activated.
        case notActivatedError(message: String)
        /// The licence has expired.
        case licenseTokenExpired(message: String)
        /// The licence is not authentic.
        case licenseTokenVerificationFailed(message: String)
        /// The licence is for a later version.
        case licenseTokenUnsupportedFutureVersion(message: String)
        /// No licence is needed.
        case unnecessary(message: String)
    }

    /// Logging in.
    public enum AuthenticationErrorReason: Sendable {
        /// The server refused the login, or could not be reached.
        case failedToAuthenticate(message: String)
        /// `sync.start()` with a server connection and without `auth.expirationHandler`.
        case expirationHandlerMissing(message: String)
    }

    /// The bus of 4.8 and before.
    public enum BusErrorReason: Sendable {
        /// Anything.
        case unknown(message: String)
    }

    /// Encryption at rest.
    public enum EncryptionErrorReason: Sendable {
        /// A passphrase for a store that has none.
        case extraneousPassphraseGiven
        /// The wrong passphrase.
        case passphraseInvalid
        /// No passphrase.
        case passphraseNotGiven
    }

    /// Files and directories.
    public enum IOErrorReason: Sendable {
        /// The file exists already.
        case alreadyExists(message: String)
        /// The file or directory does not exist.
        case notFound(message: String)
        /// The permissions forbid it.
        case permissionDenied(message: String)
        /// Anything else.
        case operationFailed(message: String)
    }

    /// Migration from 3.x.
    public enum MigrationErrorReason: Sendable {
        /// Sync with 3.x could not be disabled.
        case disableSyncWithV3Failed(message: String)
    }

    /// The store and its statements.
    public enum StoreErrorReason: Sendable {
        /// The store cannot be read or written, is damaged or of a newer version, or was closed.
        case backendError(message: String)
        /// The document's data types do not fit.
        case crdtError(message: String)
        /// The document does not exist.
        case documentNotFound(message: String)
        /// An id has a type or size that ids cannot have.
        case documentIDInvalid(message: String)
        /// Another process, or another `Ditto`, has the directory open.
        case persistenceDirectoryLocked(message: String)
        /// The statement is wrong.
        case queryInvalid(message: String)
        /// An argument is missing, or has a type that the store or its place in the statement does not
        /// accept.
        case queryArgumentsInvalid(message: String)
        /// The statement is correct but failed.
        case queryError(message: String)
        /// The statement is correct but not supported here.
        case queryNotSupported(message: String)
        /// A statement that writes, in a read-only transaction.
        case transactionReadOnly(message: String)
        /// The file of an attachment does not exist.
        case attachmentFileNotFound(message: String)
        /// The file of an attachment cannot be read.
        case attachmentFilePermissionDenied(message: String)
        /// The attachment does not exist.
        case attachmentNotFound(message: String)
        /// The dictionary is not an attachment token.
        case attachmentTokenInvalid(message: String)
        /// The attachment could not be stored.
        case failedToCreateAttachment(message: String)
        /// The attachment could not be fetched.
        case failedToFetchAttachment(message: String)
    }

    /// Transport diagnostics.
    public enum TransportErrorReason: Sendable {
        /// They cannot be queried.
        case failedToQueryDiagnostics(message: String)
        /// They cannot be decoded.
        case failedToDecodeTransportDiagnostics(message: String)
    }

    /// Values of the wrong shape.
    public enum ValidationErrorReason: Sendable {
        /// Nested too deep.
        case depthLimitExceeded(message: String)
        /// Not a dictionary.
        case notADictionary(message: String)
        /// Not expressible as JSON.
        case notJSONCompatible(message: String)
        /// Not JSON.
        case invalidJSON(message: String)
        /// Not CBOR.
        case invalidCBOR(message: String)
        /// A document or transaction exceeds its limit.
        case sizeLimitExceeded(message: String)
        /// The configuration cannot be used.
        case invalidDittoConfig(message: String)
    }

    /// The message, code first.
    public var errorDescription: String? {
        switch self {
        case .activationError(let reason): Self.text(of: reason)
        case .authenticationError(let reason): Self.text(of: reason)
        case .encryptionError(let reason): "\(reason)"
        case .ioError(let reason): Self.text(of: reason)
        case .storeError(let reason): Self.text(of: reason)
        case .transportError(let reason): Self.text(of: reason)
        case .validationError(let reason): Self.text(of: reason)
        case .busError(let reason): Self.text(of: reason)
        case .migrationError(let reason): Self.text(of: reason)
        case .unsupportedError(let message), .unknownError(let message): message
        }
    }

    /// The message that a reason carries.
    private static func text(of reason: Any) -> String {
        let payload = Mirror(reflecting: reason).children.first?.value
        if let message = payload as? String { return message }
        return payload.flatMap { Mirror(reflecting: $0).children.first?.value as? String } ?? "\(reason)"
    }
}

/// The name of 5.x.
public typealias DittoError = DittoSwiftError
