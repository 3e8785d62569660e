import Hummingbird
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import ServiceKit

@Suite("Draining a host", .timeLimit(.minutes(5)))
struct HostDrainTests {
    private static let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }

    @Test("a host that is told to stop serves on, with failing health, and closes each connection")
    func serves() async throws {
        let part = TestPart(mounting: { mount in
            mount.on(.post, "/work") { _, _ in Response(status: .ok) }
        })
        let (addresses, listening) = AsyncStream.makeStream(of: ListenAddress.self)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let host = ServiceHost(
            parts: [part], listen: .anyLoopbackPort, stopping: .init(drain: .seconds(3_600)),
            logger: Self.quiet
        ) { listening.yield($0) }
        let running = Task { try await host.run { _ in for await _ in ends { return } } }
        let first = await addresses.first { _ in true }
        let address = try #require(first)
        let before = try await ask(address, "/work", method: "POST")
        #expect(before.status == 200 && before.headers["connection"] == nil)
        end.yield()
        var health = try await ask(address, "/health")
        while health.status == 200 { health = try await ask(address, "/health") }
        #expect(health.status == 503 && health.body.contains("about to stop"))
        for _ in 0..<3 {
            let during = try await ask(address, "/work", method: "POST")
            #expect(during.status == 200 && during.headers["connection"] == "close")
        }
        // A cancelled host ends in the middle of its drain, which lasts longer than the suite may.
        running.cancel()
        _ = await running.result
        // Not through the client, which would try until its time is over.
        await #expect(throws: (any Error).self) {
            try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: address.host, port: address.port).get().close().get()
        }
    }

    @Test("once the kernel lets no connection begin, one that has begun is still served")
    func refuses() async throws {
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.pipeline.addHandler(Echo())
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        func connect(_ patience: TimeAmount) async throws -> any Channel {
            try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connectTimeout(patience).channelInitializer { $0.pipeline.addHandler(Last()) }
                .connect(host: "127.0.0.1", port: port).get()
        }
        let early = try await connect(.seconds(10))
        let drain = HostDrain(pause: .seconds(1))
        drain.listens(server)
        await drain.refuseConnections()
        // Nothing is refused before the drain has begun.
        try await connect(.seconds(10)).close().get()
        drain.begin()
        await drain.refuseConnections()
        await #expect(throws: (any Error).self) { try await connect(.milliseconds(500)).close().get() }
        try await early.writeAndFlush(ByteBuffer(string: "x")).get()
        let last = try await early.pipeline.handler(type: Last.self).map(\.text).get()
        while last.value.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        #expect(last.value == "x")
        try await early.close().get()
        try await server.close().get()
    }

    /// Sends back what it gets.
    private final class Echo: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            context.writeAndFlush(data, promise: nil)
        }
    }

    /// Keeps what it gets.
    private final class Last: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let text = Box("")
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let read = String(buffer: unwrapInboundIn(data))
            text.change { $0 += read }
        }
    }
}
