import CRDT

/// Every code a session closes or refuses with; the raw value is stable, travels in frames and is published.
public enum SyncErrorCode: String, Sendable, CaseIterable {
    /// A frame is not CBOR, or has a missing field or one of the wrong type.
    case malformedFrame = "SYNC-0101"
    /// A message of a type unknown to this version.
    case unknownMessage = "SYNC-0102"
    /// A frame, or a message assembled from chunks, exceeds its limit.
    case frameTooLarge = "SYNC-0103"
    /// A message that is not allowed in this state or from this side.
    case unexpectedMessage = "SYNC-0104"
    /// The other side sent more than it had credit for.
    case creditExceeded = "SYNC-0105"
    /// No protocol version in common.
    case versionMismatch = "SYNC-0201"
    /// The other side serves another database.
    case wrongDatabase = "SYNC-0202"
    /// A subscription's statement does not parse or is not allowed as one; the message says why.
    case invalidSubscription = "SYNC-0301"
    /// The grant does not let this peer read the collection.
    case readNotGranted = "SYNC-0302"
    /// A subscription's condition takes longer than the server gives it. The session's other subscriptions
    /// go on.
    case subscriptionTooCostly = "SYNC-0303"
    /// The grant does not let this peer write the collection.
    case writeNotGranted = "SYNC-0401"
    /// An operation or delta does not decode.
    case malformedOperation = "SYNC-0402"
    /// A sequence is missing before this operation.
    case sequenceGap = "SYNC-0403"
    /// The actor belongs to another key, or its history forked.
    case actorConflict = "SYNC-0404"
    /// The log does not cover a delta's base.
    case baseNotCovered = "SYNC-0405"
    /// The writer's clock is too far ahead. Its writes are repeated under a new actor by the server's time;
    /// the session ends if that does not help.
    case clockTooFarAhead = "SYNC-0406"
    /// The change makes a document larger than the server can pass on.
    case documentTooLarge = "SYNC-0407"
    /// The log already has the write, moved to another actor by a copy of its store: it counts once.
    case alreadyThere = "SYNC-0408"
    /// This side cannot store or read; the other may try again later.
    case unavailable = "SYNC-0501"
    /// The token has expired.
    case expired = "SYNC-0502"
    /// This side is going away, or has news that belongs in a handshake; connect again.
    case goingAway = "SYNC-0503"
    /// The token is refused or no longer valid: a newer token is invalid here or another peer's, or the
    /// rights were revoked.
    case tokenRefused = "SYNC-0504"
    /// The token names a peer key that the peer does not prove to hold: it is another store's key, or the
    /// peer's version has no proofs.
    case keyNotProven = "SYNC-0505"
    /// The server's log is damaged where it is needed: an operator has to restore it. Trying again changes
    /// nothing until then, so it is done seldom.
    case damaged = "SYNC-0506"
    /// A small peer's application does not want the link, or nobody answered for it in time.
    case linkDenied = "SYNC-0601"
    /// The other peer belongs to another sync group, or is no small peer.
    case otherGroup = "SYNC-0602"
    /// A peer's seal or presence record does not verify.
    case sealRefused = "SYNC-0603"
    /// One side of a link speaks TLS, and the other does not.
    case securityMismatch = "SYNC-0604"
    /// The two peers have another link, which stays.
    case doubleLink = "SYNC-0605"
    /// The other side is this store, or a copy of it that runs at the same time.
    case sameStore = "SYNC-0606"
}

/// The reason why a session ended, or a subscription or write was refused.
public struct SyncError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The stable code as transmitted; unknown codes of later versions are kept.
    public let code: String
    /// A text for a person.
    public let message: String

    /// An error of this code.
    public init(_ code: SyncErrorCode, _ message: String) {
        self.code = code.rawValue
        self.message = message
    }

    /// An error of a code that this version may not know.
    public init(code: String, message: String) {
        self.code = code
        self.message = message
    }

    /// `SYNC-0101: message`.
    public var description: String { "\(code): \(message)" }
}

/// The subject that ends, or is refused, with a code.
public enum SyncSubject: String, Sendable, CaseIterable {
    /// The session: a close frame is the last one.
    case session
    /// One subscription: the session continues.
    case subscription
    /// One operation: the session continues.
    case write
}

/// The reaction of a peer. The raw value is the text in `wire.cddl`.
public enum SyncRemedy: String, Sendable {
    /// Connects again after the first pause.
    case reconnect = "connects again soon"
    /// Connects again after the first pause, with a new token from its application.
    case reconnectWithToken = "connects again soon, with another token"
    /// Connects again after a pause that doubles each time: the next attempt may well end the same way.
    case reconnectLater = "connects again, later each time"
    /// Asks again when the server announces changed rights.
    case askWhenGranted = "asks again when granted"
    /// Tells its application, which may make another request.
    case tellApplication = "tells its application"
    /// Sets the write aside for its application; later writes are sent again under a new actor.
    case setAside = "sets the write aside"
    /// Repeats the write under a new actor, by the server's clock.
    case writeAgain = "writes it again by the server's clock"
    /// Keeps the other link that it has, and does not connect again.
    case keepOther = "keeps its other link"
    /// Drops the write: it counts already.
    case forget = "forgets it"
}

extension SyncErrorCode {
    /// The subjects that can end with the code, and a peer's reaction for each. An unknown code ends a
    /// session like `unavailable`.
    public var remedies: [SyncSubject: SyncRemedy] {
        switch self {
        case .malformedFrame, .unknownMessage, .frameTooLarge, .unexpectedMessage, .creditExceeded,
            .versionMismatch, .wrongDatabase, .unavailable, .damaged, .linkDenied, .otherGroup, .sealRefused,
            .securityMismatch, .sameStore:
            [.session: .reconnectLater]
        case .invalidSubscription, .subscriptionTooCostly: [.subscription: .tellApplication]
        case .readNotGranted: [.subscription: .askWhenGranted]
        case .writeNotGranted, .documentTooLarge: [.write: .setAside]
        // An operation whose author cannot be read cannot be refused by its name.
        case .malformedOperation: [.write: .setAside, .session: .reconnectLater]
        // Only another handshake can tell which of two histories is whose.
        case .sequenceGap, .actorConflict: [.write: .setAside, .session: .reconnectLater]
        // A server whose stream rests on what it does not have itself.
        case .baseNotCovered: [.write: .setAside, .session: .reconnectLater]
        // The session when the server's clock does not help.
        case .clockTooFarAhead: [.write: .writeAgain, .session: .reconnectLater]
        case .alreadyThere: [.write: .forget]
        case .expired, .tokenRefused, .keyNotProven: [.session: .reconnectWithToken]
        case .goingAway: [.session: .reconnect]
        case .doubleLink: [.session: .keepOther]
        }
    }
}

extension SyncError {
    /// The reaction of a peer whose session ended for this reason.
    public var remedy: SyncRemedy {
        SyncErrorCode(rawValue: code)?.remedies[.session] ?? .reconnectLater
    }
}

extension SyncError {
    /// True if the writer's clock is the only thing wrong.
    public var isOfClock: Bool { utf8Equal(code, SyncErrorCode.clockTooFarAhead.rawValue) }

    /// True if the server only lacks the base of the write.
    public var isOfBase: Bool { utf8Equal(code, SyncErrorCode.baseNotCovered.rawValue) }

    /// True if the log has the write already, moved by a copy of the store.
    public var isOfCopy: Bool { utf8Equal(code, SyncErrorCode.alreadyThere.rawValue) }
}
