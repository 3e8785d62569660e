import CRDT
import HTTPTypes
import Hummingbird
import Identity
import OperationLog
import ServiceKit
import Synchronization

/// The routes that read the log: changes and history.
struct FeedRoutes: Sendable {
    let log: any OperationLog
    let authenticator: Authenticator
    let past: Past
    let slots: StreamSlots
    let projection: @Sendable (DatabaseID) async throws -> Projection
    /// True once the service stops: streams end, so that it does not wait for them.
    let isDraining: @Sendable () -> Bool

    func mount(on mount: inout ServiceMount) {
        mount.on(.get, "/api/v5/changes") { request, context in try await changes(request, context) }
        mount.on(.get, "/api/v5/history/:collection/:id") { request, context in
            try await history(request, context)
        }
    }

    /// The identity of a request whose database exists.
    func identity(of request: Request) async throws -> Identity {
        let identity = try await authenticator.identity(for: request)
        guard try await log.databaseExists(identity.databaseID) else { throw QueryError(.unknownDatabase) }
        return identity
    }

    /// The reason why a stream of this identity must end now.
    func end(of identity: Identity) -> (any HTTPReportable)? {
        if isDraining() { return QueryError(.unavailable, "the service stops; connect again") }
        return authenticator.refusal(of: identity)
    }

    private func changes(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let identity = try await identity(of: request)
        let wanted = try ChangeRequest(request, identity)
        let slot = try slots.take(identity)
        let projection = try await projection(identity.databaseID)
        try await projection.beginFollowing()
        let feed = ChangeFeed(
            request: wanted, database: identity.databaseID, projection: projection, past: past,
            end: { end(of: identity) })
        let bounds = try await feed.bounds()
        var headers: HTTPFields = [:]
        // A feed that ends by itself has read so far, whatever its filter has left of it.
        if !wanted.isContinuous, wanted.limit == nil, let name = HTTPField.Name("X-DITTO-TXN-ID") {
            headers[name] = "\(max(bounds.begin, min(bounds.until, bounds.head)))"
        }
        return StreamWriter.response(wanted.format, headers: headers, context) { stream in
            try await feed.run(from: bounds, to: &stream)
            withExtendedLifetime(slot) {}
        }
    }

    private func history(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let identity = try await identity(of: request)
        let wanted = try HistoryRequest(request, context)
        let (database, key) = (identity.databaseID, wanted.key)
        // The same answer for every id, so that the client does not learn whether the document exists.
        guard identity.rights.read.allows(key) else {
            throw QueryError(.readNotGranted, "this document of \(key.collection)")
        }
        let history = DocumentHistory(
            key: key, database: database, past: past, deadline: .now + Limits.historyTime)
        if let point = wanted.at {
            let offset = try await past.offset(of: point, in: database)
            let found = try await history.find(through: offset, limit: 0)
            let document = try found.state.flatMap { try $0.visibleDocument(key.id) }
            var body = ObjectValue([
                (key: "transactionId", value: .int(Int64(clamping: offset.rawValue))),
                (key: "document", value: document ?? .null),
            ])
            body.noteUnwritableNumber()
            return .json(JSONText.print(.object(body)).utf8, headers: [.cacheControl: "no-store"])
        }
        let head = try await log.head(of: database).offset
        let last = min(wanted.before.map(\.previous) ?? .max, head)
        let found = try await history.find(through: last, limit: wanted.limit)
        var authors: [ActorID: String] = [:]
        for actor in Set(found.entries.map(\.stamp.actor)) {
            authors[actor] = try await log.frontier(of: [actor], in: database)[actor]?.authorKey
        }
        let offsets = Dictionary(
            found.entries.map { ($0.stamp, $0.offset) }, uniquingKeysWith: { first, _ in first })
        let entries = try found.entries.reversed().map {
            try $0.value(author: authors[$0.stamp.actor] ?? "", offsets: offsets)
        }
        let body: Value = [
            "collection": .string(key.collection.text), "id": key.id.value, "entries": .array(entries),
            "more": .bool(found.hasMore), "oldest": .int(Int64(clamping: found.oldest.rawValue)),
            "complete": .bool(found.oldest == 0),
        ]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }
}
