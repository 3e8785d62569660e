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

    /// Always fails: a provider takes a token.
    @available(*, deprecated, message: "Use login(token:provider:completion:) with a token of the provider")
    public func loginWithCredentials(
        username: String, password: String, provider: String,
        completion: @escaping (DittoSwiftError?) -> Void
    ) {
        let completion = Handler(completion)
        let error = SDKError(
            .credentialsUnsupported,
            "a login takes a token: put what the provider '\(provider)' needs into one, and use"
                + " loginWithToken")
        DefaultDelivery.shared.async { completion.call(Failure(error).publicError) }
    }
}
