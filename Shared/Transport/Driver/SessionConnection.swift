/// A pipe of whole frames to the other side, as a session's pump needs it.
public protocol SessionConnection: Sendable {
    /// Sends one frame; waits while the other side does not take more.
    func send(_ frame: [UInt8]) async throws

    /// The next frame; nil when the other side has closed.
    func receive() async throws -> [UInt8]?

    /// Closes with a code of RFC 6455 section 7.4 and a reason; the first call counts.
    func close(code: UInt16, reason: String)
}
