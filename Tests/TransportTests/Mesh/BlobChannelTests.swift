import Identity
import Synchronization
import TestSupport
import Testing

@testable import Transport

/// Two ends of a link within this process; the one side may hold back the news that frames were sent.
private final class Pipe: FrameChannel {
    private struct State {
        var arrived: (@Sendable (FrameArrival) -> Void)?
        var early: [[UInt8]] = []
        var isHeld = false
        var held: [@Sendable (Bool) -> Void] = []
        var posted: [[UInt8]] = []
    }

    private let state = Mutex(State())
    private let other = Mutex<Pipe?>(nil)

    static func pair() -> (Pipe, Pipe) {
        let (one, two) = (Pipe(), Pipe())
        one.other.withLock { $0 = two }
        two.other.withLock { $0 = one }
        return (one, two)
    }

    var posted: [[UInt8]] { state.withLock { $0.posted } }

    /// From now on frames leave, and nobody is told.
    func hold() { state.withLock { $0.isHeld = true } }

    func release() {
        let held = state.withLock { state in
            state.isHeld = false
            defer { state.held = [] }
            return state.held
        }
        for one in held { one(true) }
    }

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        let early = state.withLock { state in
            state.arrived = arrived
            defer { state.early = [] }
            return state.early
        }
        for frame in early { arrived(.frame(frame) {}) }
    }

    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        let isHeld = state.withLock { state in
            state.posted.append(frame)
            if state.isHeld { state.held.append(whenSent) }
            return state.isHeld
        }
        other.withLock { $0 }?.take(frame)
        if !isHeld { whenSent(true) }
    }

    private func take(_ frame: [UInt8]) {
        let arrived = state.withLock { state in
            if state.arrived == nil { state.early.append(frame) }
            return state.arrived
        }
        arrived?(.frame(frame) {})
    }

    func end(code: UInt16, reason: String) async {
        other.withLock { $0 }?.state.withLock { $0.arrived }?(.ended)
    }
}

/// Answers with the bytes of one blob, and counts the questions.
private final class OneBlob: BlobShare {
    let bytes: [UInt8]
    let asked = Mutex<[String]>([])
    /// Answers wait for it.
    let gate = Mutex<CheckedContinuation<Void, Never>?>(nil)
    let waits: Bool

    init(_ bytes: [UInt8], waits: Bool = false) { (self.bytes, self.waits) = (bytes, waits) }

    func answer(_ ask: BlobAsk, to peerKey: String, rights: CompiledRules) async -> BlobAnswer {
        asked.withLock { $0.append(peerKey) }
        if waits { await withCheckedContinuation { waiting in gate.withLock { $0 = waiting } } }
        switch ask.subject {
        case .chunks: return .chunks(length: UInt64(bytes.count), digests: ask.digest)
        case .bytes(let offset, let count): return .bytes(Array(bytes.dropFirst(Int(offset)).prefix(count)))
        }
    }
}

@Suite("Blobs over a link", .timeLimit(.minutes(1)))
struct BlobChannelTests {
    private static let digest = [UInt8](repeating: 7, count: 32)
    private static let rights = CompiledGrant.everything.read

    /// The asking end, the answering end, and its pipe; both are listening.
    private func ends(_ share: OneBlob?, isOpen: Bool = true) -> (BlobChannel, BlobChannel, Pipe) {
        let (near, far) = Pipe.pair()
        let here = BlobChannel(near, share: nil, rights: Self.rights)
        let there = BlobChannel(far, share: share, rights: Self.rights)
        here.begin { _ in }
        there.begin { _ in }
        here.open(peerKey: "there")
        if isOpen { there.open(peerKey: "here") }
        return (here, there, far)
    }

