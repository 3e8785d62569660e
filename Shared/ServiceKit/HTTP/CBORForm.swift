import CRDT
import HTTPTypes
import Hummingbird
import NIOCore

// CBOR beside JSON, for every route that takes or gives JSON: translated at the border, so that no handler
// knows of it.

extension Value {
    /// False for a value with a part that JSON cannot hold: bytes, or a number that is none.
    fileprivate var hasJSONForm: Bool {
        switch self {
        case .binary: false
        case .double(let number): number.isFinite
        case .array(let values): values.allSatisfy(\.hasJSONForm)
        case .object(let object): object.entries.allSatisfy { $0.value.hasJSONForm }
        default: true
        }
    }
}

extension Request {
    /// A body of `application/cbor` as JSON text; any other one as it is.
    /// - Throws: `SRV-0400`.
    func asJSON(_ body: ByteBuffer) throws(ServiceError) -> ByteBuffer {
        let type = (headers[.contentType] ?? "").prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        guard type == "application/cbor" else { return body }
        let value: Value
        do {
            value = try CBOR.decode(Array(body.readableBytesView))
        } catch {
            throw ServiceError(.badRequest, "the body is not valid CBOR: \(error.message)")
        }
        guard value.hasJSONForm else {
            throw ServiceError(
                .badRequest, "the body has a byte string or a number that is none; send bytes as base64 text")
        }
        return ByteBuffer(string: JSONText.print(value))
    }
}

extension Response {
    /// A JSON answer as CBOR, if the client prefers that.
    func inForm(for request: Request) async throws -> Response {
        guard headers[.contentType] == "application/json", body.contentLength != nil,
            let accept = request.headers[.accept], accept.lowercased().contains("cbor"),
            MediaTypes(accept).best(of: ["application/json", "application/cbor"]) == "application/cbor"
        else { return self }
        let gathered = Gathered()
        try await body.write(gathered)
        guard let value = try? JSONText.parse(Array(gathered.bytes.readableBytesView)) else { return self }
        var response = self
        response.headers[.contentType] = "application/cbor"
        response.headers[.contentLength] = nil
        response.headers.add(.vary, "Accept")
        response.body = ResponseBody(byteBuffer: ByteBuffer(bytes: CBOR.encode(value)))
        return response
    }
}

/// Keeps what is written.
private final class Gathered: ResponseBodyWriter {
    var bytes = ByteBuffer()

    func write(_ buffer: ByteBuffer) {
        var buffer = buffer
        bytes.writeBuffer(&buffer)
    }

    func finish(_ trailingHeaders: HTTPFields?) {}
}
