import Identity

/// A provider that decides about logins, as an operator has configured it for a database.
enum Provider: Sendable {
    /// A shared token gives a fixed right.
    case anonymous(AnonymousProvider)
    /// The operator's HTTP server decides.
    case webhook(WebhookProvider)
    /// The accounts of the system database.
    case accounts(AccountsProvider)
    /// API keys, which every database has.
    case apiKeys

    /// The parts that may be shown: its kind, and a webhook's server.
    var summary: (kind: String, summary: String) {
        switch self {
        case .anonymous(let provider): ("anonymous", "sessions of \(provider.seconds) s")
        case .webhook(let provider): ("webhook", provider.publicURL)
        case .accounts(let provider): ("accounts", "sessions of \(provider.seconds) s")
        case .apiKeys: ("api-keys", "")
        }
    }

    /// Asks the provider about a login from an address.
    /// - Throws: `AUTH-0405` if it does not answer, `AUTH-0406` if its answer is invalid, `AUTH-0408` for a
    ///   revoked user or key, `AUTH-0413` if too many logins wait for it, `AUTH-0414` to `AUTH-0416` of
    ///   accounts, and the log's errors.
    func answer(
        _ login: LoginRequest, from address: String, _ book: AccountBook, nowSeconds: Int64
    ) async throws -> ProviderAnswer {
        switch self {
        case .anonymous(let provider): provider.answer(login)
        case .webhook(let provider):
            try await provider.answer(
                login, from: AttemptLimiter.network(of: address), nowSeconds: nowSeconds)
        case .accounts(let provider): try await book.answer(login, at: provider, from: address)
        case .apiKeys: try await KeyLogin.answer(login, book.state, nowSeconds: nowSeconds)
        }
    }
}

/// A provider that gives a fixed right to every login with its shared token; `development` is one.
struct AnonymousProvider: Sendable {
    let sharedToken: String
    let grant: Grant
    /// Lifetime of a session, in seconds.
    let seconds: Int64
    /// One user for all logins: the token does not identify its holder.
    let userID: String

    func answer(_ login: LoginRequest) -> ProviderAnswer {
        guard ConstantTime.equal(login.token, sharedToken) else { return .refused(clientInfo: nil) }
        return .accepted(AcceptedLogin(userID: userID, seconds: seconds, grant: grant))
    }
}
