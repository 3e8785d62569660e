/// The format of a log's storage, read without opening the log: opening would bring an older one to this
/// build's, and instances of the version that wrote it would stop.
public struct StoredFormat: Sendable, Equatable {
    /// The format that is stored.
    public let stored: Int
    /// The format that this build writes.
    public let current: Int

    /// A format.
    public init(stored: Int, current: Int) { (self.stored, self.current) = (stored, current) }

    /// True if this build would change it.
    public var isOlder: Bool { stored < current }
}
