import Exchange

/// Properties of encoded frames that a driver needs before the session sees them. Nothing outside Sync looks
/// into a frame.
extension Session {
    /// Returns whether a frame, if small, is handled within some microseconds: received operations and
    /// documents, and progress. Any other kind may cause work, whatever its size: a pattern to compile,
    /// pages to cut, a proof to check.
    public static func isCheap(frame: [UInt8]) -> Bool {
        switch type(of: frame) {
        case .operations, .progress, .upload, .acknowledged: true
        default: false
        }
    }

    /// Returns whether a frame asks for a subscription, whose statement is parsed when it is handled.
    public static func isSubscription(frame: [UInt8]) -> Bool { type(of: frame) == .subscribe }

    /// The frame that tells the other side why this one ends, for an end before any session has begun.
    public static func farewell(_ reason: SyncError) -> [UInt8] { Frame.close(reason).encoded() }

    /// The type of a frame by its first bytes: a map, 0, its type.
    private static func type(of frame: [UInt8]) -> FrameType? {
        guard frame.count > 2, frame[0] >> 5 == 5, frame[1] == 0 else { return nil }
        return FrameType(rawValue: UInt64(frame[2]))
    }
}
