import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import Transport

/// A bus that answers the handshake with a line, and what follows it with bytes.
private final class FakeBus: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let line: String
    private let bytes: [UInt8]
    private var heard: [UInt8] = []

    init(_ line: String, _ bytes: [UInt8]) {
        self.line = line
        self.bytes = bytes
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let before = String(decoding: heard, as: UTF8.self)
        heard += Array(unwrapInboundIn(data).readableBytesView)
        let now = String(decoding: heard, as: UTF8.self)
        if now.hasPrefix("\0AUTH EXTERNAL "), !before.contains("\r\n"), now.contains("\r\n") {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: line)), promise: nil)
        }
        if !before.contains("GetState"), now.contains("GetState") {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
        }
    }
}

@Suite("The system's bus", .timeLimit(.minutes(2)))
struct ServiceFinderTests {
    /// Waits until a finder at this bus has failed, and returns the reason.
    private func reason(_ line: String, _ bytes: [UInt8] = [], isThere: Bool = true) async throws -> String {
        try await withTemporaryDirectory { directory in
            let loop = MultiThreadedEventLoopGroup.singleton.next()
            let path = directory.appendingPathComponent("bus").path
            var server: (any Channel)?
            if isThere {
                server = try await ServerBootstrap(group: loop).childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(FakeBus(line, bytes))
                    }
                }.bind(unixDomainSocketPath: path).get()
            }
            let finder = ServiceFinder(
                ServiceFinder.Parts(loop: loop, path: path, random: { 5 }, changed: {}))
            try await loop.submit { finder.set(AvahiClient.Wish(browses: true)) }.get()
            var condition = AvahiClient.Condition.looking
            while condition == .looking {
                try await Task.sleep(for: .milliseconds(5))
                condition = try await loop.submit { finder.condition }.get() ?? .looking
            }
            try await loop.submit { finder.set(AvahiClient.Wish()) }.get()
            #expect(try await loop.submit { finder.condition }.get() == nil)
            try await server?.close()
            guard case .fails(let reason) = condition else { return "it works" }
            return reason.replacingOccurrences(of: path, with: "PATH")
        }
    }

    @Test("a bus without avahi, one that refuses, one that says nonsense and none at all are told apart")
    func reasons() async throws {
        var error = DBusMessage(kind: .error)
        error.errorName = "org.freedesktop.DBus.Error.ServiceUnknown"
        // Hello, two rules, and then the question for avahi's state.
        error.replySerial = 4
        #expect(try await reason("OK 1234\r\n", error.encoded) == "avahi does not run on this device")
        let closed = "the bus of the system has closed the connection"
        #expect(try await reason("REJECTED EXTERNAL\r\n") == closed)
        #expect(try await reason("OK 1234\r\n", Array(repeating: 0xFF, count: 40)) == closed)
        #expect(try await reason(String(repeating: "x", count: 5_000)) == closed)
        #expect(try await reason("", isThere: false) == "the bus of the system, PATH, cannot be reached")
    }

    @Test("the bus's socket is the usual one, or that of the variable; an address without a path is none")
    func path() {
        #expect(BusConnection.path([:]) == "/run/dbus/system_bus_socket")
        let two = "tcp:host=a,port=1;unix:guid=1,path=/run/b"
        #expect(BusConnection.path(["DBUS_SYSTEM_BUS_ADDRESS": two]) == "/run/b")
        #expect(BusConnection.path(["DBUS_SYSTEM_BUS_ADDRESS": "unix:abstract=/x"]) == nil)
    }
}
