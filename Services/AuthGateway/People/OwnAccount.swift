import CRDT
import Hummingbird
import Identity
import ServiceKit

/// An account's own routes: everything that a person may see and change of it.
extension PeopleRoutes {
    /// The account whose session sent a request.
    /// - Throws: `AUTH-0404` for the token of another kind of login.
    private func own(_ request: Request) async throws -> (account: AccountRecord, identity: Identity) {
        let identity = try await authenticator.identity(for: request)
        guard let name = AccountName(identity.userID), let id = identity.tokenID,
            let account = book.account(name, in: identity.databaseID),
            account.sessions.contains(where: { utf8Equal($0.id, id) })
        else {
            throw AuthGatewayError(.loginRefused, "this is the session of no account: sign in with a name")
        }
        return (account, identity)
    }

    func showOwn(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let (account, identity) = try await own(request)
        let sessions = AccountViews.sessions(account, nowSeconds(), current: identity.tokenID)
        return Self.answer([
            "name": .string(account.name), "provider": .string(account.provider),
            "databaseID": .string(account.databaseID.text),
            "mail": account.mail.map { .string($0) } ?? .null,
            "set": account.set.map { .string($0) } ?? .null,
            "permissions": AdminRoutes.value(of: identity.grant),
            "expiresAt": account.expiresAtSeconds.map { .int($0) } ?? .null,
            "secondFactor": .bool(account.hasSecondFactor), "sessions": .array(sessions),
            "devices": .array(devices(of: identity).map { AccountViews.device($0) }),
        ])
    }

    func changePassword(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let (account, identity) = try await own(request)
        (entry.user, entry.database) = (account.name, account.databaseID.text)
        let body = try await AdminBody(request, known: ["password", "newPassword", "code", "endSessions"])
        guard let new = try body.text("newPassword") else { throw AdminBody.missing("newPassword") }
        let endsSessions = try body.flag("endSessions") ?? false
        let step = try await prove(account, body, request, context)
        let (hash, now) = (try await book.hash(new, for: network(request, context)), nowSeconds())
        try await book.change(account.id) { [proven = account] account, writer in
            try Self.requireUnchanged(&account, since: proven, step)
            account.passwordHash = hash
            guard endsSessions else { return }
            try AccountBook.end(of: &account, now, writer) { $0.id != identity.tokenID }
        }
        return Response(status: .noContent)
    }

    /// Begins, confirms or ends the second factor.
    func secondFactor(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let (account, _) = try await own(request)
        (entry.user, entry.database) = (account.name, account.databaseID.text)
        let body = try await AdminBody(request, known: ["password", "code", "off"])
        let isOff = try body.flag("off") ?? false
        guard account.hasSecondFactor == isOff else {
            throw AuthGatewayError(
                .notPossible, isOff ? "there is no second factor" : "end the second factor before another one"
            )
        }
        let step = try await prove(account, body, request, context)
        if isOff {
            try await book.change(account.id) { [proven = account] account, _ in
                try Self.requireUnchanged(&account, since: proven, step)
                (account.sealedSecondFactor, account.hasSecondFactor) = (nil, false)
            }
            return Response(status: .noContent)
        }
        if let code = try body.text("code") {
            guard let sealed = account.sealedSecondFactor else {
                throw AuthGatewayError(.notPossible, "ask for a secret first, without a code")
            }
            let secret = try book.state.sealer.open(sealed, at: Sealer.place(account.id))
            guard
                let step = OneTimeCode.step(
                    of: code, secret: secret, after: account.lastCodeStep, nowSeconds: nowSeconds())
            else { throw AuthGatewayError(.loginRefused, "the code is wrong, or was used") }
            try await book.change(account.id) { [proven = account] account, _ in
                try Self.requireUnchanged(&account, since: proven, step)
                account.hasSecondFactor = true
            }
            return Response(status: .noContent)
        }
        let secret = OneTimeCode.newSecret()
        try await book.change(account.id) { [book, proven = account] account, _ in
            try Self.requireUnchanged(&account, since: proven, nil)
            account.sealedSecondFactor = try book.state.sealer.box().seal(
                secret, at: Sealer.place(account.id))
            // No code of a new secret has counted. The clock may have been ahead when one of another did.
            account.lastCodeStep = 0
        }
        let uri = OneTimeCode.uri(secret, name: account.name, issuer: account.databaseID.text)
        return Self.answer(["secret": .string(secret), "uri": .string(uri)])
    }

