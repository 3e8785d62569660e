import CRDT
import HTTPTypes
import Hummingbird
import Identity
import NIOCore
import ServiceKit

/// The body of `store/execute`: `{"statement": "…", "args": {…}, "asOf": …}`, or a list of statements:
/// `{"transaction": [{"statement": "…", "args": {…}}, …], "asOf": …}`.
struct ExecuteRequest: Sendable {
    /// A statement with its arguments.
    struct Step: Sendable {
        let statement: String
        let arguments: ObjectValue
    }

    /// At least one.
    let steps: [Step]
    /// The progress of a transaction; nil for a single statement.
    let transaction: TransactionProgress?
    /// The first statement.
    var statement: String { steps[0].statement }
    /// Its arguments.
    var arguments: ObjectValue { steps[0].arguments }
    /// The text for lists of statements.
    var text: String {
        guard transaction != nil else { return statement }
        let shown = steps.prefix(Limits.shownSteps).map(\.statement).joined(separator: "; ")
        return steps.count > Limits.shownSteps ? shown + "; …" : shown
    }
    /// The point in the past that is read; nil for the present.
    var asOf: PastPoint?
    /// Names a write that the client may send again.
    var key: IdempotencyKey?
    /// Where the rows of a single SELECT go.
    var rows = RowPlace.held

    /// The form of its rows.
    var form = RowForm.values

    /// A statement of the present.
    init(statement: String, arguments: ObjectValue) {
        steps = [Step(statement: statement, arguments: arguments)]
        transaction = nil
    }

    /// A transaction of the present.
    init(transaction steps: [Step]) {
        self.steps = steps
        transaction = TransactionProgress()
    }

    /// Parses the body in the evaluation. Throws `malformedRequest` with the reason: it names an unknown or
    /// repeated member and an integer beyond 64 bits, also within the arguments.
    /// - Parameter takesTransactions: whether there may be several statements.
    init(_ body: ReceivedBody, takesTransactions: Bool = false, in evaluation: Evaluation) async throws {
        let known = Self.members + ["asOf"] + (takesTransactions ? ["transaction"] : [])
        try self.init(members: try await body.members(known: known, in: evaluation))
        evaluation.name(text)
    }

    /// Parses a body on the event loop of its connection: of few values, since others wait meanwhile.
    /// - Throws: `malformedRequest`, also for one that is to be parsed elsewhere.
    init(brief body: ByteBuffer) throws {
        do {
            let object = try RequestObject(
                body.readableBytesView, known: Self.members + ["asOf", "transaction"],
                values: Limits.briefValues)
            try self.init(members: object.members)
        } catch let error as RequestObject.Malformed {
            throw QueryError(.malformedRequest, error.message)
        }
    }

    private static let members = ["statement", "args"]

    /// Reads the members of a body.
    /// - Throws: `QUERY-0101`; `TransactionFailure` with it for a statement of a transaction.
    init(members object: ObjectValue) throws {
        if let list = object["transaction"] {
            guard Self.members.allSatisfy({ object[$0] == nil }) else {
                throw QueryError(
                    .malformedRequest, "\"transaction\" stands in place of \"statement\" and \"args\"")
            }
            steps = try Self.steps(list)
            transaction = TransactionProgress()
        } else {
            steps = [try Self.step(object)]
            transaction = nil
        }
        if let point = object["asOf"], point != .null { asOf = try PastPoint(point) }
    }

    private static func step(_ object: ObjectValue) throws(QueryError) -> Step {
        guard case .string(let statement)? = object["statement"] else {
            throw QueryError(.malformedRequest, "\"statement\" must be a string")
        }
        switch object["args"] {
        case nil, .null?: return Step(statement: statement, arguments: ObjectValue())
        case .object(let arguments)?: return Step(statement: statement, arguments: arguments)
        default: throw QueryError(.malformedRequest, "\"args\" must be an object")
        }
    }

    private static func steps(_ list: Value) throws -> [Step] {
        guard case .array(let items) = list, 1...Limits.transactionStatements ~= items.count else {
            throw QueryError(
                .malformedRequest,
                "\"transaction\" must be a list of 1 to \(Limits.transactionStatements) statements")
        }
        return try items.enumerated().map { index, item in
            do {
                guard case .object(let object) = item else {
                    throw QueryError(.malformedRequest, "a statement must be an object with \"statement\"")
                }
                if let unknown = object.entries.first(where: { !members.contains($0.key) }) {
                    let shown = unknown.key.prefix(Limits.shownNameCharacters)
                    throw QueryError(
                        .malformedRequest,
                        "\"\(shown)\" is not a member of a statement; it has \"args\" and \"statement\"")
                }
                return try step(object)
            } catch {
                throw TransactionFailure(index: index, error: error)
            }
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

extension ReceivedBody {
    /// The name under which the client may send the body again to a route; nil without one. A long body is
    /// hashed in a turn.
    /// - Throws: as `IdempotencyKey`.
    func key(
        _ request: Request, of identity: Identity, _ route: [UInt8], in evaluation: Evaluation
    ) async throws -> IdempotencyKey? {
        guard HTTPField.Name(IdempotencyKey.field).map({ request.headers.contains($0) }) ?? false else {
            return nil
        }
        let (user, bytes) = (identity.userID, bytes)
        let make: @Sendable () throws -> IdempotencyKey? = {
            try IdempotencyKey(request, user: user, parts: [route, Array(bytes.readableBytesView)])
        }
        return bytes.readableBytes > Limits.plainStatementBytes ? try await evaluation.run(make) : try make()
    }

    /// The members of a request's body.
    /// - Throws: `QUERY-0101` with the reason; as `object` for the rest.
    func members(known: [String], in evaluation: Evaluation) async throws -> ObjectValue {
        do {
            return try await object(known: known, in: evaluation)
        } catch let error as RequestObject.Malformed {
            throw QueryError(.malformedRequest, error.message)
        }
    }
}
