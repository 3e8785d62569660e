import CRDT
import Hummingbird
import Identity
import ServiceKit

/// Admin routes for accounts, sets of permissions and invitations.
extension AdminRoutes {
    /// The routes below `/admin/auth/databases/:database` that concern people and devices.
    static let peoplePaths = relativePaths.map { (method: $0.method, path: "\(databasePath)/\($0.path)") }

    private static let relativePaths: [(method: HTTPRequest.Method, path: String)] = [
        (.get, "accounts"), (.post, "accounts"), (.get, "accounts/:account"), (.patch, "accounts/:account"),
        (.delete, "accounts/:account"), (.post, "accounts/:account/reset"), (.post, "accounts/:account/view"),
        (.get, "accounts/:account/sessions"), (.delete, "accounts/:account/sessions/:session"),
        (.get, "sets"), (.put, "sets/:set"), (.delete, "sets/:set"), (.get, "invitations"),
        (.post, "invitations"), (.delete, "invitations/:invitation"), (.get, "joins"), (.post, "joins/:code"),
        (.get, "devices"), (.delete, "devices/:device"),
    ]

    private static let databasePath = "/admin/auth/databases/:database"

    /// Answers one of `peoplePaths`; nil for another.
    func answerPeople(
        _ method: HTTPRequest.Method, _ path: String, _ request: Request, _ context: ServiceContext,
        _ database: DatabaseID
    ) async throws -> Response? {
        guard path.hasPrefix("\(Self.databasePath)/") else { return nil }
        func parameter(_ name: String) throws -> String { try context.parameters.require(name) }
        switch (method, path.dropFirst(Self.databasePath.count + 1)) {
        case (.get, "accounts"): return try listAccounts(request, database)
        case (.post, "accounts"): return try await createAccount(request, context, database)
        case (.get, "accounts/:account"):
            return Self.shown(try view(try account(parameter("account"), database)))
        case (.patch, "accounts/:account"):
            return try await changeAccount(request, parameter("account"), database)
        case (.delete, "accounts/:account"):
            try await people.book.remove(try account(parameter("account"), database))
            return Response(status: .noContent)
        case (.post, "accounts/:account/reset"):
            return try await resetAccount(request, parameter("account"), database)
        case (.post, "accounts/:account/view"):
            return try await viewAccount(parameter("account"), database)
        case (.get, "accounts/:account/sessions"):
            let account = try account(parameter("account"), database)
            return Self.list("sessions", AccountViews.sessions(account, nowSeconds()))
        case (.delete, "accounts/:account/sessions/:session"):
            try await people.book.endSession(
                try parameter("session"), of: try account(parameter("account"), database))
            return Response(status: .noContent)
        case (.get, "sets"): return listSets(database)
        case (.put, "sets/:set"): return try await putSet(request, parameter("set"), database)
        case (.delete, "sets/:set"): return try await deleteSet(parameter("set"), database)
        case (.get, "invitations"): return listInvitations(database)
        case (.post, "invitations"): return try await createInvitation(request, database)
        case (.delete, "invitations/:invitation"):
            return try await remove(parameter("invitation"), AccountLinkRecord.self, of: database)
        default: return try await answerDevices(method, path, request, context, database)
        }
    }

    private static func shown(_ value: Value) -> Response { PeopleRoutes.answer(value) }

    /// An account by its name.
    /// - Throws: `AUTH-0411`.
    func account(_ name: String, _ database: DatabaseID) throws(AuthGatewayError) -> AccountRecord {
        guard let name = AccountName(name), let found = people.book.account(name, in: database) else {
            throw AccountBook.unknown
        }
        return found
    }

    private func view(_ account: AccountRecord) throws -> Value {
        AccountViews.account(account, people.book.grant(of: account), nowSeconds())
    }

    // MARK: Accounts

