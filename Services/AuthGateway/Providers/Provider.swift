import Identity

/// Who says whether a login is good, as an operator has configured it for a database.
enum Provider: Sendable {
    /// A shared token stands for a fixed right.
    case anonymous(AnonymousProvider)
    /// Somebody's HTTP server is asked.
    case webhook(WebhookProvider)

    /// What may be shown of it: its kind, and of a webhook where it is.
    var summary: (kind: String, summary: String) {
        switch self {
        case .anonymous(let provider): ("anonymous", "sessions of \(provider.seconds) s")
        case .webhook(let provider): ("webhook", provider.publicURL)
        }
    }

    /// Asks the provider.
    /// - Throws: `AUTH-0405` when it cannot be asked, `AUTH-0406` when what it says cannot be used.
    func answer(_ login: LoginRequest, nowSeconds: Int64) async throws(AuthGatewayError) -> ProviderAnswer {
        switch self {
        case .anonymous(let provider): provider.answer(login)
        case .webhook(let provider): try await provider.answer(login, nowSeconds: nowSeconds)
        }
    }
}

/// Whoever has the shared token has the right; `development` is one of these.
struct AnonymousProvider: Sendable {
    let sharedToken: String
    let grant: Grant
    /// How long a login lasts.
    let seconds: Int64
    /// One user: the token says nothing about who holds it.
    let userID: String

    func answer(_ login: LoginRequest) -> ProviderAnswer {
        guard ConstantTime.equal(login.token, sharedToken) else { return .refused(clientInfo: nil) }
        return .accepted(AcceptedLogin(userID: userID, seconds: seconds, grant: grant))
    }
}
