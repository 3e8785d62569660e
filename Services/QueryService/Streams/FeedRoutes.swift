import CRDT
import DQL
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
    let pool: EvaluationPool
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

    /// The turns of a stream that a request begins, which ends with its client.
    func turns(_ request: Request, _ identity: Identity, _ context: ServiceContext) -> StreamTurns {
        let turns = StreamTurns(
            pool, "\(request.method.rawValue) \(request.uri.path)", of: identity.credential,
            in: identity.databaseID)
        context.whenClientLeaves { turns.leave() }
        return turns
    }

    private func changes(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let identity = try await identity(of: request)
        let turns = turns(request, identity, context)
        // A long one has a condition.
        let isLong = (request.head.path?.utf8.count ?? 0) > Limits.plainStatementBytes
        let wanted =
            isLong
            ? try await turns.run { _ in try ChangeRequest(request, identity) }
            : try ChangeRequest(request, identity)
        let slot = try slots.take(identity)
        let projection = try await projection(identity.databaseID)
        try await projection.beginFollowing()
        let feed = ChangeFeed(
            request: wanted, database: identity.databaseID, projection: projection, past: past, turns: turns,
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
        let database = identity.databaseID
        // The same answer for every id, so that the client does not learn whether the document exists.
        let keys = wanted.keys.filter(identity.rights.read.allows)
        guard let first = keys.first else {
            throw QueryError(.readNotGranted, "this document of \(wanted.collection)")
        }
        let evaluation = try pool.statement(
            "history of a document of \(wanted.collection)", of: identity.credential, in: database)
        defer { pool.finish(evaluation) }
        context.whenClientLeaves { evaluation.end(.abandoned) }
        func history(_ key: DocumentKey) -> DocumentHistory {
            DocumentHistory(key: key, database: database, past: past, evaluation: evaluation)
        }
        do {
            let body = try await wanted.answer(of: history(first), or: keys.dropFirst().map(history))
            return try .held(
                body, by: evaluation.held, context, headers: [.cacheControl: "no-store"])
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            throw QueryError.ended(evaluation.end, after: pool.options.statementTime)
        }
    }
}