    /// `?after=NAME&limit=COUNT&match=TEXT`: in the order of their names.
    private func listAccounts(_ request: Request, _ database: DatabaseID) throws -> Response {
        let query = request.uri.queryParameters
        var limit = 100
        if let text = query.get("limit") {
            guard let number = Int(text), 1...Limits.accountsPerPage ~= number else {
                throw AuthGatewayError(
                    .requestMalformed, "limit must be a number from 1 to \(Limits.accountsPerPage)")
            }
            limit = number
        }
        let (after, match) = (query.get("after") ?? "", (query.get("match") ?? "").lowercased())
        let all = people.book.directory.accounts.values.filter { account in
            account.databaseID == database && account.name > after
                && (match.isEmpty || account.name.contains(match) || account.mail?.contains(match) == true)
        }.sorted { $0.name < $1.name }
        let page = all.prefix(limit)
        let next: Value = all.count > limit ? page.last.map { .string($0.name) } ?? .null : .null
        return Self.shown([
            "accounts": .array(try page.map { try view($0) }), "after": next, "total": .int(Int64(all.count)),
        ])
    }

    private func createAccount(
        _ request: Request, _ context: ServiceContext, _ database: DatabaseID
    ) async throws -> Response {
        let body = try await AdminBody(
            request, known: ["provider", "name", "mail", "password", "permissions", "set", "expiresAt"])
        guard let providerName = try body.text("provider") else { throw AdminBody.missing("provider") }
        guard let text = try body.text("name") else { throw AdminBody.missing("name") }
        let provider = try people.provider(providerName, of: database)
        let name = try people.book.name(text, in: database)
        let rights = try rights(body, database)
        let mail = try Self.mail(body) ?? (name.text.contains("@") ? name.text : nil)
        var account = AccountRecord(
            id: name.id(in: database), database: database, provider: providerName, name: name.text,
            mail: mail, permissions: rights?.permissions, set: rights?.set, createdAtSeconds: nowSeconds(),
            expiresAtSeconds: try end(body, "expiresAt"))
        if let password = try body.text("password") {
            account.passwordHash = try await people.book.hash(
                password, for: people.network(request, context))
        }
        try await state.system.write { [people, account] writer in
            try people.book.create(account, liftsRevocation: true, writer)
        }
        guard account.passwordHash == nil else {
            return Self.made(["name": .string(name.text), "link": .null, "mailed": false])
        }
        return try await link(of: account, request, provider, seconds: Limits.invitationSeconds)
    }

    /// Null removes a member; each one that is not named stays.
    private func changeAccount(
        _ request: Request, _ name: String, _ database: DatabaseID
    ) async throws -> Response {
        let body = try await AdminBody(
            request, known: ["mail", "permissions", "set", "expiresAt", "secondFactor", "endSessions"])
        let known = try account(name, database)
        let (rights, mail, end) = (
            try rights(body, database), try Self.mail(body), try end(body, "expiresAt")
        )
        let removesMail = body.value("mail") == .null
        let removesEnd = body.value("expiresAt") == .null
        if let flag = try body.flag("secondFactor"), flag {
            throw AuthGatewayError(.requestMalformed, "only the person can begin a second factor: give false")
        }
        let removesFactor = try body.flag("secondFactor") == false
        let endsSessions = try body.flag("endSessions") ?? false
        let now = nowSeconds()
        try await people.book.change(known.id) { account, writer in
            if let rights { (account.permissions, account.set) = (rights.permissions, rights.set) }
            account.mail = removesMail ? nil : mail ?? account.mail
            account.expiresAtSeconds = removesEnd ? nil : end ?? account.expiresAtSeconds
            if removesFactor { (account.sealedSecondFactor, account.hasSecondFactor) = (nil, false) }
            guard endsSessions else { return }
            try AccountBook.end(of: &account, now, writer) { _ in true }
        }
        return Self.shown(try view(try account(name, database)))
    }

    /// Makes a link that resets the password; it is mailed if that was asked for and can be done.
    private func resetAccount(
        _ request: Request, _ name: String, _ database: DatabaseID
    ) async throws -> Response {
        _ = try await AdminBody(request, known: [])
        let account = try account(name, database)
        let provider = try people.provider(account.provider, of: database)
        return try await link(of: account, request, provider, seconds: Limits.resetSeconds)
    }

