import NIOCore
import NIOWebSocket

/// The close frame that a stopping server sends.
enum WebSocketGoodbye {
    typealias Frame = WebSocketFrame

    /// 1001, going away.
    static var goingAway: Frame {
        var data = ByteBuffer()
        data.write(webSocketErrorCode: .goingAway)
        data.writeString("going away")
        return Frame(fin: true, opcode: .connectionClose, data: data)
    }
}
