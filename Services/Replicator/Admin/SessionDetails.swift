import CRDT
import Foundation
import Hummingbird
import Identity
import ServiceKit

/// `GET …/sessions/SESSION`: one session with its subscriptions and its rights, so that an operator can tell
/// which documents it gets and why.
extension AdminRoutes {
    /// Takes the number of a session or its name, as the end of a session does.
    func show(_ database: DatabaseID, _ name: String) async throws -> Response {
        guard let number = part.names.session(name), let hub = part.openHub(of: database),
            let report = await hub.sessionReports().first(where: { $0.number == number }),
            let identity = await hub.identity(of: number)
        else { throw ReplicatorError.unknownSession }
        let head = try await log.head(of: database).offset
        let grant = (try? JSONEncoder().encode(identity.grant)).map(Array.init) ?? []
        let subscriptions = hub.queries.queries(of: number).map { query -> Value in
            [
                "statement": .string(query.statement.text), "args": .object(query.arguments),
                "collection": .string(query.collection.text),
            ]
        }
        var members = report.value(head: head, at: part.names)
        members["subscriptions"] = .array(subscriptions)
        members["permissions"] = (try? JSONText.parse(grant)) ?? .null
        members["expiresAt"] = .int(identity.expiresAtSeconds)
        members["issuedAt"] = .int(identity.issuedAtSeconds)
        members["tokenID"] = identity.tokenID.map { .string($0) } ?? .null
        return json(.object(members))
    }
}