    /// Refuses a change when password or second factor is another one than was proven, as after a reset
    /// meanwhile, and when the code has counted meanwhile; counts it otherwise.
    private static func requireUnchanged(
        _ account: inout AccountRecord, since proven: AccountRecord, _ step: Int64?
    ) throws(AuthGatewayError) {
        guard account.passwordHash == proven.passwordHash,
            account.hasSecondFactor == proven.hasSecondFactor,
            account.sealedSecondFactor == proven.sealedSecondFactor, step ?? .max > account.lastCodeStep
        else { throw AccountBook.changedMeanwhile }
        account.lastCodeStep = step ?? account.lastCodeStep
    }

    /// Checks password and code of a request. With a second factor the code is needed.
    /// - Returns: the time step of the code.
    private func prove(
        _ account: AccountRecord, _ body: AdminBody, _ request: Request, _ context: ServiceContext
    ) async throws -> Int64? {
        guard let text = try body.text("password") else { throw AdminBody.missing("password") }
        let refused = AuthGatewayError(.loginRefused, "the password or the code is wrong")
        guard let password = PasswordHash.bytes(of: text), let name = AccountName(account.name) else {
            throw refused
        }
        let (found, step) = try await book.proven(
            name, password, account.hasSecondFactor ? try body.text("code") : nil,
            in: account.databaseID, at: account.provider, from: network(request, context))
        guard found != nil else { throw refused }
        return step
    }

    func endOwn(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let (account, _) = try await own(request)
        (entry.user, entry.database) = (account.name, account.databaseID.text)
        try await book.endSession(try context.parameters.require("session"), of: account)
        return Response(status: .noContent)
    }
}

// MARK: Devices

extension PeopleRoutes {
    /// The devices that act for the user of an identity.
    private func devices(of identity: Identity) -> [APIKeyRecord] {
        book.directory.apiKeys.values.filter { key in
            key.databaseID == identity.databaseID
                && key.device?.user.map { utf8Equal($0, identity.userID) } == true
        }.sorted { ($0.createdAtSeconds, $0.id) < ($1.createdAtSeconds, $1.id) }
    }

    /// Whoever is signed in: a person, and neither a device nor an administrator who looks at an account.
    /// - Throws: `AUTH-0404` for an API key, a login with one, and the token of a look.
    private func person(_ request: Request) async throws -> Identity {
        let identity = try await authenticator.identity(for: request)
        let isKey = identity.tokenID.map { AccessToken.apiKey(ofID: $0) != nil } ?? true
        guard identity.signedBy != nil, !isKey else {
            throw AuthGatewayError(.loginRefused, "an API key answers for no device: sign in as a person")
        }
        // Users of other providers have no account here, and no list of sessions.
        guard let name = AccountName(identity.userID), utf8Equal(name.text, identity.userID),
            book.account(name, in: identity.databaseID) != nil
        else { return identity }
        return try await own(request).identity
    }

    func removeOwn(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let identity = try await person(request)
        (entry.user, entry.database) = (identity.userID, identity.databaseID.text)
        let id = try context.parameters.require("device")
        guard devices(of: identity).contains(where: { utf8Equal($0.id, id) }) else {
            throw AuthGatewayError(.recordUnknown, "you have no device with this id")
        }
        try await book.state.system.write { try $0.remove(id, APIKeyRecord.self) }
        return Response(status: .noContent)
    }

    func showJoin(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let identity = try await person(request)
        let join = try joins.waiting(try context.parameters.require("code"), in: identity.databaseID)
        return Self.answer(AccountViews.join(join))
    }

