import NIOCore
import NIOWebSocket

/// Assembles fragmented messages and enforces the order of fragments of RFC 6455. Keeps at most
/// `maximumBytes` of an unfinished message.
struct MessageAssembler {
    let maximumBytes: Int
    private var partial: ByteBuffer?

    init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    /// Adds a data frame; returns the message that it completes, or nil.
    /// - Throws: `WS-0203` for a message that is too large, `WS-0205` for a fragment out of order.
    mutating func add(_ frame: WebSocketFrame) throws(WebSocketError) -> [UInt8]? {
        let data = frame.unmaskedData
        switch (frame.opcode, partial?.readableBytes) {
        case (.binary, nil):
            guard data.readableBytes <= maximumBytes else { throw tooLarge }
            if frame.fin { return [UInt8](data.readableBytesView) }
            partial = data
            return nil
        case (.continuation, let length?):
            guard length + data.readableBytes <= maximumBytes else { throw tooLarge }
            // In place: with a second reference each fragment would copy all before it.
            partial?.writeImmutableBuffer(data)
            guard frame.fin, let message = partial else { return nil }
            partial = nil
            return [UInt8](message.readableBytesView)
        default:
            throw WebSocketError(.protocolViolation, "a fragment stands where none may")
        }
    }

    private var tooLarge: WebSocketError {
        WebSocketError(.messageTooLarge, "a message is larger than \(maximumBytes) bytes")
    }
}

extension WebSocketFrame {
    static func close(_ close: WebSocketClose, maskKey: WebSocketMaskingKey?) -> WebSocketFrame {
        var data = ByteBuffer()
        // 1005 must not be sent; it stands for a frame without a code.
        if close.code != WebSocketClose.noStatus.code {
            data.writeInteger(close.code)
            var reason = close.reason
            while reason.utf8.count > 123 { reason.removeLast() }
            data.writeString(reason)
        }
        return WebSocketFrame(fin: true, opcode: .connectionClose, maskKey: maskKey, data: data)
    }

    /// The code and reason of a close frame; nil if it is malformed: one byte, a reserved code, a reason that
    /// is not UTF-8.
    var closeReason: WebSocketClose? {
        var data = unmaskedData
        guard data.readableBytes > 0 else { return .noStatus }
        guard let code = data.readInteger(as: UInt16.self), Self.isLegal(closeCode: code),
            let reason = String(validating: data.readableBytesView, as: UTF8.self)
        else { return nil }
        return WebSocketClose(code: code, reason: reason)
    }

    private static func isLegal(closeCode: UInt16) -> Bool {
        (1000...1003).contains(closeCode) || (1007...1014).contains(closeCode)
            || (3000...4999).contains(closeCode)
    }
}
