import Foundation

/// Logs in for an instance of the 4.x API. Called on a thread of the SDK.
@available(*, deprecated, message: "Set ditto.auth?.expirationHandler")
public protocol DittoAuthenticationDelegate {
    /// There is no session, so sync cannot connect: log in with the authenticator.
    func authenticationRequired(authenticator: DittoAuthenticator)
    /// The session ends soon: log in again.
    func authenticationExpiringSoon(authenticator: DittoAuthenticator, secondsRemaining: Int64)
}

extension DittoAuthenticator {
    /// As `login(token:provider:completion:)`, without the provider's information.
    @available(*, deprecated, message: "Use login(token:provider:completion:)")
    public func loginWithToken(
        _ token: String, provider: String, completion: @escaping (DittoSwiftError?) -> Void
    ) {
        login(token: token, provider: provider) { _, error in completion(error) }
    }

    /// Logs in with a name and a password, as the token `name:password`: a provider of accounts takes it.
    @available(*, deprecated, message: "Use login(token:provider:completion:) with the token name:password")
    public func loginWithCredentials(
        username: String, password: String, provider: String,
        completion: @escaping (DittoSwiftError?) -> Void
    ) {
        login(token: "\(username):\(password)", provider: provider) { _, error in completion(error) }
    }
}
