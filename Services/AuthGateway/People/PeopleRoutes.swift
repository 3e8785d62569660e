import CRDT
import Hummingbird
import Identity
import ServiceKit

/// Routes for people and devices, below `/_ditto/auth`: links and devices that join need no credential, an
/// account's own routes the token of one of its sessions.
struct PeopleRoutes: Sendable {
    let book: AccountBook
    let links: AccountLinks
    let joins: Joins
    /// The providers of the file, which come before those of the admin API.
    let configured: ProvidersFile
    let authenticator: Authenticator
    let limiter: AttemptLimiter
    let trustsProxy: Bool
    let isSecure: Bool
    let nowSeconds: @Sendable () -> Int64

    private typealias Handler =
        @Sendable (PeopleRoutes, Request, ServiceContext, inout AuditEntry) async throws -> Response

    func mount(on mount: inout ServiceMount) {
        let base = "/_ditto/auth"
        let routes: [(HTTPRequest.Method, path: String, action: String, Handler)] = [
            (.post, "join", "join", { try await $0.beginJoin($1, $2, &$3) }),
            (.post, "join/key", "join key", { try await $0.joinKey($1, $2, &$3) }),
            (.post, "link", "link", { try await $0.showLink($1, $2, &$3) }),
            (.post, "link/use", "link use", { try await $0.useLink($1, $2, &$3) }),
            (.post, "reset", "reset", { try await $0.askReset($1, $2, &$3) }),
            (.get, "account", "account", { try await $0.showOwn($1, $2, &$3) }),
            (.post, "account/password", "password", { try await $0.changePassword($1, $2, &$3) }),
            (.post, "account/second-factor", "second factor", { try await $0.secondFactor($1, $2, &$3) }),
            (.delete, "account/sessions/:session", "session end", { try await $0.endOwn($1, $2, &$3) }),
            (.delete, "account/devices/:device", "device remove", { try await $0.removeOwn($1, $2, &$3) }),
            (.get, "account/joins/:code", "join look", { try await $0.showJoin($1, $2, &$3) }),
            (.post, "account/joins/:code", "join answer", { try await $0.answerJoin($1, $2, &$3) }),
        ]
        for (method, path, action, handler) in routes {
            mount.on(method, "\(base)/\(path)") { [self] request, context in
                let audit = book.state.system.audit
                var entry = audit.entry(action, .ok, request, context)
                do {
                    try book.state.system.requireTrust()
                    let response = try await handler(self, request, context, &entry)
                    // Questions change nothing; a device asks every two seconds.
                    if method != .get, action != "link" { audit.note(entry) }
                    return response
                } catch {
                    let code = (error as? AuthGatewayError)?.code
                    if code != .joinPending, code != .joinTooFast { audit.note(entry, error) }
                    throw error
                }
            }
        }
    }

    /// The network of a request, whose failures count together.
    func network(_ request: Request, _ context: ServiceContext) -> String {
        AttemptLimiter.network(of: request.source(context, trustsProxy: trustsProxy))
    }

    /// Runs a body whose failure is a guess, such as a link that there is not.
    func counted<Result>(
        _ request: Request, _ context: ServiceContext, _ body: () async throws -> Result
    ) async throws -> Result {
        let source = AttemptLimiter.Source.address(network(request, context))
        try limiter.begin(source)
        do {
            let result = try await body()
            limiter.end(source, .uncounted)
            return result
        } catch {
            let isGuess = (error as? AuthGatewayError)?.code == .linkRefused
            limiter.end(source, isGuess ? .unknown : .uncounted)
            throw error
        }
    }

    /// The provider of accounts with this name.
    /// - Throws: `AUTH-0403`.
    func provider(_ name: String, of database: DatabaseID) throws -> AccountsProvider {
        let found =
            try configured.databases[database]?.providers[name] ?? book.state.provider(name, of: database)
        guard case .accounts(let provider)? = found else {
            throw AuthGatewayError(.providerUnknown, "the database has no provider of accounts of this name")
        }
        return provider
    }

