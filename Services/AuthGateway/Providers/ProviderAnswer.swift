import CRDT
import Identity

/// What a provider says of a login.
package enum ProviderAnswer: Sendable, Equatable {
    /// Good, with what the access token is to say.
    case accepted(AcceptedLogin)
    /// Not good; with what the provider has for the application.
    case refused(clientInfo: Value?)
}

/// A login that a provider accepts.
package struct AcceptedLogin: Sendable, Equatable {
    package var userID: String
    package var seconds: Int64
    package var grant: Grant
    /// What the provider has for the application.
    package var clientInfo: Value?
    /// What every peer is shown: JSON text of an object.
    package var metadata: String?
}