    private func link(
        of account: AccountRecord, _ request: Request, _ provider: AccountsProvider, seconds: Int64
    ) async throws -> Response {
        var (link, token) = people.links.made(
            in: account.databaseID, at: account.provider, seconds: seconds)
        (link.account, link.name, link.mail) = (account.id, account.name, account.mail)
        return try await keep(link, token, request, provider)
    }

    /// Keeps a link, mails it where that is possible, and shows it to whoever made it.
    private func keep(
        _ link: AccountLinkRecord, _ token: String, _ request: Request, _ provider: AccountsProvider
    ) async throws -> Response {
        try await people.links.keep(link, endsOthers: true)
        let address = AccountLinks.address(
            token, origin: provider.origin ?? people.origin(of: request))
        let isMailed = people.book.mail.send(link, address, by: provider)
        return Self.made([
            "id": .string(link.id), "name": link.name.map { .string($0) } ?? .null,
            "link": .string(address), "expiresAt": .int(link.expiresAtSeconds), "mailed": .bool(isMailed),
        ])
    }

    /// A short token with which an administrator sees what the account sees. It can only read.
    private func viewAccount(_ name: String, _ database: DatabaseID) async throws -> Response {
        let account = try account(name, database)
        let grant = people.book.grant(of: account)
        let now = nowSeconds()
        let identity = Identity(
            userID: account.name, databaseID: database, peerKey: nil,
            grant: Grant(read: grant.read, queryLanguage: grant.queryLanguage),
            expiresAtSeconds: now + Limits.viewSeconds, issuedAtSeconds: now, tokenID: AccessToken.newID())
        let token = AccessToken.issue(
            identity, with: try await state.signingKey(of: database), nowSeconds: now)
        return Self.made([
            "accessToken": .string(token), "expiresIn": .int(Limits.viewSeconds),
            "userID": .string(account.name),
        ])
    }

    // MARK: Members of requests

    /// The permissions that a request gives, by themselves or by the name of a set; nil if it gives none.
    func rights(
        _ body: AdminBody, _ database: DatabaseID
    ) throws(AuthGatewayError) -> (permissions: Grant?, set: String?)? {
        switch (body.value("permissions"), body.value("set")) {
        case (nil, nil): return nil
        case (let permissions?, nil), (let permissions?, .null):
            return (permissions == .null ? nil : try AdminBody.grant(permissions), nil)
        case (nil, .null): return (nil, nil)
        case (nil, let set?), (.null, let set?):
            guard let set = set.stringValue,
                state.system.directory.permissionSets["\(database)/\(set)"] != nil
            else { throw AuthGatewayError(.requestMalformed, "the database has no set of this name") }
            return (nil, set)
        default:
            throw AuthGatewayError(.requestMalformed, "give either permissions or set")
        }
    }

    /// A time that must be in the future.
    private func end(_ body: AdminBody, _ name: String) throws(AuthGatewayError) -> Int64? {
        guard let value = body.value(name), value != .null else { return nil }
        guard let seconds = value.intValue, seconds > nowSeconds(), seconds < 1 << 40 else {
            throw AuthGatewayError(
                .requestMalformed, "\(name) must be seconds since 1970, in the future")
        }
        return seconds
    }

    /// An address of mail: it is only handed to the webhook, so it needs no more than an `@`.
    private static func mail(_ body: AdminBody) throws(AuthGatewayError) -> String? {
        guard let value = body.value("mail"), value != .null else { return nil }
        guard let text = value.stringValue, text.contains("@"), text.utf8.count <= Limits.accountNameBytes,
            !text.unicodeScalars.contains(where: { $0.value <= 0x20 || $0.value == 0x7f })
        else { throw AdminBody.missing("mail") }
        return text
    }
}

// MARK: Sets and invitations

extension AdminRoutes {
    private func listSets(_ database: DatabaseID) -> Response {
        let directory = people.book.directory
        let sets = directory.permissionSets.values.filter { $0.databaseID == database }
            .sorted { $0.name < $1.name }
        var counts: [String: Int64] = [:]
        for account in directory.accounts.values where account.databaseID == database {
            if let set = account.set { counts[set, default: 0] += 1 }
        }
        return Self.list(
            "sets",
            sets.map {
                [
                    "name": .string($0.name), "permissions": Self.value(of: $0.permissions),
                    "accounts": .int(counts[$0.name] ?? 0),
                ]
            })
    }