    /// Waits until something holds, for a minute.
    private func eventually(_ condition: () -> Bool) async -> Bool {
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            if condition() { return true }
            try? await Task.sleep(for: .milliseconds(2))
        }
        return condition()
    }

    private func ask(_ channel: BlobChannel, from offset: UInt64 = 0, count: Int = 4) async -> BlobAnswer {
        await channel.ask(BlobAsk(digest: Self.digest, subject: .bytes(offset: offset, count: count)))
    }

    @Test("messages come back from their bytes, and are told from frames of a session")
    func messages() {
        let all: [BlobFrame] = [
            .ask(1, BlobAsk(digest: Self.digest, subject: .bytes(offset: 5_000_000_000, count: 65_536))),
            .ask(.max, BlobAsk(digest: Self.digest, subject: .chunks)), .answer(3, .bytes([])),
            .answer(4, .bytes([1, 2])), .answer(5, .chunks(length: 9, digests: Self.digest)),
            .answer(6, .none(.busy)),
        ]
        for frame in all {
            #expect(BlobFrame.isOne(frame.encoded) && BlobFrame(frame.encoded) == frame)
        }
    }

    @Test("bytes that are no message are dropped: cut ones, longer ones, digests and counts that do not fit")
    func malformed() {
        let ask = BlobFrame.ask(
            1, BlobAsk(digest: Self.digest, subject: .bytes(offset: 1, count: 65_536))
        ).encoded
        for count in 0..<ask.count { #expect(BlobFrame(Array(ask.prefix(count))) == nil) }
        #expect(BlobFrame(ask + [0]) == nil)
        let short = BlobAsk(digest: [1], subject: .chunks)
        #expect(BlobFrame(BlobFrame.ask(1, short).encoded) == nil)
        let greedy = BlobAsk(digest: Self.digest, subject: .bytes(offset: 0, count: 65_537))
        #expect(BlobFrame(BlobFrame.ask(1, greedy).encoded) == nil)
        #expect(BlobFrame([0xA1, 0x00, 0x18, 0x43]) == nil)
        var dice = SplitMix64(seed: 11)
        for _ in 0..<2_000 { _ = BlobFrame([0xA3, 0x00, 0x18, 0x40] + dice.bytes(count: dice.below(40))) }
    }

    @Test("a question is answered, in the rights of the link, and the session sees none of it")
    func answered() async {
        let (near, far) = Pipe.pair()
        let share = OneBlob([1, 2, 3, 4, 5])
        let here = BlobChannel(near, share: nil, rights: Self.rights)
        let there = BlobChannel(far, share: share, rights: Self.rights)
        let seen = Mutex<[[UInt8]]>([])
        for channel in [here, there] {
            channel.begin { arrival in
                guard case .frame(let bytes, let taken) = arrival else { return }
                seen.withLock { $0.append(bytes) }
                taken()
            }
            channel.open(peerKey: "peer")
        }
        #expect(await ask(here) == .bytes([1, 2, 3, 4]))
        #expect(await ask(here, from: 4) == .bytes([5]))
        #expect(await ask(here, from: 5) == .bytes([]))
        #expect(
            await here.ask(BlobAsk(digest: Self.digest, subject: .chunks))
                == .chunks(length: 5, digests: Self.digest))
        // The other way there is nothing.
        #expect(await ask(there) == .none(.missing))
        here.post([0xA1, 0x00, 0x14]) { _ in }
        #expect(seen.withLock { $0 } == [[0xA1, 0x00, 0x14]])
    }

    @Test("nothing is answered before the link is open")
    func closedFirst() async {
        let share = OneBlob([1])
        let (here, there, far) = ends(share, isOpen: false)
        async let answer = ask(here)
        #expect(await eventually { !here.isOver && share.asked.withLock { $0.isEmpty } })
        #expect(far.posted.isEmpty)
        there.open(peerKey: "here")
        #expect(await answer == .bytes([1]))
        #expect(share.asked.withLock { $0 } == ["here"])
    }

    @Test("a document goes first: an answer waits until no frame of the session waits")
    func priority() async {
        let (here, there, far) = ends(OneBlob([1]))
        far.hold()
        there.post([0xA1, 0x00, 0x14]) { _ in }
        async let answer = ask(here)
        // The question has come, and its answer stays while the frame is not sent.
        for _ in 0..<50 { await Task.yield() }
        #expect(far.posted == [[0xA1, 0x00, 0x14]])
        far.release()
        #expect(await answer == .bytes([1]))
        #expect(far.posted.count == 2)
    }

    @Test("so many questions wait and no more, further ones are told to come later")
    func bounded() async {
        let share = OneBlob([1], waits: true)
        let (near, far) = Pipe.pair()
        let there = BlobChannel(far, share: share, rights: Self.rights)
        there.begin { _ in }
        there.open(peerKey: "here")
        let answers = Mutex<[BlobFrame]>([])
        near.begin { arrival in
            if case .frame(let bytes, _) = arrival, let frame = BlobFrame(bytes) {
                answers.withLock { $0.append(frame) }
            }
        }
        let subject = BlobAsk.Subject.bytes(offset: 0, count: 1)
        near.post(BlobFrame.ask(0, BlobAsk(digest: Self.digest, subject: subject)).encoded) { _ in }
        #expect(await eventually { share.gate.withLock { $0 != nil } })
        for id in 1...UInt64(Limits.blobAsks + 3) {
            near.post(BlobFrame.ask(id, BlobAsk(digest: Self.digest, subject: subject)).encoded) { _ in }
        }
        let refused = answers.withLock { $0 }
        #expect(
            refused.count == 3
                && refused.allSatisfy { if case .answer(_, .none(.busy)) = $0 { true } else { false } })
        there.close()
        share.gate.withLock { $0 }?.resume()
    }

    @Test("an answer that is larger than the question, or of another kind, is wrong")
    func wrongAnswers() async {
        let (near, far) = Pipe.pair()
        let here = BlobChannel(near, share: nil, rights: Self.rights)
        here.begin { _ in }
        here.open(peerKey: "liar")
        let replies = Mutex<[BlobAnswer]>([
            .bytes([1, 2, 3, 4, 5]), .chunks(length: 1, digests: Self.digest),
        ])
        far.begin { arrival in
            guard case .frame(let bytes, _) = arrival, case .ask(let id, _)? = BlobFrame(bytes) else {
                return
            }
            far.post(BlobFrame.answer(id, replies.withLock { $0.removeFirst() }).encoded) { _ in }
        }
        #expect(await ask(here) == .none(.wrong))
        #expect(await ask(here) == .none(.wrong))
    }

    @Test("a link that ends answers all that waits, and so does a task that is cancelled")
    func ends() async {
        let (here, _, _) = ends(OneBlob([1], waits: true))
        let cancelled = Task { await ask(here) }
        let waiting = Task { await ask(here) }
        for _ in 0..<20 { await Task.yield() }
        cancelled.cancel()
        #expect(await cancelled.value == .none(.unreachable))
        here.close()
        #expect(await waiting.value == .none(.unreachable))
        #expect(await ask(here) == .none(.unreachable))
    }
}
