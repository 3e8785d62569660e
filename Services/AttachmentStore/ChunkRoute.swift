import Attachments
import CRDT
import Hummingbird
import ServiceKit

/// `GET /api/v5/attachments/{id}/chunks`: the SHA-256 of each MiB of an attachment, so that a client finds a
/// wrong byte early. Like the attachment itself, the list never changes.
struct ChunkRoute {
    let place: any BlobPlace

    func respond(_ id: BlobID) async throws -> Response {
        let list = try await place.chunks(id)
        let body: Value = [
            "id": .string(id.text), "len": .int(list.length), "chunkBytes": .int(ChunkList.chunkBytes),
            "chunks": .array(list.texts.map { .string($0) }),
        ]
        return .json(
            JSONText.print(body).utf8, headers: [.cacheControl: "private, max-age=31536000, immutable"])
    }
}