    /// Makes a set or replaces it. Accounts have its permissions from their next login on.
    private func putSet(_ request: Request, _ name: String, _ database: DatabaseID) async throws -> Response {
        let isName = name.utf8.allSatisfy { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                || "._-".utf8.contains(byte)
        }
        guard isName, 1...64 ~= name.utf8.count else {
            throw AuthGatewayError(.requestMalformed, "a set's name has 1 to 64 of a-z, 0-9 and . _ -")
        }
        let body = try await AdminBody(request, known: ["permissions", "endSessions"])
        guard let permissions = body.value("permissions") else { throw AdminBody.missing("permissions") }
        let set = PermissionSetRecord(
            database: database, name: name, permissions: try AdminBody.grant(permissions))
        let endsSessions = try body.flag("endSessions") ?? false
        let directory = people.book.directory
        let count = directory.permissionSets.values.count { $0.databaseID == database }
        guard directory.permissionSets[set.id] != nil || count < Limits.permissionSets else {
            throw AuthGatewayError(.notPossible, "a database has at most \(Limits.permissionSets) sets")
        }
        // A collection that the set no longer names must not stay.
        try await state.system.write { try $0.replace(set) }
        if endsSessions { try await endSessions(ofSet: name, database) }
        return Response(status: .noContent)
    }

    private func deleteSet(_ name: String, _ database: DatabaseID) async throws -> Response {
        let isUsed = people.book.directory.accounts.values.contains {
            $0.databaseID == database && $0.set == name
        }
        guard !isUsed else {
            throw AuthGatewayError(.notPossible, "accounts have this set; give them another one first")
        }
        return try await remove("\(database)/\(name)", PermissionSetRecord.self, of: database)
    }

    private func endSessions(ofSet name: String, _ database: DatabaseID) async throws {
        let now = nowSeconds()
        let ids = people.book.directory.accounts.values.filter { account in
            account.databaseID == database && account.set == name
                && account.sessions.contains { $0.endedAtSeconds == nil && $0.expiresAtSeconds > now }
        }.map(\.id)
        for id in ids {
            try await people.book.change(id) { account, writer in
                try AccountBook.end(of: &account, now, writer) { _ in true }
            }
        }
    }

    private func listInvitations(_ database: DatabaseID) -> Response {
        let now = nowSeconds()
        let links = people.book.directory.accountLinks.values
            .filter { $0.databaseID == database && $0.expiresAtSeconds > now }
            .sorted { ($0.createdAtSeconds, $0.id) < ($1.createdAtSeconds, $1.id) }
        return Self.list("invitations", links.map { AccountViews.link($0) })
    }

    private func createInvitation(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(
            request,
            known: ["provider", "name", "mail", "permissions", "set", "expiresAt", "accountExpiresAt"])
        guard let providerName = try body.text("provider") else { throw AdminBody.missing("provider") }
        let provider = try people.provider(providerName, of: database)
        let now = nowSeconds()
        let ends = try end(body, "expiresAt") ?? now + Limits.invitationSeconds
        guard ends - now <= Limits.longestLinkSeconds else {
            throw AuthGatewayError(.requestMalformed, "expiresAt must be at most 90 days away")
        }
        var (link, token) = people.links.made(in: database, at: providerName, seconds: ends - now)
        if let text = try body.text("name") {
            let name = try people.book.name(text, in: database)
            if let other = people.book.directory.accounts[name.id(in: database)] {
                throw AccountBook.taken(name.text, by: other.name)
            }
            link.name = name.text
        }
        link.mail = try Self.mail(body)
        let rights = try rights(body, database)
        (link.permissions, link.set) = (rights?.permissions, rights?.set)
        link.accountExpiresAtSeconds = try end(body, "accountExpiresAt")
        return try await keep(link, token, request, provider)
    }
}
