import CRDT
import DQL
import Hummingbird
import Identity
import OperationLog
import ServiceKit

/// `/api/v5/conflicts/…`: the documents of a collection that have concurrent values, and the values of one
/// document with who wrote them and when. Writing a field chooses its value.
struct ConflictRoutes: Sendable {
    let log: any OperationLog
    let authenticator: Authenticator
    let projection: @Sendable (DatabaseID) async throws -> Projection

    static let path = "/api/v5/conflicts/:collection"

    func mount(on mount: inout ServiceMount) {
        mount.on(.get, Self.path) { request, context in try await list(request, context) }
        mount.on(.get, "\(Self.path)/:id") { request, context in try await show(request, context) }
    }

    private func identity(of request: Request) async throws -> Identity {
        let identity = try await authenticator.identity(for: request)
        guard try await log.databaseExists(identity.databaseID) else { throw QueryError(.unknownDatabase) }
        return identity
    }

    /// `?limit=COUNT`: documents with concurrent values, in the order of the store. Documents that the
    /// credential may not read are left out.
    private func list(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let identity = try await identity(of: request)
        let collection = try HistoryRequest.collection(context)
        let (name, rules) = (collection.text, identity.rights.read)
        guard rules.allowsAny(of: collection) else { throw QueryError(.readNotGranted, name) }
        let limit = Int(try QueryValues(request).whole("limit", in: 1...Limits.listedConflicts) ?? 100)
        let found = try await read("conflicts of \(name)", identity, context) { documents, evaluation in
            var rows: [Value] = []
            var hasMore = false
            try GrantedDocuments(base: documents, rules: rules).scan(collection) { record in
                guard try DocumentConflicts.mayBe(in: record) else { return true }
                try evaluation.checkEnd()
                let fields = try DocumentConflicts(record).fields
                guard !fields.isEmpty else { return true }
                guard rows.count < limit else {
                    hasMore = true
                    return false
                }
                let paths = fields.map { Value.array($0.path.map { .string($0) }) }
                rows.append(["id": record.id.value, "paths": .array(paths)])
                return true
            }
            return Found(rows: rows, hasMore: hasMore, offset: try documents.offset())
        }
        return json([
            "collection": .string(name), "documents": .array(found.rows), "more": .bool(found.hasMore),
            "transactionId": .offset(found.offset),
        ])
    }

    private struct Found: Sendable {
        var rows: [Value]
        var hasMore: Bool
        var offset: Offset
    }

    private func show(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let identity = try await identity(of: request)
        let name = try HistoryRequest.collection(context).text
        // The same answer for every id, so that the client does not learn whether the document exists.
        let keys = try HistoryRequest.keys(context).filter(identity.rights.read.allows)
        guard let first = keys.first else {
            throw QueryError(.readNotGranted, "this document of \(name)")
        }
        let found = try await read("conflicts of a document of \(name)", identity, context) { documents, _ in
            var conflicts: DocumentConflicts?
            var id = first.id
            for key in keys where conflicts == nil {
                try documents.lookup(key.collection, key.id) {
                    conflicts = try DocumentConflicts($0)
                    id = key.id
                }
            }
            return (conflicts, try documents.offset(), id)
        }
        var authors: [ActorID: String] = [:]
        for actor in found.0?.actors ?? [] {
            authors[actor] = try await log.frontier(of: [actor], in: identity.databaseID)[actor]?.authorKey
        }
        return json([
            "collection": .string(name), "id": found.2.value, "exists": .bool(found.0 != nil),
            "bytes": .int(Int64(found.0?.bytes ?? 0)),
            "fields": found.0?.value(authors: authors) ?? .array([]), "transactionId": .offset(found.1),
        ])
    }

    private func read<Result: Sendable>(
        _ purpose: String, _ identity: Identity, _ context: ServiceContext,
        _ body: @escaping @Sendable (any ProjectedDocuments, Evaluation) throws -> Result
    ) async throws -> Result {
        do {
            return try await projection(identity.databaseID)
                .survey(
                    purpose, of: identity.credential, whenClientLeaves: context.whenClientLeaves, body)
        } catch {
            throw QueryError.translated(error)
        }
    }

    private func json(_ value: Value) -> Response {
        .json(JSONText.bytes(value), headers: [.cacheControl: "no-store"])
    }
}
