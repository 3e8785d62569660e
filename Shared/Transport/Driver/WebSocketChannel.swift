import WebSocket

extension WebSocketConnection: FrameChannel {
    /// See `FrameChannel`.
    public func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        handOver { arrival in
            switch arrival {
            case .message(let frame, let taken): arrived(.frame(frame, taken: taken))
            case .ended: arrived(.ended)
            }
        }
    }

    /// See `FrameChannel`.
    public func end(code: UInt16, reason: String) async {
        await end(WebSocketClose(code: code, reason: reason), within: Limits.lastFramesTimeout)
    }
}

extension WebSocketConfiguration {
    /// Takes over what a connection's owner wants of its pings.
    mutating func set(_ keepAlive: PeerSync.KeepAlive) {
        keepAliveInterval = max(keepAlive.interval, .milliseconds(1))
        missedBeforeDead = max(1, Int(clamping: Int64(keepAlive.patience / keepAliveInterval) - 1))
    }
}
