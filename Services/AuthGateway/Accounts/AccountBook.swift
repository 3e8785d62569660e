import CRDT
import Foundation
import Identity
import Logging
import ServiceKit

/// The accounts of all databases: logs them in, and changes their records.
///
/// The system database has the truth. A login is answered in the same way, and after the same work, whether
/// its name is an account's or not: until the password was right, nothing tells more than `AUTH-0404` and
/// `AUTH-0414`, and both come for unknown names too.
struct AccountBook: Sendable {
    let state: GatewayState
    let hashes: HashPool
    let limiter: AccountLimiter
    let mail: AccountMail
    let nowSeconds: @Sendable () -> Int64

    var directory: SystemDirectory { state.system.directory }

    // MARK: Logging in

    /// Answers a login, and begins a session of the account.
    /// - Throws: `AUTH-0408`, `AUTH-0413` to `AUTH-0416`, and the log's errors.
    func answer(
        _ login: LoginRequest, at provider: AccountsProvider, from address: String
    ) async throws -> ProviderAnswer {
        let token = AccountToken(login.token)
        guard let name = token.name, let password = token.password else { return .refused(clientInfo: nil) }
        let network = AttemptLimiter.network(of: address)
        let (account, step) = try await proven(
            name, password, token.code, in: login.databaseID, at: provider.name, from: network)
        guard let account else { return .refused(clientInfo: nil, userID: name.text) }
        if let held = directory.revocation(of: .user, account.name, in: login.databaseID),
            held.liftedAtSeconds == nil
        {
            throw AuthGatewayError(.loginRevoked, "this user was revoked; an administrator may lift that")
        }
        let now = nowSeconds()
        let seconds = min(provider.seconds, (account.expiresAtSeconds ?? .max) - now)
        let session = AccountSession(
            id: AccessToken.newID(), createdAtSeconds: now, expiresAtSeconds: now + seconds, address: address,
            peerKey: login.peerKey)
        let rehashed = try await rehash(account, password, network)
        // Revocations of tokens that have expired everywhere.
        let over = directory.revocations.values.filter { $0.endsAtSeconds.map { $0 <= now } ?? false }
        try await state.system.write { [account] writer in
            for revocation in over.prefix(Limits.recordsPerWrite) {
                try writer.remove(revocation.id, Revocation.self)
            }
            guard var current = try writer.get(account.id, as: AccountRecord.self),
                current.passwordHash == account.passwordHash, step ?? .max > current.lastCodeStep,
                step != nil || !current.hasSecondFactor
            else { throw Self.changedMeanwhile }
            current.passwordHash = rehashed ?? current.passwordHash
            current.lastCodeStep = step ?? current.lastCodeStep
            current.networks = Array(
                (current.networks.filter { !utf8Equal($0, network) } + [network])
                    .suffix(Limits.accountNetworks))
            try Self.begin(session, of: &current, now, writer)
            try writer.put(current)
        }
        return .accepted(
            AcceptedLogin(
                userID: account.name, seconds: seconds, grant: grant(of: account),
                clientInfo: ["name": .string(account.name), "secondFactor": .bool(account.hasSecondFactor)],
                tokenID: session.id))
    }

    /// The account whose password this is, and the time step of the code; nil for wrong ones.
    /// - Throws: `AUTH-0413` to `AUTH-0416`.
    func proven(
        _ name: AccountName, _ password: [UInt8], _ code: String?, in database: DatabaseID,
        at provider: String, from network: String
    ) async throws -> (account: AccountRecord?, step: Int64?) {
        let id = name.id(in: database)
        let found = account(name, in: database).flatMap { utf8Equal($0.provider, provider) ? $0 : nil }
        try limiter.begin(
            id, from: network, isKnown: found?.networks.contains { utf8Equal($0, network) } ?? false)
        do {
            let hash = found?.passwordHash
            let isRight = try await hashes.run(for: network) { () throws(AuthGatewayError) in
                try PasswordHash.verify(password, hash ?? PasswordHash.nobodys) && hash != nil
            }
            guard isRight, let found else {
                limiter.end(id, from: network, failed: true)
                return (nil, nil)
            }
            if let end = found.expiresAtSeconds, nowSeconds() >= end {
                throw AuthGatewayError(.accountExpired, "the account's time is over; ask an administrator")
            }
            guard found.hasSecondFactor, let sealed = found.sealedSecondFactor else {
                limiter.end(id, from: network, failed: false)
                return (found, nil)
            }
            guard let code else {
                throw AuthGatewayError(
                    .secondFactorNeeded,
                    "the second factor is needed: the token {\"name\", \"password\", \"code\"}"
                )
            }
            let secret = try state.sealer.open(sealed, at: Sealer.place(found.id))
            let step = OneTimeCode.step(
                of: code, secret: secret, after: found.lastCodeStep, nowSeconds: nowSeconds())
            limiter.end(id, from: network, failed: step == nil)
            return step == nil ? (nil, nil) : (found, step)
        } catch {
            limiter.end(id, from: network, failed: nil)
            throw error
        }
    }

