import CRDT
import Hummingbird
import Identity
import ServiceKit

/// `GET /api/v5/attachments`: the attachments of the documents that a client may read, in pages.
struct ListRoute {
    let references: BlobReferences
    let identity: Identity

    /// `?collection=NAME&after=CURSOR&limit=COUNT`, in the order of the documents.
    ///
    /// - Throws: `SRV-0400`.
    func respond(to request: Request) async throws -> Response {
        let query = try QueryValues(request)
        let limit = Int(try query.whole("limit", in: 1...UInt64(Limits.listedRows)) ?? 100)
        let asked = BlobReferences.Asked(
            grant: identity.grant.read, collection: try query.text("collection").map { CollectionName($0) })
        let page = try await references.page(
            by: identity.rights.read, for: asked, after: query.text("after") ?? "", limit: limit)
        let rows = page.rows.map { row -> Value in
            [
                "collection": .string(row.key.collection.text), "id": row.key.id.value,
                "attachment": ["id": .string(row.mention.id), "len": .int(row.mention.length)],
                "name": row.mention.file.name.map { .string($0) } ?? .null,
                "type": row.mention.file.type.map { .string($0) } ?? .null,
            ]
        }
        let body: Value = [
            "attachments": .array(rows), "count": .int(Int64(page.sum.count)), "bytes": .int(page.sum.bytes),
            "next": page.next.map { .string($0) } ?? .null,
        ]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }
}
