import CRDT
import Identity

/// A provider's answer to a login.
package enum ProviderAnswer: Sendable, Equatable {
    /// Accepted, with the content of the access token.
    case accepted(AcceptedLogin)
    /// Refused, with the provider's data for the application, and the user if the provider has told.
    case refused(clientInfo: Value?, userID: String? = nil)
}

/// A login that a provider accepts.
package struct AcceptedLogin: Sendable, Equatable {
    package var userID: String
    package var seconds: Int64
    package var grant: Grant
    /// The provider's data for the application.
    package var clientInfo: Value?
    /// The metadata that every peer sees: JSON text of an object.
    package var metadata: String?
    /// The token's id where the provider knows the session by it; nil for a new one.
    package var tokenID: String?
}