    /// The account with this very name; nil if there is none.
    func account(_ name: AccountName, in database: DatabaseID) -> AccountRecord? {
        directory.accounts[name.id(in: database)].flatMap { utf8Equal($0.name, name.text) ? $0 : nil }
    }

    /// The permissions of an account: its own, or those of its set. A set that is gone grants nothing.
    func grant(of account: AccountRecord) -> Grant {
        if let set = account.set {
            return directory.permissionSets["\(account.databaseID)/\(set)"]?.permissions ?? .nothing
        }
        return account.permissions ?? .nothing
    }

    /// A hash with the present parameters; nil if the account's has them.
    private func rehash(
        _ account: AccountRecord, _ password: [UInt8], _ network: String
    ) async throws -> String? {
        guard let hash = account.passwordHash, PasswordHash.isOutdated(hash) else { return nil }
        return try await hashes.run(for: network) { () throws(AuthGatewayError) in
            try PasswordHash.make(password)
        }
    }

    // MARK: Sessions

    /// Adds a session, forgets those that are over, and ends the oldest if there are too many.
    static func begin(
        _ session: AccountSession, of account: inout AccountRecord, _ now: Int64, _ writer: SystemWriter
    ) throws {
        account.sessions.removeAll { $0.expiresAtSeconds <= now }
        let live = account.sessions.filter { $0.endedAtSeconds == nil }
        let surplus = Set(live.prefix(max(0, live.count - Limits.accountSessions + 1)).map(\.id))
        try end(of: &account, now, writer) { surplus.contains($0.id) }
        account.sessions.append(session)
        // One that goes on is never forgotten: nothing else could end it.
        var ended = account.sessions.count { $0.endedAtSeconds != nil }
        account.sessions.removeAll {
            guard $0.endedAtSeconds != nil, ended > Limits.keptEndedSessions else { return false }
            ended -= 1
            return true
        }
    }

    /// Ends sessions of an account at once, in every service.
    static func end(
        of account: inout AccountRecord, _ now: Int64, _ writer: SystemWriter,
        where isMeant: (AccountSession) -> Bool
    ) throws {
        for index in account.sessions.indices {
            let session = account.sessions[index]
            guard session.endedAtSeconds == nil, session.expiresAtSeconds > now, isMeant(session) else {
                continue
            }
            account.sessions[index].endedAtSeconds = now
            // Another service's clock may be behind, and this one may be set back.
            try writer.put(
                Revocation(
                    database: account.databaseID, subject: .token, value: session.id, sinceSeconds: now,
                    endsAtSeconds: session.expiresAtSeconds + Limits.endedSessionSeconds))
        }
    }

    /// Ends one session.
    /// - Throws: `AUTH-0411` if the account has no such one.
    func endSession(_ id: String, of account: AccountRecord) async throws {
        let now = nowSeconds()
        try await change(account.id) { account, writer in
            guard
                account.sessions.contains(where: {
                    utf8Equal($0.id, id) && $0.endedAtSeconds == nil && $0.expiresAtSeconds > now
                })
            else { throw AuthGatewayError(.recordUnknown, "the account has no session with this id") }
            try Self.end(of: &account, now, writer) { utf8Equal($0.id, id) }
        }
    }

    // MARK: Records

