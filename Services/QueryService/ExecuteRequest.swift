import CRDT
import HTTPTypes
import Hummingbird
import NIOCore
import ServiceKit

/// The body of `store/execute`: `{"statement": "…", "args": {…}, "asOf": …}`.
struct ExecuteRequest: Sendable {
    let statement: String
    let arguments: ObjectValue
    /// The point in the past that is read; nil for the present.
    var asOf: PastPoint?
    /// Names a write that the client may send again.
    var key: IdempotencyKey?

    /// A statement of the present.
    init(statement: String, arguments: ObjectValue) {
        self.statement = statement
        self.arguments = arguments
    }

    /// Parses the body. Throws `malformedRequest` with the reason, which names an unknown or repeated member
    /// and an integer beyond 64 bits, also within the arguments.
    init(_ body: ByteBuffer) throws {
        let object: ObjectValue
        do {
            object = try RequestObject(body.readableBytesView, known: ["statement", "args", "asOf"]).members
        } catch {
            throw QueryError(.malformedRequest, error.message)
        }
        try self.init(members: object)
    }

    /// Reads the members of a body.
    init(members object: ObjectValue) throws(QueryError) {
        guard case .string(let statement)? = object["statement"] else {
            throw QueryError(.malformedRequest, "\"statement\" must be a string")
        }
        self.statement = statement
        switch object["args"] {
        case nil, .null?: arguments = ObjectValue()
        case .object(let arguments)?: self.arguments = arguments
        default: throw QueryError(.malformedRequest, "\"args\" must be an object")
        }
        if let point = object["asOf"], point != .null { asOf = try PastPoint(point) }
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
