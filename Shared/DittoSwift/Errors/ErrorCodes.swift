import DQL

/// Every code this module raises itself; the raw value is stable and published. Errors of the modules below
/// keep their own codes.
package enum SDKErrorCode: String, Sendable, CaseIterable {
    /// The database id is not 1 to 128 letters, digits, `-` and `_`.
    case databaseIDInvalid = "SDK-0101"
    /// The server URL is missing, malformed, not http(s) or without a host.
    case serverURLInvalid = "SDK-0102"
    /// The private key is not base64 of a P-256 key.
    case privateKeyInvalid = "SDK-0103"
    /// The persistence directory is empty, no path, or cannot be created or written.
    case persistenceDirectoryInvalid = "SDK-0104"
    /// A configuration that is to be read and is no CBOR.
    case configurationNoCBOR = "SDK-0105"
    /// A configuration that is to be read and is no JSON.
    case configurationNoJSON = "SDK-0106"
    /// A configuration that is to be read and lacks what one has to have, or has it of another type.
    case configurationUndecodable = "SDK-0107"

    /// An argument of a type that documents cannot hold.
    case argumentTypeInvalid = "SDK-0201"
    /// An argument that is a number beyond 64 bits.
    case argumentOutOfRange = "SDK-0202"
    /// An argument nested deeper than documents may be.
    case argumentTooDeep = "SDK-0203"
    /// A statement that is not a SELECT, where only one can be observed.
    case notObservable = "SDK-0204"
    /// A transaction, or a statement on the store itself, inside a transaction of that store.
    case transactionNested = "SDK-0205"
    /// A statement in a transaction that has ended.
    case transactionEnded = "SDK-0206"
    /// A transaction that could not begin in time, because others were open.
    case transactionTimeout = "SDK-0207"
    /// ALTER SYSTEM or SHOW in a transaction.
    case statementNotTransactional = "SDK-0208"
    /// A statement that writes in a transaction that reads.
    case transactionReadOnly = "SDK-0209"

    /// `sync.start()` without a handler that logs in.
    case expirationHandlerMissing = "SDK-0301"
    /// The server refused a login without a code of its own.
    case loginRefused = "SDK-0302"
    /// The server could not be asked, or did not answer in time.
    case serverUnreachable = "SDK-0303"
    /// The server's answer to a login makes no sense.
    case loginAnswerMalformed = "SDK-0304"
    /// Sync with small peers only: this version speaks to servers.
    case smallPeerSyncUnsupported = "SDK-0305"
    /// A subscription with ORDER BY, LIMIT or OFFSET: sessions of this version send every match.
    case windowedSubscriptionUnsupported = "SDK-0306"

    /// The peer key or the session cannot be read from or written to the persistence directory.
    case identityFileUnusable = "SDK-0401"
    /// The instance was closed.
    case closed = "SDK-0402"
    /// The file of persisted system parameters cannot be read as what it is, or not be written.
    case parametersFileUnusable = "SDK-0403"

    /// Metadata of a peer with something in it that JSON cannot hold.
    case metadataNotJSON = "SDK-0501"
    /// Metadata of a peer that is nested too deep.
    case metadataTooDeep = "SDK-0502"
    /// Metadata of a peer that is too long as JSON.
    case metadataTooLarge = "SDK-0503"
    /// Metadata of a peer as text that is no JSON.
    case metadataInvalidJSON = "SDK-0504"
    /// Metadata of a peer as JSON that is no object.
    case metadataNotADictionary = "SDK-0505"

    /// The log cannot be exported: the file is there already.
    case exportFileExists = "SDK-0601"
    /// The log cannot be exported: there is no such directory.
    case exportFolderMissing = "SDK-0602"
    /// The log cannot be exported: the directory cannot be written to.
    case exportForbidden = "SDK-0603"
    /// The log cannot be exported for another reason, which is said.
    case exportFailed = "SDK-0604"

    /// The file of a new attachment does not exist.
    case attachmentFileMissing = "SDK-0701"
    /// The file of a new attachment may not be read.
    case attachmentFileForbidden = "SDK-0702"
    /// The file of a new attachment cannot be read for another reason, which is said.
    case attachmentFileUnusable = "SDK-0703"
    /// What is to be fetched is no attachment token.
    case attachmentTokenInvalid = "SDK-0704"
    /// An attachment cannot be copied: the file is there already.
    case attachmentCopyExists = "SDK-0705"
    /// An attachment cannot be copied for another reason, which is said.
    case attachmentCopyFailed = "SDK-0706"

    /// An error that no module of ours describes; its text is the message.
    case unexpected = "SDK-0901"
}

/// Every code of a warning that this module adds to a statement's own.
package enum SDKWarningCode: String, Sendable, CaseIterable {
    /// A document grew above the recommended size.
    case documentSize = "SDK-W101"
}

/// An error of this module before it is turned into the public type.
package struct SDKError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code; a server's own where it sent one.
    package let code: String
    /// For a person; without secrets.
    package let message: String
    let original: OriginalCode
    /// Where in the statement, if it is about one.
    let position: SourcePosition?
    /// JSON text of what a provider that refused a login has for the application.
    let clientInfo: String?

    init(_ code: SDKErrorCode, _ message: String, position: SourcePosition? = nil) {
        self.code = code.rawValue
        self.message = message
        self.position = position
        original = OriginalCode(code)
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
