import Identity
import Machine

/// Answers what linked peers ask about blobs.
public protocol BlobShare: Sendable {
    /// The answer to a peer with these rights. Called for one question of a link at a time.
    func answer(_ ask: BlobAsk, to peerKey: String, rights: CompiledRules) async -> BlobAnswer
}

/// A link's channel of frames that carries messages about blobs beside them, both ways.
///
/// Blobs come after documents: an answer leaves when no frame of the session waits to be sent, and the next
/// one when it has left, so a document waits for one piece at most. Nothing is answered before the link is
/// open. Bounds: `Limits.blobAsks` questions of the other side wait, further ones are answered with `busy`;
/// as many of this side are under way.
///
/// `state` guards everything; its lock is never held across a call.
final class BlobChannel: FrameChannel {
    private struct Pending: Sendable {
        let subject: BlobAsk.Subject
        var answer: BlobAnswer?
    }

    private struct State: Sendable {
        /// The other side's key, once the link is open.
        var peerKey: String?
        var isOver = false
        var last: UInt64 = 0
        var pending: [UInt64: Pending] = [:]
        var asks: [(id: UInt64, ask: BlobAsk)] = []
        var isServing = false
        /// Frames of the session that were posted and are not sent.
        var unsent = 0
    }

    private let inner: any FrameChannel
    private let share: (any BlobShare)?
    private let rights: CompiledRules
    private let state = Monitor(State())

    /// - Parameters:
    ///   - share: nil to answer that there is nothing.
    ///   - rights: the documents that the other side may read.
    init(_ inner: any FrameChannel, share: (any BlobShare)?, rights: CompiledRules) {
        (self.inner, self.share, self.rights) = (inner, share, rights)
    }

    /// True once the link has ended.
    var isOver: Bool { state.read { $0.isOver } }

    /// The link may be used.
    func open(peerKey: String) {
        state.change { $0.peerKey = peerKey }
        serve()
    }

    /// The link has ended: nothing is answered any more, and nothing will be.
    func close() { state.change { ($0.isOver, $0.asks) = (true, []) } }

    // MARK: The session's frames

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        inner.begin { [weak self] arrival in
            guard case .frame(let bytes, let taken) = arrival else {
                self?.close()
                return arrived(arrival)
            }
            guard BlobFrame.isOne(bytes) else { return arrived(arrival) }
            self?.receive(bytes)
            taken()
        }
    }

    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        state.change { $0.unsent += 1 }
        inner.post(frame) { [weak self] isSent in
            self?.state.change { $0.unsent -= 1 }
            whenSent(isSent)
        }
    }

    func nearby(_ work: @escaping @Sendable () -> Void) { inner.nearby(work) }

    func end(code: UInt16, reason: String) async {
        close()
        await inner.end(code: code, reason: reason)
    }

    // MARK: Asking

    /// Asks the other side, and waits for its answer, at most `Limits.blobPatience`.
    func ask(_ ask: BlobAsk) async -> BlobAnswer {
        let (id, refusal) = state.change { state -> (UInt64, BlobRefusal?) in
            guard !state.isOver, state.peerKey != nil else { return (0, .unreachable) }
            guard state.pending.count < Limits.blobAsks else { return (0, .busy) }
            state.last += 1
            state.pending[state.last] = Pending(subject: ask.subject)
            return (state.last, nil)
        }
        if let refusal { return .none(refusal) }
        inner.post(BlobFrame.ask(id, ask).encoded) { [weak self] isSent in
            if !isSent { self?.settle(id, .none(.unreachable)) }
        }
        let answer = await state.take(within: Limits.blobPatience) { state in
            state.pending[id]?.answer ?? (state.isOver ? BlobAnswer.none(.unreachable) : nil)
        }
        state.change { $0.pending[id] = nil }
        return answer ?? .none(.unreachable)
    }

    private func settle(_ id: UInt64, _ answer: BlobAnswer) {
        state.change { state in
            guard let pending = state.pending[id], pending.answer == nil else { return }
            state.pending[id]?.answer = Self.fits(answer, pending.subject) ? answer : .none(.wrong)
        }
    }

    private static func fits(_ answer: BlobAnswer, _ subject: BlobAsk.Subject) -> Bool {
        switch (answer, subject) {
        case (.none, _), (.chunks, .chunks): true
        case (.bytes(let bytes), .bytes(_, let count)): bytes.count <= count
        default: false
        }
    }

    // MARK: Answering

    private func receive(_ bytes: [UInt8]) {
        switch BlobFrame(bytes) {
        case nil: break
        case .answer(let id, let answer): settle(id, answer)
        case .ask(let id, let ask):
            let isTaken = state.change { state in
                guard !state.isOver else { return true }
                guard state.asks.count < Limits.blobAsks else { return false }
                state.asks.append((id, ask))
                return true
            }
            guard isTaken else {
                return inner.post(BlobFrame.answer(id, .none(.busy)).encoded) { _ in }
            }
            serve()
        }
    }

    /// Answers what waits, one after the other, unless that is under way.
    private func serve() {
        let begins = state.change { state in
            guard !state.isServing, !state.isOver, state.peerKey != nil, !state.asks.isEmpty else {
                return false
            }
            state.isServing = true
            return true
        }
        guard begins else { return }
        Task { [self] in
            while let (id, ask, peerKey) = next() {
                let answer = await share?.answer(ask, to: peerKey, rights: rights) ?? .none(.missing)
                await state.wait { $0.unsent == 0 || $0.isOver }
                let sent = PendingAnswer<Void>()
                inner.post(BlobFrame.answer(id, answer).encoded) { _ in sent.give(()) }
                await sent.value()
            }
        }
    }

    private func next() -> (UInt64, BlobAsk, String)? {
        state.change { state in
            guard !state.isOver, !state.asks.isEmpty, let peerKey = state.peerKey else {
                state.isServing = false
                return nil
            }
            let (id, ask) = state.asks.removeFirst()
            return (id, ask, peerKey)
        }
    }
}
