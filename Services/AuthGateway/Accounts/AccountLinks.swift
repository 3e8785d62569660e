import CRDT
import Foundation
import Identity
import ServiceKit

/// Links that work once: invitations, and resets of a password.
///
/// A link is `ORIGIN/#/welcome/ID_SECRET`. The part after `#` reaches no server with a request for the page,
/// and stands in no log.
struct AccountLinks: Sendable {
    let book: AccountBook
    let nowSeconds: @Sendable () -> Int64

    /// A new link's record and its secret text.
    func made(
        in database: DatabaseID, at provider: String, seconds: Int64
    ) -> (record: AccountLinkRecord, token: String) {
        let (key, now) = (APIKey(), nowSeconds())
        let record = AccountLinkRecord(
            id: key.id, database: database, provider: provider, secretHash: key.secretHash,
            createdAtSeconds: now, expiresAtSeconds: now + seconds)
        return (record, key.text)
    }

    /// Keeps a link, and forgets those of its database that are over.
    /// - Parameter endsOthers: true if earlier links of the same account end.
    /// - Throws: `AUTH-0412` if there are too many.
    func keep(_ link: AccountLinkRecord, endsOthers: Bool) async throws {
        let (now, directory) = (nowSeconds(), book.directory)
        let all = directory.accountLinks.values.filter { $0.databaseID == link.databaseID }
        let over = all.filter {
            $0.expiresAtSeconds <= now || endsOthers && $0.account != nil && $0.account == link.account
        }
        guard all.count - over.count < Limits.accountLinks else {
            throw AuthGatewayError(
                .notPossible, "the database has \(Limits.accountLinks) links; delete some that nobody uses")
        }
        try await book.state.system.write { writer in
            for old in over.prefix(Limits.recordsPerWrite) {
                try writer.remove(old.id, AccountLinkRecord.self)
            }
            try writer.put(link)
        }
    }

    /// A link that may be used now.
    /// - Throws: `AUTH-0419`, the same for all others.
    func record(of token: String) throws(AuthGatewayError) -> AccountLinkRecord {
        guard let key = APIKey(token), let link = book.directory.accountLinks[key.id],
            ConstantTime.equal(key.secretHash, link.secretHash), nowSeconds() < link.expiresAtSeconds,
            book.directory.database(link.databaseID) != nil
        else { throw Self.refused }
        return link
    }

    /// Uses a link: sets the password of its account, which an invitation makes.
    /// - Parameter name: chosen by an invited person; needed where the invitation has none.
    /// - Returns: the account's name.
    /// - Throws: `AUTH-0413`, `AUTH-0417` to `AUTH-0419`.
    func use(
        _ link: AccountLinkRecord, name: String?, password: String, from network: String
    ) async throws -> String {
        let (now, database) = (nowSeconds(), link.databaseID)
        guard let account = link.account else {
            guard let text = link.name ?? name else {
                throw AuthGatewayError(.credentialsUnsuitable, "the invitation needs a name")
            }
            let name = try book.name(text, in: database)
            let id = name.id(in: database)
            if let other = book.directory.accounts[id] { throw AccountBook.taken(name.text, by: other.name) }
            let hash = try await book.hash(password, for: network)
            var made = AccountRecord(
                id: id, database: database, provider: link.provider, name: name.text,
                mail: link.mail ?? (name.text.contains("@") ? name.text : nil), permissions: link.permissions,
                set: link.set, createdAtSeconds: now, expiresAtSeconds: link.accountExpiresAtSeconds)
            made.passwordHash = hash
            try await book.state.system.write { [made] writer in
                try take(link, writer)
                try book.create(made, liftsRevocation: link.name != nil, writer)
            }
            return name.text
        }
        let hash = try await book.hash(password, for: network)
        let others = book.directory.accountLinks.values
            .filter { $0.account == account && $0.id != link.id }.map(\.id)
        try await book.change(account) { account, writer in
            try take(link, writer)
            for other in others { try writer.remove(other, AccountLinkRecord.self) }
            account.passwordHash = hash
            // Whoever has the old password may be the reason for the reset.
            try AccountBook.end(of: &account, now, writer) { _ in true }
        }
        return link.name ?? ""
    }

    /// Two who use a link at once: the second finds it gone.
    private func take(_ link: AccountLinkRecord, _ writer: SystemWriter) throws {
        guard try writer.get(link.id, as: AccountLinkRecord.self) != nil else { throw Self.refused }
        try writer.remove(link.id, AccountLinkRecord.self)
    }

    /// The address for a person.
    static func address(_ token: String, origin: String) -> String { "\(origin)/#/welcome/\(token)" }

    static let refused = AuthGatewayError(
        .linkRefused, "the link was used, has ended, or was never made; ask for another one")
}