    /// Where the console is, as the request says.
    func origin(of request: Request) -> String {
        let proxied = request.headers.first { $0.name.canonicalName == "x-forwarded-proto" }?.value
        let scheme = isSecure || trustsProxy && proxied == "https" ? "https" : "http"
        return "\(scheme)://\(request.head.authority ?? "localhost")"
    }

    static func answer(_ value: Value, _ status: HTTPResponse.Status = .ok) -> Response {
        .json(JSONText.print(value).utf8, status: status, headers: [.cacheControl: "no-store"])
    }
}

// MARK: Links

extension PeopleRoutes {
    private func showLink(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let body = try await AdminBody(request, known: ["token"])
        guard let token = try body.text("token") else { throw AdminBody.missing("token") }
        let link = try await counted(request, context) { try links.record(of: token) }
        return Self.answer([
            "kind": .string(link.account == nil ? "invitation" : "reset"),
            "databaseID": .string(link.databaseID.text), "provider": .string(link.provider),
            "name": link.name.map { .string($0) } ?? .null, "expiresAt": .int(link.expiresAtSeconds),
        ])
    }

    private func useLink(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let body = try await AdminBody(request, known: ["token", "name", "password"])
        guard let token = try body.text("token") else { throw AdminBody.missing("token") }
        guard let password = try body.text("password") else { throw AdminBody.missing("password") }
        let chosen = try body.text("name")
        let network = network(request, context)
        let link = try await counted(request, context) { try links.record(of: token) }
        (entry.database, entry.provider, entry.user) = (link.databaseID.text, link.provider, link.name)
        let name = try await links.use(link, name: chosen, password: password, from: network)
        entry.user = name
        return Self.answer(
            [
                "databaseID": .string(link.databaseID.text), "provider": .string(link.provider),
                "name": .string(name),
            ], .created)
    }

    /// Has a link sent to the account's address, if there is one. The answer is the same for all names, and
    /// so is the work before it.
    private func askReset(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let body = try await AdminBody(request, known: ["databaseID", "provider", "name"])
        guard let database = try body.text("databaseID").map({ DatabaseID($0) }) else {
            throw AdminBody.missing("databaseID")
        }
        guard let providerName = try body.text("provider") else { throw AdminBody.missing("provider") }
        guard let text = try body.text("name") else { throw AdminBody.missing("name") }
        // Each one counts: nobody asks twenty times a minute.
        let source = AttemptLimiter.Source.address(network(request, context))
        try limiter.begin(source)
        limiter.end(source, .unknown)
        guard book.directory.database(database) != nil else {
            throw AuthGatewayError(.databaseUnknown, "the database does not exist")
        }
        let provider = try provider(providerName, of: database)
        (entry.database, entry.provider) = (database.text, providerName)
        guard provider.mailURL != nil, let origin = provider.origin else {
            throw AuthGatewayError(
                .notPossible,
                "the provider sends no mail; an administrator makes a link that resets a password")
        }
        if let name = AccountName(text) {
            entry.user = name.text
            let account = book.account(name, in: database)
            // After the answer, so that nobody can tell by the time.
            Task { [self] in try? await sendReset(to: account, origin, provider) }
        }
        return Response(status: .accepted)
    }

    private func sendReset(
        to account: AccountRecord?, _ origin: String, _ provider: AccountsProvider
    ) async throws {
        guard let account, account.mail != nil, utf8Equal(account.provider, provider.name),
            book.mail.mayAsk(for: account.id)
        else { return }
        let (link, token) = try await reset(account)
        _ = book.mail.send(link, AccountLinks.address(token, origin: origin), by: provider)
    }

    /// Makes a link that resets the password of an account. Earlier ones go on until one is used, or a
    /// stranger could end each link of a person.
    private func reset(_ account: AccountRecord) async throws -> (AccountLinkRecord, token: String) {
        var (link, token) = links.made(
            in: account.databaseID, at: account.provider, seconds: Limits.resetSeconds)
        (link.account, link.name, link.mail) = (account.id, account.name, account.mail)
        try await links.keep(link, endsOthers: false)
        return (link, token)
    }
}
