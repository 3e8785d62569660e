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
    func asJSON(_ body: ByteBuffer) throws -> ByteBuffer {
        guard isCBOR else { return body }
        let bounds = ParsingBounds(values: Limits.requestValues)
        do throws(RequestObject.Malformed) {
            let value = try RequestObject.value(ofCBOR: Array(body.readableBytesView), within: bounds)
            return ByteBuffer(string: JSONText.print(value))
        } catch {
            throw ServiceError(.badRequest, error.message)
        }
    }
}

extension RequestObject {
    /// The value of a body in CBOR, which may have only what JSON can say too.
    static func value(ofCBOR bytes: [UInt8], within bounds: ParsingBounds?) throws(Malformed) -> Value {
        let value: Value
        do {
            value = try CBOR.decode(bytes, within: bounds)
        } catch {
            throw Malformed(
                message: "the body is not valid CBOR: \(error.message)",
                hasTooMany: error.code == .tooManyValues)
        }
        // The decoder lets the last one win.
        var keys = CBORKeys(bytes)
        if let key = keys.repeated() {
            let shown = key.count <= Limits.shownCharacters ? key : "\(key.prefix(Limits.shownCharacters))…"
            throw Malformed(message: "the key \"\(shown)\" appears twice in one object")
        }
        guard value.hasJSONForm else {
            throw Malformed(
                message:
                    "the body has a byte string or a number that is none; send bytes as base64 text")
        }
        return value
    }
}

/// Looks through one CBOR item that was decoded before, and so is valid.
private struct CBORKeys {
    private let bytes: [UInt8]
    private var place = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The first key that stands twice in one map; nil if there is none.
    mutating func repeated() -> String? {
        let (major, argument) = head()
        switch major {
        case 2, 3: place += argument
        case 4: for _ in 0..<argument { if let found = repeated() { return found } }
        case 5:
            var keys: Set<ArraySlice<UInt8>> = []
            for _ in 0..<argument {
                let length = head().argument
                let key = bytes[place..<(place + length)]
                place += length
                guard keys.insert(key).inserted else { return String(decoding: key, as: UTF8.self) }
                if let found = repeated() { return found }
            }
        case 6: return repeated()
        default: break
        }
        return nil
    }

    private mutating func head() -> (major: UInt8, argument: Int) {
        let first = bytes[place]
        place += 1
        let width = [24: 1, 25: 2, 26: 4, 27: 8][Int(first & 0x1F)] ?? 0
        guard width > 0 else { return (first >> 5, Int(first & 0x1F)) }
        let argument = bytes[place..<(place + width)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        place += width
        return (first >> 5, Int(truncatingIfNeeded: argument))
    }
}

extension Response {
    /// A JSON answer as CBOR, if the client prefers that.
    func inForm(for request: Request) async throws -> Response {
        guard headers[.contentType] == "application/json",
            let length = body.contentLength, length <= Limits.retoldAnswerBytes,
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
