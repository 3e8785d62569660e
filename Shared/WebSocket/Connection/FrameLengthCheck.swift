import NIOCore

/// Refuses frame lengths that are not in their shortest form, as RFC 6455 section 5.2 demands; the frame
/// decoder, which follows in the pipeline, accepts them. Reads only the frames' headers.
///
/// It also remembers that bytes came: on a slow link a frame can take longer than a peer may be silent.
final class FrameLengthCheck: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The bytes so far of a frame's first two bytes and its extended length.
    private var header: [UInt8] = []
    /// Bytes of the frame that are still to come.
    private var rest = 0
    private var isBroken = false
    /// True if bytes have come since the last `takeHeard`.
    private var hasHeard = false

    /// Returns whether bytes have come since the last call.
    func takeHeard() -> Bool {
        defer { hasHeard = false }
        return hasHeard
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        hasHeard = true
        guard !isBroken else { return }
        var buffer = unwrapInboundIn(data)
        guard let sound = soundBytes(of: buffer.readableBytesView) else {
            return context.fireChannelRead(data)
        }
        isBroken = true
        if sound > 0, let slice = buffer.readSlice(length: sound) {
            context.fireChannelRead(wrapInboundOut(slice))
        }
        context.fireErrorCaught(
            WebSocketError(.protocolViolation, "a frame's length is written longer than need be"))
    }

    /// Returns the number of bytes before the last byte of the first unsound header; nil if all are sound.
    private func soundBytes(of bytes: ByteBufferView) -> Int? {
        var place = bytes.startIndex
        while place < bytes.endIndex {
            if rest > 0 {
                let step = min(rest, bytes.endIndex - place)
                rest -= step
                place += step
                continue
            }
            header.append(bytes[place])
            place += 1
            guard header.count >= 2 else { continue }
            let short = header[1] & 0x7F
            let width = short == 126 ? 2 : short == 127 ? 8 : 0
            guard header.count == 2 + width else { continue }
            let length = header.dropFirst(2).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            if width == 2, length < 126 { return place - 1 - bytes.startIndex }
            if width == 8, length < 65_536 { return place - 1 - bytes.startIndex }
            rest = (width == 0 ? Int(short) : Int(clamping: length)) &+ (header[1] & 0x80 == 0 ? 0 : 4)
            // The decoder refuses a length that no frame may have.
            if rest < 0 { rest = .max }
            header.removeAll(keepingCapacity: true)
        }
        return nil
    }
}
