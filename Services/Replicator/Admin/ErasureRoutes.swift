import CRDT
import DQL
import Hummingbird
import Machine
import Replica
import ServiceKit

/// The erasure of documents by the holder of the admin credential: what was requested, and how far it is.
extension AdminRoutes {
    /// Begins an erasure: of the documents with these `ids`, or of those that a condition finds now.
    ///
    /// The body is `{"collection": NAME, "ids": [ID, …]}` or `{"collection": NAME, "where": CONDITION,
    /// "args": {…}}`. Answers 202; the work goes on after the answer, and after a restart.
    func beginErasure(_ database: DatabaseID, _ request: Request) async throws -> Response {
        guard let system = part.authenticator.system else { throw ReplicatorError.noSystemDatabase }
        let target = try await ErasureTarget(request)
        let hub = try await part.hub(of: database)
        try await hub.materializer.advance()
        let replica = hub.materializer.replica
        let found = try await hub.materializer.executor.run {
            do {
                return try replica.read { try target.find($0) }
            } catch let error as DQLError {
                throw MalformedErasure(publicMessage: "where: \(error)")
            }
        }
        guard found.keys.count <= Limits.erasedDocuments else { throw ReplicatorError.erasureTooLarge }
        let erasure = DocumentErasure(
            database: database,
            digests: found.keys.map { ErasedDocuments.digest(of: $0, in: database) }.sorted(),
            blobs: found.blobs.sorted(), requestedAtSeconds: SystemClock.seconds())
        if !found.keys.isEmpty { try await system.write { try $0.put(erasure) } }
        logger.notice(
            "an erasure of documents was requested",
            metadata: [
                "database": "\(database)", "erasure": "\(erasure.id)", "documents": "\(found.keys.count)",
            ])
        return json(Self.value(erasure, []), status: .accepted)
    }

    /// All erasures of documents with their receipts, the latest first.
    func listErasures(_ database: DatabaseID) throws -> Response {
        guard let system = part.authenticator.system else { throw ReplicatorError.noSystemDatabase }
        let directory = system.directory
        let rows = directory.documentErasures.values.filter { $0.databaseID == database }
            .sorted { ($0.requestedAtSeconds, $0.id) > ($1.requestedAtSeconds, $1.id) }
            .prefix(Limits.listedRows)
            .map { erasure in
                Self.value(erasure, directory.erasures.values.filter { $0.subject == erasure.id })
            }
        return json(["erasures": .array(Array(rows))])
    }

    private static func value(_ erasure: DocumentErasure, _ receipts: [ErasureRecord]) -> Value {
        [
            "id": .string(erasure.id), "documents": .int(Int64(erasure.digests.count)),
            "requestedAt": .int(erasure.requestedAtSeconds),
            "erasedFromLogAt": erasure.erasedAtSeconds.map { .int($0) } ?? .null,
            "receipts": .array(
                receipts.sorted { ($0.holder, $0.place) < ($1.holder, $1.place) }.map {
                    [
                        "holder": .string($0.holder), "place": .string($0.place),
                        "erasedAt": .int($0.erasedAtSeconds),
                    ]
                }),
        ]
    }
}

/// The documents that a request names.
private struct ErasureTarget: Sendable {
    private let collection: CollectionName
    private let ids: [DocumentID]
    private let select: PreparedStatement?
    private let arguments: ObjectValue

    /// - Throws: `REPL-0206`, and the errors of a condition that is no DQL.
    init(_ request: Request) async throws {
        let body = try await request.wholeBody(limitBytes: Limits.adminBodyBytes)
        let members: ObjectValue
        do {
            members = try RequestObject(
                body.readableBytesView, known: ["collection", "ids", "where", "args"],
                values: Limits.erasureValues
            ).members
        } catch {
            throw MalformedErasure(publicMessage: error.message)
        }
        guard let name = members["collection"]?.stringValue, !name.isEmpty else {
            throw MalformedErasure(publicMessage: "collection must be the name of a collection")
        }
        collection = CollectionName(name)
        switch (members["ids"], members["where"]) {
        case (.array(let values)?, nil):
            guard members["args"] == nil else {
                throw MalformedErasure(publicMessage: "args belong to where, not to ids")
            }
            do {
                ids = try values.map { try DocumentID($0) }
            } catch {
                throw MalformedErasure(publicMessage: "ids: \(error)")
            }
            (select, arguments) = (nil, ObjectValue())
        case (nil, .string(let condition)?):
            let quoted = name.split(separator: "`", omittingEmptySubsequences: false).joined(separator: "``")
            do {
                select = try PreparedStatement("SELECT * FROM `\(quoted)` WHERE (\(condition))")
            } catch {
                throw MalformedErasure(publicMessage: "where: \(error)")
            }
            arguments = members["args"]?.objectValue ?? ObjectValue()
            ids = []
        default:
            throw MalformedErasure(
                publicMessage: "name the documents either by ids, an array, or by where, a condition in DQL")
        }
    }

    /// The documents' places and the ids of their attachments.
    func find(_ transaction: ReadTransaction) throws -> (keys: Set<DocumentKey>, blobs: Set<String>) {
        var keys = Set(ids.map { DocumentKey(collection: collection, id: $0) })
        _ = try select?.forEachRow(
            in: transaction, arguments: arguments, options: ExecutionOptions(strictMode: false)
        ) { row in
            if let id = row.objectValue?["_id"], let id = try? DocumentID(id) {
                keys.insert(DocumentKey(collection: collection, id: id))
            }
            return keys.count <= Limits.erasedDocuments
        }
        var blobs: Set<String> = []
        for key in keys {
            try transaction.lookup(key.collection, key.id) { record in
                try record.document.root.forEachAttachment { blobs.insert($0.id) }
            }
        }
        return (keys, blobs)
    }
}

/// `REPL-0206`, 400: an erasure names its documents in a form that does not exist.
struct MalformedErasure: HTTPReportable {
    let publicMessage: String
    var httpStatus: HTTPResponse.Status { .badRequest }
    var publicCode: String { "REPL-0206" }
}
