import CRDT
import DQL
import HTTPTypes
import Hummingbird
import NIOCore

/// The body of a request as it came, JSON or CBOR, which may be large: its memory belongs to an account, and
/// it is read in a turn of an evaluation.
public struct ReceivedBody: Sendable {
    /// The bytes, unpacked.
    public let bytes: ByteBuffer
    private let isCBOR: Bool
    /// The memory that it takes, as long as somebody has it.
    private let hold: ClientHold

    init(_ bytes: ByteBuffer, isCBOR: Bool, _ hold: ClientHold) {
        (self.bytes, self.isCBOR, self.hold) = (bytes, isCBOR, hold)
    }

    /// Reads its object: where it is called if the body is brief, else in a turn of the evaluation, which
    /// also holds the values.
    /// - Throws: `RequestObject.Malformed`; `SRV-0412` for too many values; `cancelled` and `timeout` when
    ///   the evaluation ends; `SRV-0430`, `SRV-0503`.
    public func object(known: [String], in evaluation: Evaluation) async throws -> ObjectValue {
        guard bytes.readableBytes > Limits.briefBodyBytes else {
            return try RequestObject(value(within: nil), known: known).members
        }
        return try await evaluation.run {
            var refusal: (any Error)?
            let bounds = ParsingBounds(values: Limits.bodyValues) { values in
                do {
                    if let reason = evaluation.interruption() { throw DQLError.interrupted(reason) }
                    try evaluation.held.grow(by: values * Limits.valueBytes)
                } catch {
                    refusal = error
                }
                return refusal == nil
            }
            do throws(RequestObject.Malformed) {
                let members = try RequestObject(value(within: bounds), known: known).members
                evaluation.leave(members)
                return members
            } catch {
                throw refusal ?? error.reported
            }
        }
    }

    private func value(within bounds: ParsingBounds?) throws(RequestObject.Malformed) -> Value {
        let plain = Array(bytes.readableBytesView)
        return isCBOR
            ? try RequestObject.value(ofCBOR: plain, within: bounds)
            : try RequestObject.value(ofJSON: plain, within: bounds)
    }
}

extension Request {
    /// True for a body of `application/cbor`.
    var isCBOR: Bool {
        let type = (headers[.contentType] ?? "").prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        return type == "application/cbor"
    }

    /// Reads the whole body of a client that has logged in; what it takes belongs to the account.
    /// - Throws: `SRV-0413` when it is larger than the limit; `SRV-0430`, `SRV-0503`.
    public func received(limitBytes: Int, for account: Account) async throws -> ReceivedBody {
        let tooLarge = ServiceError(.bodyTooLarge, "the body is larger than \(limitBytes) bytes")
        let length = headers[.contentLength].flatMap { Int($0) }
        if let length, length > limitBytes { throw tooLarge }
        let hold = ClientHold(account)
        var bytes = ByteBuffer()
        for try await var piece in body {
            guard bytes.readableBytes + piece.readableBytes <= limitBytes else { throw tooLarge }
            let whole = max(length ?? 0, bytes.readableBytes + piece.readableBytes)
            if whole > max(hold.bytes, Limits.briefBodyBytes) {
                // A growing buffer doubles its room.
                try hold.grow(to: max(length ?? 0, 2 * whole))
            }
            bytes.writeBuffer(&piece)
        }
        return ReceivedBody(bytes, isCBOR: isCBOR, hold)
    }
}
