import Hummingbird
import Identity
import NIOCore
import Synchronization

/// The bytes of one request and its answer, and who pays for them once that is known.
///
/// The responder makes one for each request while some database has limits; the `Authenticator` names the
/// payer. The lock guards both.
final class UsageCharge: Sendable {
    struct Payer: Sendable {
        let meter: UsageMeter
        let identity: Identity
        let limits: DatabaseLimits
    }

    private struct State {
        var payer: Payer?
        /// Bytes from before there was a payer.
        var owed = 0
    }

    /// The charge of the request that the task answers.
    @TaskLocal static var current: UsageCharge?
    /// True once any database had limits: without them no request pays for a charge.
    static let isNeeded = Atomic<Bool>(false)

    private let state = Mutex(State())

    func name(_ payer: Payer) {
        let owed = state.withLock { state in
            state.payer = payer
            defer { state.owed = 0 }
            return state.owed
        }
        if owed > 0 { payer.meter.pay(owed, by: payer.identity, under: payer.limits) }
    }

    func pay(_ bytes: Int) {
        guard bytes > 0 else { return }
        let payer = state.withLock { state in
            if state.payer == nil { state.owed += bytes }
            return state.payer
        }
        if let payer { payer.meter.pay(bytes, by: payer.identity, under: payer.limits) }
    }
}

extension Request {
    /// The same request, whose body is paid for as it is read.
    func charged(to charge: UsageCharge) -> Request {
        Request(head: head, body: RequestBody(asyncSequence: ChargedBody(body: body, charge: charge)))
    }
}

extension Response {
    /// The same answer, whose body is paid for as it is written: one that is given up, or is only asked for
    /// its head, costs what was sent.
    func charged(to charge: UsageCharge) -> Response {
        let (body, length) = (body, body.contentLength)
        guard length != 0 else { return self }
        var response = self
        let paid = body.map { piece in
            charge.pay(piece.readableBytes)
            return piece
        }
        // A mapped body has forgotten its length.
        response.body = ResponseBody(contentLength: length) { try await paid.write($0) }
        return response
    }
}

private struct ChargedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer
    let body: RequestBody
    let charge: UsageCharge

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: RequestBody.AsyncIterator
        let charge: UsageCharge

        mutating func next() async throws -> ByteBuffer? {
            let piece = try await rest.next()
            charge.pay(piece?.readableBytes ?? 0)
            return piece
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(rest: body.makeAsyncIterator(), charge: charge)
    }
}
