import DQL

/// Every code that this module raises itself; the raw value is stable and published. Errors of the modules
/// below keep their own codes.
package enum SDKErrorCode: String, Sendable, CaseIterable {
    /// The database id is not 1 to 128 letters, digits, `-` and `_`.
    case databaseIDInvalid = "SDK-0101"
    /// The server URL is missing, malformed, not http(s) or without a host.
    case serverURLInvalid = "SDK-0102"
    /// The private key is not base64 of a P-256 key.
    case privateKeyInvalid = "SDK-0103"
    /// The persistence directory is empty, not a path, or cannot be created or written.
    case persistenceDirectoryInvalid = "SDK-0104"
    /// A configuration to decode is not CBOR.
    case configurationNoCBOR = "SDK-0105"
    /// A configuration to decode is not JSON.
    case configurationNoJSON = "SDK-0106"
    /// A configuration to decode lacks a required member, or has one of a wrong type.
    case configurationUndecodable = "SDK-0107"
    /// An identity of the 4.x API that needs certificates of its vendor.
    case identityUnsupported = "SDK-0108"

    /// An argument has a type that documents cannot hold.
    case argumentTypeInvalid = "SDK-0201"
    /// An argument is a number beyond 64 bits, or a date outside the years 0000 to 9999.
    case argumentOutOfRange = "SDK-0202"
    /// An argument is nested deeper than documents may be.
    case argumentTooDeep = "SDK-0203"
    /// A statement to observe is not a SELECT.
    case notObservable = "SDK-0204"
    /// A transaction, or a statement on the store itself, inside a transaction of that store.
    case transactionNested = "SDK-0205"
    /// A statement in a transaction that has ended.
    case transactionEnded = "SDK-0206"
    /// A transaction could not begin in time, because others were open.
    case transactionTimeout = "SDK-0207"
    /// ALTER SYSTEM or SHOW in a transaction.
    case statementNotTransactional = "SDK-0208"
    /// A statement that writes, in a read-only transaction.
    case transactionReadOnly = "SDK-0209"
    /// An item cannot be decoded as the requested type: a field is missing, or has another type.
    case itemUndecodable = "SDK-0210"
    /// A collection's name breaks the rules of the 4.x API.
    case collectionNameInvalid = "SDK-0211"
    /// A mutable document of the 4.x API was used after its closure had returned.
    case updateEnded = "SDK-0212"
    /// A write of the 4.x API to a place that cannot be written: an element of an array, the whole document.
    case placeNotWritable = "SDK-0213"

    /// `sync.start()` without an expiration handler.
    case expirationHandlerMissing = "SDK-0301"
    /// The server refused a login without a code of its own.
    case loginRefused = "SDK-0302"
    /// The server could not be reached, or did not answer in time.
    case serverUnreachable = "SDK-0303"
    /// The server's answer to a login is malformed.
    case loginAnswerMalformed = "SDK-0304"
    // SDK-0305 said that small peers did not sync without a server; it is not used again.
    /// A subscription with ORDER BY, LIMIT or OFFSET: sessions of this version send every match.
    case windowedSubscriptionUnsupported = "SDK-0306"
    /// The server URL says https, but the server answers without TLS: it speaks plain http.
    case serverSpeaksPlainHTTP = "SDK-0307"
    // SDK-0308 said that no provider took a name and a password; it is not used again.

    /// The peer key or the session cannot be read from or written to the persistence directory.
    case identityFileUnusable = "SDK-0401"
    /// The instance was closed.
    case closed = "SDK-0402"
    /// The file of persisted system parameters is malformed or cannot be written.
    case parametersFileUnusable = "SDK-0403"

    /// A peer's metadata contains a value that JSON cannot hold.
    case metadataNotJSON = "SDK-0501"
    /// A peer's metadata is nested too deep.
    case metadataTooDeep = "SDK-0502"
    /// A peer's metadata is too long as JSON.
    case metadataTooLarge = "SDK-0503"
    /// A peer's metadata, given as text, is not JSON.
    case metadataInvalidJSON = "SDK-0504"
    /// A peer's metadata, given as JSON, is not an object.
    case metadataNotADictionary = "SDK-0505"

    /// The log cannot be exported: the file exists already.
    case exportFileExists = "SDK-0601"
    /// The log cannot be exported: the directory does not exist.
    case exportFolderMissing = "SDK-0602"
    /// The log cannot be exported: the directory is not writable.
    case exportForbidden = "SDK-0603"
    /// The log cannot be exported for another reason; the message names it.
    case exportFailed = "SDK-0604"

    /// The file of a new attachment does not exist.
    case attachmentFileMissing = "SDK-0701"
    /// The file of a new attachment cannot be read: permission denied.
    case attachmentFileForbidden = "SDK-0702"
    /// The file of a new attachment cannot be read for another reason; the message names it.
    case attachmentFileUnusable = "SDK-0703"
    /// The dictionary to fetch is not an attachment token.
    case attachmentTokenInvalid = "SDK-0704"
    /// An attachment cannot be copied: the file exists already.
    case attachmentCopyExists = "SDK-0705"
    /// An attachment cannot be copied for another reason; the message names it.
    case attachmentCopyFailed = "SDK-0706"
    /// The file of a new attachment changed while it was copied. Nothing was stored; make the attachment when
    /// nobody writes the file.
    case attachmentFileChanged = "SDK-0707"
    /// An attachment cannot be copied: the directory does not exist.
    case attachmentCopyFolderMissing = "SDK-0708"
    /// An attachment cannot be copied: permission denied.
    case attachmentCopyForbidden = "SDK-0709"

    /// An error that no module of ours describes; its text becomes the message.
    case unexpected = "SDK-0901"
}

/// Every code of a warning that this module adds to a statement's own warnings.
package enum SDKWarningCode: String, Sendable, CaseIterable {
    /// A document grew above the recommended size.
    case documentSize = "SDK-W101"
    /// Documents were evicted that no other peer is known to have, and there is no server.
    case evictedUntaken = "SDK-W102"
}

/// An error of this module before its conversion to the public type.
package struct SDKError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code; the server's own code if it sent one.
    package let code: String
    /// A message for a person, without secrets.
    package let message: String
    let original: OriginalCode
    /// The place in the statement, if the error is about one.
    let position: SourcePosition?
    /// JSON text: the information for the application from a provider that refused a login.
    let clientInfo: String?

    init(_ code: SDKErrorCode, _ message: String, position: SourcePosition? = nil) {
        self.code = code.rawValue
        self.message = message
        self.position = position
        original = OriginalCode(code)
        clientInfo = nil
    }

    /// Any error, to be thrown again later.
    init(repeating failure: Failure) {
        code = failure.code
        message = failure.message
        original = failure.original
        position = failure.position
        clientInfo = nil
    }

    /// A refusal with the server's own code.
    init(refusedBy code: String, _ message: String, clientInfo: String? = nil) {
        self.code = code
        self.message = message
        original = .authenticationFailed
        position = nil
        self.clientInfo = clientInfo
    }

    /// `SDK-0101: message`.
    package var description: String { "\(code): \(message)" }
}
