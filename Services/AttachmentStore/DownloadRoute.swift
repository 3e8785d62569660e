import Attachments
import Hummingbird
import NIOCore
import ServiceKit

/// `GET` and `HEAD /api/v4|v5/attachments/{id}`: the whole blob, or one range of it. A blob never changes,
/// so its id serves as its entity tag.
struct DownloadRoute {
    let place: any BlobPlace
    /// Throws when the client's credential is revoked, or may be; called before each chunk.
    let standing: @Sendable () throws -> Void
    /// Name and type of the file.
    var file = FileDescription()
    /// True if the client wants to save what could be shown.
    var isSaved = false
    /// True if the bytes tell the type of a picture whose token does not: for `<img>`.
    var looksForPicture = false
    /// Writes a piece, and returns when the next one may come.
    var write: @Sendable (ByteBuffer, inout any ResponseBodyWriter) async throws -> Void = {
        try await $1.write($0)
    }

    func respond(to request: Request, id: BlobID) async throws -> Response {
        let blob = try await place.open(id)
        let length = blob.info.length
        let tag = "\"\(id)\""
        var headers: HTTPFields = [
            .eTag: tag, .acceptRanges: "bytes",  // Packed on the way, a range would be one of other bytes.
            .cacheControl: "private, max-age=31536000, immutable, no-transform",
        ]
        if let known = request.headers[.ifMatch], known != "*", !known.contains(tag) {
            throw AttachmentStoreError(
                .changed, "the attachment has another ETag than If-Match", headers: [.eTag: tag])
        }
        if let known = request.headers[.ifNoneMatch], known == "*" || known.contains(tag) {
            return Response(status: .notModified, headers: headers)
        }
        var file = file
        if looksForPicture, file.type == nil { file.type = try await Self.pictureType(of: blob) }
        headers[.contentType] = file.contentType
        headers[.xContentTypeOptions] = "nosniff"
        if let disposition = file.disposition(isSaved: isSaved) { headers[.contentDisposition] = disposition }
        var wanted: ByteRange?
        if let range = request.headers[.range], request.headers[.ifRange].map({ $0 == tag }) ?? true {
            wanted = ByteRange(range)
        }
        guard let wanted else {
            return Response(status: .ok, headers: headers, body: body(blob, 0..<length))
        }
        guard let bytes = wanted.resolved(length: length) else {
            throw AttachmentStoreError(
                .rangeNotSatisfiable, "the range lies outside the attachment of \(length) bytes",
                headers: [.contentRange: "bytes */\(length)"])
        }
        headers[.contentRange] = "bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/\(length)"
        return Response(status: .partialContent, headers: headers, body: body(blob, bytes))
    }

    /// The type of a picture by its first bytes; nil for anything else. SVG, which may hold scripts, is none.
    private static func pictureType(of blob: any OpenBlob) async throws -> String? {
        var head: [UInt8] = []
        try await blob.stream(0..<min(12, blob.info.length)) { head += $0.readableBytesView }
        let isRIFF = head.starts(with: Array("RIFF".utf8)) && head.dropFirst(8).elementsEqual("WEBP".utf8)
        if isRIFF { return "image/webp" }
        let beginnings: [(bytes: [UInt8], type: String)] = [
            ([0x89, 0x50, 0x4E, 0x47], "image/png"), ([0xFF, 0xD8, 0xFF], "image/jpeg"),
            (Array("GIF8".utf8), "image/gif"),
        ]
        return beginnings.first { head.starts(with: $0.bytes) }?.type
    }

    private func body(_ blob: any OpenBlob, _ bytes: Range<Int64>) -> ResponseBody {
        ResponseBody(contentLength: Int(bytes.count)) { [standing, write] writer in
            try standing()
            try await blob.stream(bytes) { buffer in
                try standing()
                try await write(buffer, &writer)
                Measured.count(
                    "mimeo_attachment_bytes_total", [("direction", "out")], by: Int64(buffer.readableBytes))
            }
            try await writer.finish(nil)
        }
    }
}

/// One byte range of a `Range` header (RFC 9110 section 14.1.2).
enum ByteRange: Equatable {
    /// From one offset to another, both inclusive.
    case closed(Int64, Int64)
    /// From an offset to the end.
    case from(Int64)
    /// The last bytes, by their number.
    case last(Int64)

    /// Nil for headers that are answered with the whole blob: other units, several ranges, malformed ones.
    init?(_ text: String) {
        guard text.lowercased().hasPrefix("bytes=") else { return nil }
        let parts = text.dropFirst("bytes=".count).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2,
            parts.allSatisfy({ part in part.utf8.allSatisfy { (0x30...0x39).contains($0) } })
        else {
            return nil
        }
        // More digits than a number has are beyond every blob.
        let numbers = parts.map { $0.isEmpty ? nil : Int64($0) ?? Int64.max }
        switch (numbers[0], numbers[1]) {
        case (let first?, let last?) where first <= last: self = .closed(first, last)
        case (let first?, nil) where parts[1].isEmpty: self = .from(first)
        case (nil, let count?) where parts[0].isEmpty: self = .last(count)
        default: return nil
        }
    }

    /// The offsets, or nil if the range has no byte in a blob of this length.
    func resolved(length: Int64) -> Range<Int64>? {
        switch self {
        case .closed(let first, let last): first < length ? first..<(min(last, length - 1) + 1) : nil
        case .from(let first): first < length ? first..<length : nil
        case .last(let count): count > 0 && length > 0 ? max(0, length - count)..<length : nil
        }
    }
}
