import CRDT
import DQL
import HTTPTypes
import Hummingbird
import NIOCore

/// The body of a request as it was sent, perhaps packed. Its memory belongs to an account.
public struct SentBody: Sendable {
    fileprivate let bytes: ByteBuffer
    fileprivate let isPacked: Bool
    fileprivate let isCBOR: Bool
    fileprivate let limitBytes: Int
    /// The memory that it takes, as long as somebody has it.
    fileprivate let hold: ClientHold

    /// The body unpacked: at once if it is not packed, else in a turn of the evaluation.
    /// - Throws: `SRV-0400` for no gzip; `SRV-0413` beyond the limit; `cancelled` and `timeout` when the
    ///   evaluation ends; `SRV-0430`, `SRV-0503`.
    public func unpacked(in evaluation: Evaluation) async throws -> ReceivedBody {
        guard isPacked else { return ReceivedBody(bytes, isCBOR: isCBOR, hold) }
        return try await evaluation.run {
            let plain = try Inflater.unpack(bytes, limitBytes: limitBytes) { count in
                if let reason = evaluation.interruption() { throw DQLError.interrupted(reason) }
                // A growing buffer doubles its room.
                try hold.grow(to: bytes.readableBytes + 2 * count)
            }
            // The smaller room that it grew out of is free again.
            hold.shrink(by: max(0, hold.bytes - bytes.readableBytes - plain.storageCapacity))
            return ReceivedBody(plain, isCBOR: isCBOR, hold)
        }
    }
}

/// The body of a request, JSON or CBOR, which may be large: its memory belongs to an account, and it is read
/// in a turn of an evaluation.
public struct ReceivedBody: Sendable {
    /// The bytes, unpacked.
    public let bytes: ByteBuffer
    private let isCBOR: Bool
    /// The memory that it takes, as long as somebody has it.
    private let hold: ClientHold

    fileprivate init(_ bytes: ByteBuffer, isCBOR: Bool, _ hold: ClientHold) {
        (self.bytes, self.isCBOR, self.hold) = (bytes, isCBOR, hold)
    }

    /// Reads its object: where it is called if the body is brief, else in a turn of the evaluation, which
    /// also holds the values.
    /// - Throws: `RequestObject.Malformed`; `SRV-0412` for too many values; `SRV-0413` if its account has no
    ///   room for them even alone; `cancelled` and `timeout` when the evaluation ends; `SRV-0430`,
    ///   `SRV-0503`.
    public func object(known: [String], in evaluation: Evaluation) async throws -> ObjectValue {
        guard bytes.readableBytes > Limits.briefBodyBytes else {
            return try RequestObject(value(within: nil), known: known).members
        }
        return try await evaluation.run {
            try evaluation.grow(by: Limits.readBodyWeight * bytes.readableBytes, beside: hold)
            let members = try evaluation.reading(beside: hold) { (bounds) throws(RequestObject.Malformed) in
                try RequestObject(value(within: bounds), known: known).members
            }
            evaluation.leave(members)
            return members
        }
    }

    private func value(within bounds: ParsingBounds?) throws(RequestObject.Malformed) -> Value {
        let plain = Array(bytes.readableBytesView)
        return isCBOR
            ? try RequestObject.value(ofCBOR: plain, within: bounds)
            : try RequestObject.value(ofJSON: plain, within: bounds)
    }
}

extension Evaluation {
    /// Reads a text of many values on the thread of a turn, and holds the memory of the values as they are
    /// made.
    /// - Throws: the errors of `body`, those with a code of their own as that; `cancelled` and `timeout` when
    ///   the evaluation ends; `SRV-0413`, `SRV-0430`, `SRV-0503`.
    func reading<Result>(
        beside text: ClientHold? = nil, _ body: (ParsingBounds) throws(RequestObject.Malformed) -> Result
    ) throws -> Result {
        var refusal: (any Error)?
        let bounds = ParsingBounds(values: Limits.bodyValues) { [self] values in
            do {
                if let reason = interruption() { throw DQLError.interrupted(reason) }
                try grow(by: values * Limits.valueBytes, beside: text)
            } catch {
                refusal = error
            }
            return refusal == nil
        }
        do throws(RequestObject.Malformed) {
            return try body(bounds)
        } catch {
            throw refusal ?? error.reported
        }
    }

    /// Holds memory of values beside that of their text.
    /// - Throws: `SRV-0413` if the account has no room for both even alone; `SRV-0430`, `SRV-0503`.
    fileprivate func grow(by count: Int, beside text: ClientHold?) throws(ServiceError) {
        do throws(ServiceError) {
            try held.grow(by: count)
        } catch {
            let most = ClientBudget.memory.accountBytes
            guard error.code == .tooMuchHeld, (text?.bytes ?? 0) + held.bytes + count > most else {
                throw error
            }
            throw ServiceError(
                .bodyTooLarge,
                "the body and its values take more memory than one credential may hold at this server, "
                    + "\(most >> 20) MiB: send it in parts")
        }
    }
}

extension Request {
    /// True for a body of `application/cbor`.
    var isCBOR: Bool {
        let type = (headers[.contentType] ?? "").prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        return type == "application/cbor"
    }

    /// Reads the whole body of a client that has logged in; the memory of it belongs to the account.
    /// - Throws: `SRV-0413` when it is larger than the limit; `SRV-0415`; `SRV-0430`, `SRV-0503`.
    public func received(limitBytes: Int, for account: Account) async throws -> SentBody {
        let isPacked = try isPacked
        let tooLarge = ServiceError.bodyTooLarge(limitBytes)
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
        return SentBody(
            bytes: bytes, isPacked: isPacked, isCBOR: isCBOR, limitBytes: limitBytes, hold: hold)
    }
}
