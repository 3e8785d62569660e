import CRDT
import DQL
import Hummingbird
import ServiceKit

/// A question of `POST …/explain-subscription`: does a document belong to a subscription, and if not, why.
///
/// Rights are not part of it: `explain-access` of the auth-gateway tells them.
struct SubscriptionTest: Sendable {
    let subscription: SubscriptionQuery
    let key: DocumentKey
    /// The device's sync scope for the collection.
    let scope: SyncScope

    /// A step on the document's way to the device.
    struct Check: Sendable {
        let name: String
        let passes: Bool
        let reason: String

        init(_ name: String, _ passes: Bool, _ reason: String) {
            (self.name, self.passes, self.reason) = (name, passes, reason)
        }

        var value: Value { ["check": .string(name), "passes": .bool(passes), "reason": .string(reason)] }
    }

    /// - Throws: `QUERY-0101`, and `DQL-…` for a statement that is no subscription.
    init(_ request: Request) async throws {
        let body = try await request.wholeBody(limitBytes: Limits.subscriptionTestBytes)
        let members: ObjectValue
        do {
            members = try RequestObject(
                body.readableBytesView, known: ["subscription", "args", "scope", "collection", "id"]
            ).members
        } catch {
            throw QueryError(.malformedRequest, error.message)
        }
        guard let text = members["subscription"]?.stringValue, !text.isEmpty else {
            throw QueryError(.malformedRequest, "\"subscription\" must be a SELECT")
        }
        guard let collection = members["collection"]?.stringValue, !collection.isEmpty else {
            throw QueryError(.malformedRequest, "\"collection\" must be a name")
        }
        guard let value = members["id"], let id = try? DocumentID(value) else {
            throw QueryError(.malformedRequest, "\"id\" must be the id of a document")
        }
        key = DocumentKey(collection: CollectionName(collection), id: id)
        let arguments = members["args"].flatMap { $0 == .null ? nil : $0 }
        guard let arguments = arguments.map(\.objectValue) ?? ObjectValue() else {
            throw QueryError(.malformedRequest, "\"args\" must be an object")
        }
        let name = members["scope"].flatMap { $0 == .null ? nil : $0 } ?? .string(SyncScope.allPeers.rawValue)
        guard let scope = name.stringValue.flatMap(SyncScope.init(rawValue:)) else {
            let all = SyncScope.allCases.map(\.rawValue).joined(separator: ", ")
            throw QueryError(.malformedRequest, "\"scope\" must be one of \(all)")
        }
        self.scope = scope
        subscription = try SubscriptionQuery(statement: text, arguments: arguments, isRestricted: false)
    }

    /// The checks, in the order in which the first that fails is the reason.
    func checks(in documents: any ProjectedDocuments, _ evaluation: Evaluation) throws -> [Check] {
        var checks = [collectionCheck, scopeCheck]
        let isWindowed = subscription.isWindowed
        var matches: Bool?
        try documents.lookup(key.collection, key.id) { record in
            guard subscription.collection == key.collection else {
                matches = false
                return
            }
            matches = try subscription.matches(record) { evaluation.interruption() }
        }
        checks.append(
            Check(
                "document", matches != nil,
                matches != nil ? "it exists" : "there is no such document: it was deleted, or never was"))
        guard let matches, subscription.collection == key.collection else { return checks }
        checks.append(
            Check(
                "condition", matches,
                matches ? "the document fits the subscription" : "the document does not fit its WHERE"))
        guard matches, isWindowed else { return checks }
        let isInside = try subscription.initialDocumentIDs(in: documents).contains(key.id)
        checks.append(
            Check(
                "window", isInside,
                isInside
                    ? "it is within the subscription's LIMIT"
                    : "it is outside of the subscription's LIMIT: other documents come before it"))
        return checks
    }

    private var collectionCheck: Check {
        let wanted = subscription.collection
        let isSame = wanted == key.collection
        return Check(
            "collection", isSame,
            isSame ? "the subscription is to its collection" : "the subscription is to \(wanted.text)")
    }

    private var scopeCheck: Check {
        let isSent = scope == .allPeers || scope == .bigPeerOnly
        return Check(
            "scope", isSent,
            isSent
                ? "the device syncs the collection with servers (\(scope.rawValue))"
                : "the device keeps the collection from servers (\(scope.rawValue))")
    }
}