    /// Approves or denies a device. It gets no more than the person has.
    func answerJoin(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let identity = try await person(request)
        (entry.user, entry.database) = (identity.userID, identity.databaseID.text)
        let code = try context.parameters.require("code")
        let body = try await AdminBody(request, known: ["name", "permissions", "deny"])
        let join = try joins.waiting(code, in: identity.databaseID)
        entry.peer = join.peerKey
        var grant = identity.grant
        if let permissions = body.value("permissions"), permissions != .null {
            grant = try AdminBody.grant(permissions)
            guard identity.grant.covers(grant) else {
                throw AuthGatewayError(
                    .requestMalformed, "a device gets no more than you have: each query of yours, or fewer")
            }
        }
        let answer = JoinAnswer(
            isApproved: try body.flag("deny") != true, by: identity.userID, user: identity.userID,
            name: try AdminBody.deviceName(try body.text("name") ?? join.name), permissions: grant)
        try await joins.answer(code, in: identity.databaseID, answer)
        return Response(status: .noContent)
    }

    /// A device asks for its codes.
    func beginJoin(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let body = try await AdminBody(request, known: ["databaseID", "name", "peerKey"])
        guard let database = try body.text("databaseID").map({ DatabaseID($0) }) else {
            throw AdminBody.missing("databaseID")
        }
        let name = try AdminBody.deviceName(try body.text("name") ?? "device")
        let peerKey = try body.text("peerKey")
        if let peerKey {
            do { try PeerKey.validate(publicKeyString: peerKey) } catch {
                throw AuthGatewayError(.requestMalformed, error.message)
            }
        }
        (entry.database, entry.peer) = (database.text, peerKey)
        let (join, deviceCode) = try await joins.begin(
            in: database, name: name, peerKey: peerKey,
            from: request.source(context, trustsProxy: trustsProxy))
        let code = String(join.id.split(separator: "/")[1])
        let page = "\(origin(of: request))/#/join"
        return Self.answer([
            "deviceCode": .string(deviceCode), "userCode": .string(code), "verificationURI": .string(page),
            "verificationURIComplete": .string("\(page)/\(database)/\(code)"),
            "expiresIn": .int(Limits.joinSeconds), "interval": .int(Limits.joinInterval),
        ])
    }

    /// A device asks whether a person has answered.
    func joinKey(
        _ request: Request, _ context: ServiceContext, _ entry: inout AuditEntry
    ) async throws -> Response {
        let body = try await AdminBody(request, known: ["deviceCode"])
        guard let code = try body.text("deviceCode") else { throw AdminBody.missing("deviceCode") }
        let (key, record) = try await joins.key(for: code)
        (entry.database, entry.user, entry.peer) = (
            record.databaseID.text, record.user, record.device?.peerKey
        )
        return Self.answer([
            "apiKey": .string(key.text), "provider": .string(KeyLogin.provider), "name": .string(record.name),
            "databaseID": .string(record.databaseID.text), "expiresAt": .int(record.expiresAtSeconds),
        ])
    }
}

extension AdminBody {
    /// A permissions object.
    /// - Throws: `AUTH-0401`.
    static func grant(_ value: Value) throws(AuthGatewayError) -> Grant {
        do {
            return try WebhookAnswer.grant(value)
        } catch {
            throw AuthGatewayError(.requestMalformed, error.reason)
        }
    }

    /// The name of a device: visible characters and spaces.
    /// - Throws: `AUTH-0401`.
    static func deviceName(_ text: String) throws(AuthGatewayError) -> String {
        let isVisible = text.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .surrogate, .unassigned, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
        guard isVisible, text.contains(where: { !$0.isWhitespace }), text.utf8.count <= Limits.deviceNameBytes
        else {
            throw AuthGatewayError(
                .requestMalformed,
                "a device's name has 1 to \(Limits.deviceNameBytes) bytes of visible characters")
        }
        return text
    }
}