    /// Makes an account.
    /// - Parameter liftsRevocation: true if it may have the name of a user who was revoked, or removed.
    /// - Throws: `AUTH-0418` if one of this name or a look-alike exists.
    func create(_ account: AccountRecord, liftsRevocation: Bool, _ writer: SystemWriter) throws {
        if let other = try writer.get(account.id, as: AccountRecord.self) {
            throw Self.taken(account.name, by: other.name)
        }
        let id = Revocation.id(account.databaseID, .user, account.name)
        if var revocation = try writer.get(id, as: Revocation.self), revocation.liftedAtSeconds == nil {
            guard liftsRevocation else { throw Self.taken(account.name, by: account.name) }
            revocation.liftedAtSeconds = nowSeconds()
            try writer.put(revocation)
        }
        try writer.put(account)
    }

    /// Changes an account.
    /// - Throws: `AUTH-0411` if it is gone.
    func change(
        _ id: String, _ body: @escaping @Sendable (inout AccountRecord, SystemWriter) throws -> Void
    ) async throws {
        try await state.system.write { writer in
            guard var account = try writer.get(id, as: AccountRecord.self) else { throw Self.unknown }
            try body(&account, writer)
            // A right or a second factor that was taken away must not stay.
            try writer.replace(account)
        }
    }

    /// Removes an account for good: its sessions, its devices and its links end at once.
    func remove(_ account: AccountRecord) async throws {
        let (now, directory) = (nowSeconds(), directory)
        let (database, name) = (account.databaseID, account.name)
        try await state.system.write { writer in
            guard try writer.get(account.id, as: AccountRecord.self) != nil else { throw Self.unknown }
            try writer.remove(account.id, AccountRecord.self)
            let revocation = Revocation(database: database, subject: .user, value: name, sinceSeconds: now)
            // One that was lifted holds again.
            try writer.replace(revocation)
            for key in directory.apiKeys.values
            where key.databaseID == database && key.device?.user.map({ utf8Equal($0, name) }) == true {
                try writer.remove(key.id, APIKeyRecord.self)
            }
            for link in directory.accountLinks.values where link.account == account.id {
                try writer.remove(link.id, AccountLinkRecord.self)
            }
            for join in directory.joins.values
            where join.databaseID == database && join.answer?.user.map({ utf8Equal($0, name) }) == true {
                try writer.remove(join.id, JoinRecord.self)
            }
        }
    }

    /// Hashes a new password.
    /// - Throws: `AUTH-0413`, `AUTH-0417`.
    func hash(_ password: String, for network: String) async throws -> String {
        guard PasswordHash.isChoosable(password), let bytes = PasswordHash.bytes(of: password) else {
            throw AuthGatewayError(
                .credentialsUnsuitable,
                "a password has at least \(Limits.passwordCharacters) characters and at most "
                    + "\(Limits.passwordBytes) bytes")
        }
        return try await hashes.run(for: network) { () throws(AuthGatewayError) in
            try PasswordHash.make(bytes)
        }
    }

    /// A name that a person gives.
    /// - Throws: `AUTH-0417` for a text that is none, `AUTH-0418` for one that means something else.
    func name(_ text: String, in database: DatabaseID) throws(AuthGatewayError) -> AccountName {
        guard let name = AccountName(text) else {
            throw AuthGatewayError(.credentialsUnsuitable, "a name has \(AccountName.form)")
        }
        // An anonymous provider's name is the user of all its logins.
        let isProvider = directory.providers["\(database)/\(name.text)"] != nil
        guard !isProvider, !DevelopmentProvider.names.contains(name.text) else {
            throw AuthGatewayError(.nameTaken, "a login provider has this name; choose another one")
        }
        return name
    }

    static func taken(_ name: String, by other: String) -> AuthGatewayError {
        AuthGatewayError(
            .nameTaken,
            utf8Equal(name, other)
                ? "an account has or had this name; choose another one"
                : "an account has a name that looks like this one; choose another one")
    }

    static let changedMeanwhile = AuthGatewayError(
        .loginRefused, "the account was changed meanwhile; try again")

    static let unknown = AuthGatewayError(.recordUnknown, "the database has no account of this name")
}
