import CRDT
import HTTPTypes
import Hummingbird
import NIOCore
import ServiceKit

/// The body of `store/execute`: `{"statement": "…", "args": {…}}`.
struct ExecuteRequest: Sendable {
    let statement: String
    let arguments: ObjectValue
    /// Names a write that the client may send again.
    var key: IdempotencyKey?

    /// Parses the body. Throws `malformedRequest` with the reason, which names an unknown or repeated member
    /// and an integer beyond 64 bits, also within the arguments.
    init(_ body: ByteBuffer) throws {
        let object: ObjectValue
        do {
            object = try RequestObject(body.readableBytesView, known: ["statement", "args"]).members
        } catch {
            throw QueryError(.malformedRequest, error.message)
        }
        guard case .string(let statement)? = object["statement"] else {
            throw QueryError(.malformedRequest, "\"statement\" must be a string")
        }
        self.statement = statement
        switch object["args"] {
        case nil, .null?: arguments = ObjectValue()
        case .object(let arguments)?: self.arguments = arguments
        default: throw QueryError(.malformedRequest, "\"args\" must be an object")
        }
    }

    /// The offset in `X-DITTO-TXN-ID`, the oldest state that may answer; nil without the header.
    static func transactionID(_ headers: HTTPFields) throws -> Offset? {
        guard let name = HTTPField.Name("X-DITTO-TXN-ID"), let text = headers[name] else { return nil }
        guard let offset = UInt64(text) else {
            throw QueryError(.malformedRequest, "X-DITTO-TXN-ID must be an offset, a number from 0")
        }
        return Offset(offset)
    }
}
