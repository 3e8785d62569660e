import Synchronization

@testable import Transport

/// One end of a connection within this process; may take nothing that is sent until it is released.
final class MemoryConnection: Sendable {
    private let incoming: AsyncStream<[UInt8]>
    private let toSelf: AsyncStream<[UInt8]>.Continuation
    private let state = Mutex<(sent: [[UInt8]], close: (code: UInt16, reason: String)?)>(([], nil))
    private let gate: AsyncStream<Void>
    private let opening: AsyncStream<Void>.Continuation
    private let isOpen: Mutex<Bool>
    /// A value for each frame that the pump wants to send, taken or not.
    let offers: AsyncStream<Void>
    private let offered: AsyncStream<Void>.Continuation

    init(isStuck: Bool = false) {
        (gate, opening) = AsyncStream.makeStream(of: Void.self)
        (offers, offered) = AsyncStream.makeStream(of: Void.self)
        isOpen = Mutex(!isStuck)
        (incoming, toSelf) = AsyncStream.makeStream(of: [UInt8].self)
    }

    /// Takes what is sent from now on.
    func release() {
        isOpen.withLock { $0 = true }
        opening.finish()
    }

    /// Whether what is sent is taken.
    var takes: Bool { isOpen.withLock { $0 } }

    /// Lets the pump receive a frame.
    func arrive(_ frame: [UInt8]) { toSelf.yield(frame) }

    /// Lets the other side go.
    func end() { toSelf.finish() }

    var sent: [[UInt8]] { state.withLock { $0.sent } }
    var closeCode: UInt16? { state.withLock { $0.close?.code } }

    /// What a pump runs over.
    var channel: TaskedChannel {
        TaskedChannel(
            send: { try await self.send($0) }, receive: { await self.receive() },
            close: { self.close(code: $0, reason: $1) })
    }

    private func send(_ frame: [UInt8]) async throws {
        offered.yield()
        if !takes { for await _ in gate {} }
        try Task.checkCancellation()
        state.withLock { $0.sent.append(frame) }
    }

    private func receive() async -> [UInt8]? {
        for await frame in incoming { return frame }
        return nil
    }

    private func close(code: UInt16, reason: String) {
        state.withLock { if $0.close == nil { $0.close = (code, reason) } }
        toSelf.finish()
    }
}
