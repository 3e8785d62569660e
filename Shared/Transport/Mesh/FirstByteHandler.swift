import Exchange
import NIOCore
import Sync

/// Looks at the first bytes of the other side: a record of TLS begins with 16h, or 15h for an alert, a
/// frame's length with 00h. If the ends speak differently, each gets an error code instead of a failed
/// handshake or an impossible frame. The event loop guards its state.
final class FirstByteHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Speech { case frames, tls, httpAnswer, httpRequest, unknown }

    private static let requests = [
        "GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC", "PRI ",
    ]

    private let speaksTLS: Bool
    private var hasParted = false

    init(speaksTLS: Bool) { self.speaksTLS = speaksTLS }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasParted else { return }
        let bytes = unwrapInboundIn(data)
        guard bytes.readableBytes > 0 else { return context.fireChannelRead(data) }
        let speech = Self.speech(bytes.readableBytesView.prefix(4))
        guard speech != (speaksTLS ? .tls : .frames) else {
            context.fireChannelRead(data)
            return context.pipeline.syncOperations.removeHandler(self, promise: nil)
        }
        hasParted = true
        if let answer = answer(to: speech, context.channel.allocator) {
            context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
        }
        context.fireErrorCaught(reason(speech))
    }

    /// The speech that begins with these bytes. One is enough, but HTTP, whose head comes whole.
    private static func speech(_ start: ByteBufferView) -> Speech {
        switch start.first {
        case 0x00?: return .frames
        case 0x15?, 0x16?: return .tls
        default: break
        }
        let text = String(decoding: start, as: UTF8.self)
        if text == "HTTP" { return .httpAnswer }
        return requests.contains(text) ? .httpRequest : .unknown
    }

    /// The reason, as this side sees it.
    private func reason(_ speech: Speech) -> SyncError {
        switch speech {
        case .frames, .tls: Self.mismatch(thisSpeaksTLS: speaksTLS)
        case .httpAnswer:
            SyncError(
                .versionMismatch,
                "the other side speaks HTTP; a peer that takes WebSockets is named by a URL, as in"
                    + " --connect-ws ws://HOST:PORT")
        case .httpRequest:
            SyncError(.versionMismatch, "the other side speaks HTTP, and this port takes links over TCP")
        case .unknown:
            SyncError(.versionMismatch, "the other side does not speak the protocol of links")
        }
    }

    private static func mismatch(thisSpeaksTLS: Bool) -> SyncError {
        SyncError(
            .securityMismatch,
            thisSpeaksTLS
                ? "this peer speaks TLS, and the other side does not: only this one has a key or a login"
                : "the other side speaks TLS, and this peer does not: only the other has a key or a login")
    }

    /// The last words to the other side, as that one sees it; nil if it would not understand any.
    private func answer(to speech: Speech, _ allocator: ByteBufferAllocator) -> ByteBuffer? {
        switch speech {
        // In the clear: a side that speaks so reads it, the other sees that it is no TLS.
        case .frames, .tls:
            let reason = Self.mismatch(thisSpeaksTLS: !speaksTLS)
            return FrameReader.bytes(of: Session.farewell(reason), allocator)
        case .httpRequest:
            let code = SyncErrorCode.versionMismatch.rawValue
            let remedy = "the port takes links over TCP, not WebSockets: name it as in --connect HOST:PORT"
            let body = #"{"error":{"code":"\#(code)","message":"\#(remedy)"}}"#
            let head = [
                "HTTP/1.1 400 Bad Request", "Content-Type: application/json",
                "Content-Length: \(body.utf8.count)", "Connection: close", "", "",
            ]
            return ByteBuffer(string: head.joined(separator: "\r\n") + body)
        case .httpAnswer, .unknown: return nil
        }
    }
}
