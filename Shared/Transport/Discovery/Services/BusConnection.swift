import Foundation
import NIOCore
import NIOPosix

/// A connection to the bus of the system, D-Bus: proves to be this user's, and reads and writes messages. Its
/// event loop guards it.
enum BusConnection {
    /// The socket of the system's bus: the usual one, or that of `DBUS_SYSTEM_BUS_ADDRESS`. Nil if the
    /// variable names none.
    static func path(_ environment: [String: String] = ProcessInfo.processInfo.environment) -> String? {
        guard let addresses = environment["DBUS_SYSTEM_BUS_ADDRESS"], !addresses.isEmpty else {
            return "/run/dbus/system_bus_socket"
        }
        let paths = addresses.split(separator: ";").compactMap { address -> Substring? in
            guard address.hasPrefix("unix:") else { return nil }
            return address.dropFirst("unix:".count).split(separator: ",").first { $0.hasPrefix("path=") }
        }
        return paths.first.map { String($0.dropFirst("path=".count)) }
    }

    /// Connects. `opened` and `received` are called on `loop`; the end is the channel's `closeFuture`.
    static func open(
        _ path: String, on loop: any EventLoop,
        opened: @escaping @Sendable () -> Void, received: @escaping @Sendable (DBusMessage) -> Void
    ) -> EventLoopFuture<any Channel> {
        ClientBootstrap(group: loop)
            .connectTimeout(.seconds(5))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(BusHandler(opened, received))
                }
            }
            .connect(unixDomainSocketPath: path)
    }
}

/// First the lines of the handshake, then messages. Bytes that are neither close the connection.
private final class BusHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let opened: @Sendable () -> Void
    private let received: @Sendable (DBusMessage) -> Void
    private var unread: [UInt8] = []
    private var isOpen = false

    init(_ opened: @escaping @Sendable () -> Void, _ received: @escaping @Sendable (DBusMessage) -> Void) {
        self.opened = opened
        self.received = received
    }

    func channelActive(context: ChannelHandlerContext) {
        // The bus knows by the socket who we are; the text only has to say the same.
        let user = String(getuid()).utf8.map { String(format: "%02x", $0) }.joined()
        write("\0AUTH EXTERNAL \(user)\r\n", context)
        context.fireChannelActive()
    }

    private func write(_ text: String, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        unread += Array(unwrapInboundIn(data).readableBytesView)
        if !isOpen { readLine(context) }
        while isOpen, unread.count >= DBusMessage.prefixBytes {
            guard let length = DBusMessage.length(unread) else { return context.close(promise: nil) }
            guard unread.count >= length else { return }
            guard let message = DBusMessage(decoding: Array(unread[..<length])) else {
                return context.close(promise: nil)
            }
            unread.removeFirst(length)
            received(message)
        }
    }

    private func readLine(_ context: ChannelHandlerContext) {
        guard let end = unread.firstIndex(of: UInt8(ascii: "\n")) else {
            if unread.count > Limits.busLineBytes { context.close(promise: nil) }
            return
        }
        let line = String(decoding: unread[..<end], as: UTF8.self)
        guard line.hasPrefix("OK ") else { return context.close(promise: nil) }
        unread.removeFirst(end + 1)
        isOpen = true
        write("BEGIN\r\n", context)
        opened()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
