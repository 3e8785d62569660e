import CRDT
import Hummingbird
import Identity
import ServiceKit

/// `POST …/explain-access`: may this identity read and write this document, and by which rule.
extension AdminRoutes {
    /// The body has `collection`, `id`, and one of `permissions`, `apiKey` (its id) and `account` (its name).
    /// With `user` or
    /// `peer` a revocation of theirs is found too.
    func explainAccess(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(
            request, known: ["permissions", "apiKey", "account", "user", "peer", "collection", "id"])
        guard let collection = try body.text("collection"), !collection.isEmpty else {
            throw AdminBody.missing("collection")
        }
        guard let value = body.value("id"), let id = try? DocumentID(value) else {
            throw AdminBody.missing("id")
        }
        var refusals: [String] = []
        let grant: Grant
        switch (body.value("permissions"), try body.text("apiKey"), try body.text("account")) {
        case (let permissions?, nil, nil):
            do {
                grant = try WebhookAnswer.grant(permissions)
            } catch {
                throw AuthGatewayError(.requestMalformed, error.reason)
            }
        case (nil, nil, let name?):
            let account = try account(name, database)
            grant = people.book.grant(of: account)
            if let end = account.expiresAtSeconds, nowSeconds() >= end {
                refusals.append("the account's time is over")
            }
            refusals += try refusal(.user, account.name, database)
        case (nil, let key?, nil):
            guard let record = state.system.directory.apiKeys[key], record.databaseID == database else {
                throw AuthGatewayError(.recordUnknown, "the database has no API key with this id")
            }
            grant = record.permissions
            if nowSeconds() >= record.expiresAtSeconds { refusals.append("the API key has expired") }
            refusals += try refusal(.token, key, database)
        default: throw AdminBody.missing("permissions")
        }
        if let user = try body.text("user") { refusals += try refusal(.user, user, database) }
        if let peer = try body.text("peer") { refusals += try refusal(.peer, peer, database) }
        let key = DocumentKey(collection: CollectionName(collection), id: id)
        let answer: Value = [
            "refusals": .array(refusals.map { .string($0) }),
            "read": Self.explanation(grant.read, of: key, grant, side: "read", refusals),
            "write": Self.explanation(grant.write, of: key, grant, side: "write", refusals),
        ]
        return .json(JSONText.print(answer).utf8, headers: [.cacheControl: "no-store"])
    }

    private func refusal(
        _ subject: Revocation.Subject, _ value: String, _ database: DatabaseID
    ) throws -> [String] {
        guard let found = state.system.directory.revocation(of: subject, value, in: database) else {
            return []
        }
        let name = subject == .token ? "API key" : subject.rawValue
        if found.liftedAtSeconds == nil { return ["the \(name) is revoked"] }
        return ["a revocation of the \(name) was lifted: tokens from before that stay invalid"]
    }

    private static func explanation(
        _ rules: AccessRules, of key: DocumentKey, _ grant: Grant, side: String, _ refusals: [String]
    ) -> Value {
        let rights = (try? CompiledGrant(grant)) ?? .nothing
        let isAllowed = (side == "read" ? rights.read : rights.write).allows(key)
        let revoked = refusals.filter { !$0.hasPrefix("a revocation") }
        let queries = rules.queriesByCollection[key.collection] ?? []
        let holding = queries.filter { query in
            let one = Grant(
                read: AccessRules(everything: false, queriesByCollection: [key.collection: [query]]),
                queryLanguage: grant.queryLanguage)
            return (try? CompiledGrant(one))?.read.allows(key) ?? false
        }
        let reason: String
        if isAllowed, rules.everything {
            reason = "\(side).everything is true"
        } else if isAllowed, let query = holding.first {
            reason = "\(side).queriesByCollection lists this query for the collection, and it holds: \(query)"
        } else if key.collection.text.hasPrefix(CompiledRules.serversOwn) {
            reason = "the collection is the server's own, which no grant covers"
        } else if queries.isEmpty {
            reason =
                "\(side).everything is not true, and \(side).queriesByCollection does not list the collection"
        } else {
            reason =
                "none of the collection's \(queries.count) queries holds for the id: "
                + queries.prefix(5).joined(separator: "; ")
        }
        return [
            "allowed": .bool(isAllowed && revoked.isEmpty),
            "reason": .string(revoked.first ?? reason),
        ]
    }
}
