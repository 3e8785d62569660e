import NIOCore
import NIOPosix
import ServiceKit

/// A bare TCP client, for what no HTTP client would send.
enum RawConnection {
    /// Sends a text and returns what comes back until the server closes, which is what every test makes it
    /// do.
    static func exchange(_ address: ListenAddress, _ text: String) async throws -> String {
        String(decoding: try await exchange(address, steps: [Array(text.utf8)], pause: .zero), as: UTF8.self)
    }

    /// The same for several pieces with a pause after each, so that they arrive one by one. The last is sent
    /// when what has come back ends with `answered`.
    static func exchange(
        _ address: ListenAddress, steps: [[UInt8]], pause: Duration, answered: [UInt8] = []
    ) async throws -> [UInt8] {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: address.host, port: address.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        IdleStateHandler(readTimeout: .seconds(20)))
                    try channel.pipeline.syncOperations.addHandler(CloseWhenIdle())
                    return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            var received: [UInt8] = []
            var iterator = inbound.makeAsyncIterator()
            do {
                for (number, step) in steps.enumerated() {
                    while number == steps.count - 1, !received.suffix(answered.count).elementsEqual(answered),
                        let part = try await iterator.next()
                    {
                        received += part.readableBytesView
                    }
                    try await outbound.write(ByteBuffer(bytes: step))
                    try await Task.sleep(for: pause)
                    // As every client does, the frames wait for the answer to the upgrade.
                    while number == 0, !received.contains(header: "\r\n\r\n"),
                        let part = try await iterator.next()
                    {
                        received += part.readableBytesView
                    }
                }
                while let part = try await iterator.next() { received += part.readableBytesView }
            } catch {
                // The server has closed; a reset after the answer is as good as an end.
            }
            return received
        }
    }
}

extension [UInt8] {
    fileprivate func contains(header text: String) -> Bool {
        indices.contains { self[$0...].starts(with: text.utf8) }
    }
}

private final class CloseWhenIdle: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is IdleStateHandler.IdleStateEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        context.close(promise: nil)
    }
}
