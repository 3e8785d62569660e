import Transport

/// One end of a connection within this process.
final class PipeEnd: Sendable {
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

    /// What a pump runs over.
    var channel: TaskedChannel {
        TaskedChannel(
            send: { self.outgoing.yield($0) },
            receive: {
                for await frame in self.incoming { return frame }
                return nil
            }, close: { _, _ in self.outgoing.finish() })
    }
}
