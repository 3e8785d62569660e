import CRDT
import HTTPTypes
import Hummingbird
import NIOCore

/// The body of `store/execute`: `{"statement": "…", "args": {…}}`.
struct ExecuteRequest: Sendable {
    let statement: String
    let arguments: ObjectValue

    /// Throws `malformedRequest` with what is wrong.
    init(_ body: ByteBuffer) throws {
        let value: Value
        do {
            value = try JSONText.parse(Array(body.readableBytesView))
        } catch {
            throw QueryError(.malformedRequest, error.message)
        }
        guard case .object(let object) = value else {
            throw QueryError(.malformedRequest, "the body is no object")
        }
        guard case .string(let statement)? = object["statement"] else {
            throw QueryError(.malformedRequest, "\"statement\" is missing or no string")
        }
        self.statement = statement
        switch object["args"] {
        case nil, .null?: arguments = ObjectValue()
        case .object(let arguments)?: self.arguments = arguments
        default: throw QueryError(.malformedRequest, "\"args\" is no object")
        }
    }

    /// The offset of `X-DITTO-TXN-ID`: no answer from an older state.
    static func transactionID(_ headers: HTTPFields) throws -> Offset? {
        guard let name = HTTPField.Name("X-DITTO-TXN-ID"), let text = headers[name] else { return nil }
        guard let offset = UInt64(text) else {
            throw QueryError(.malformedRequest, "X-DITTO-TXN-ID is no offset")
        }
        return Offset(offset)
    }
}
