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

    /// Returns whether handling a frame may take milliseconds, without credit for it: a long subscription,
    /// whose statement is parsed when it is handled, presence, whose signatures are checked, and a chunk,
    /// which may be the last of such a message.
    public static func isLong(frame: [UInt8]) -> Bool {
        switch type(of: frame) {
        case .subscribe: frame.count > Limits.briefSubscriptionBytes
        case .chunk, .presence: true
        default: false
        }
    }

    /// The frame that tells the other side why this one ends, for an end before any session has begun.
    public static func farewell(_ reason: SyncError) -> [UInt8] { Frame.close(reason).encoded() }

    /// The type of a frame by its first bytes: a map, 0, its type, which has a byte of its own from 24 on.
    private static func type(of frame: [UInt8]) -> FrameType? {
        guard frame.count > 2, frame[0] >> 5 == 5, frame[1] == 0 else { return nil }
        guard frame[2] >= 0x18 else { return FrameType(rawValue: UInt64(frame[2])) }
        guard frame[2] == 0x18, frame.count > 3 else { return nil }
        return FrameType(rawValue: UInt64(frame[3]))
    }
}
