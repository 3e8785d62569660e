import HTTPTypes
import Hummingbird
import NIOCore

extension Response {
    /// An answer whose bytes belong to an account until the client has taken them. It is sent in pieces, and
    /// a client that reads nothing is cut off (`ServiceContext.writing`).
    /// - Throws: `SRV-0430`, `SRV-0503`.
    public static func held(
        _ bytes: [UInt8], type: String = "application/json", by hold: ClientHold, _ context: ServiceContext,
        headers: HTTPFields = [:]
    ) throws(ServiceError) -> Response {
        var headers = headers
        headers[.contentType] = type
        if type != "application/json" { headers.add(.vary, "Accept") }
        let whole = ByteBuffer(bytes: bytes)
        guard bytes.count > Limits.answerPieceBytes else {
            return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: whole))
        }
        try hold.grow(by: bytes.count)
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody(contentLength: bytes.count) { writer in
                var rest = whole
                while let piece = rest.readSlice(length: min(rest.readableBytes, Limits.answerPieceBytes)),
                    piece.readableBytes > 0
                {
                    try await context.writing { try await context.write(piece, to: &writer) }
                }
                try await writer.finish(nil)
                withExtendedLifetime(hold) {}
            })
    }
}
