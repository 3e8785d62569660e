import Transport

/// One end of a connection within this process.
final class PipeEnd: SessionConnection {
    private let incoming: AsyncStream<[UInt8]>
    private let outgoing: AsyncStream<[UInt8]>.Continuation

    private init(_ incoming: AsyncStream<[UInt8]>, _ outgoing: AsyncStream<[UInt8]>.Continuation) {
        self.incoming = incoming
        self.outgoing = outgoing
    }

    static func pair() -> (PipeEnd, PipeEnd) {
        let (near, toNear) = AsyncStream.makeStream(of: [UInt8].self)
        let (far, toFar) = AsyncStream.makeStream(of: [UInt8].self)
        return (PipeEnd(near, toFar), PipeEnd(far, toNear))
    }

    func send(_ frame: [UInt8]) async throws { outgoing.yield(frame) }

    func receive() async throws -> [UInt8]? {
        for await frame in incoming { return frame }
        return nil
    }

    func close(code: UInt16, reason: String) { outgoing.finish() }
}
