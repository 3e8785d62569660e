/// The format of a log's storage, read without opening the log: opening would bring an older one to this
/// build's, and instances of the version that wrote it would stop.
public struct StoredFormat: Sendable, Equatable {
    /// The format that is stored.
    public let stored: Int
    /// The oldest format that this build opens.
    public let oldest: Int
    /// The format that this build writes.
    public let current: Int

    /// A format.
    public init(stored: Int, oldest: Int, current: Int) {
        (self.stored, self.oldest, self.current) = (stored, oldest, current)
    }

    /// True if this build neither opens nor changes it.
    public var isTooOld: Bool { stored < oldest }

    /// True if this build would change it.
    public var isOlder: Bool { !isTooOld && stored < current }
}
