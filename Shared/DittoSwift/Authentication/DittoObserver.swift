import Synchronization

/// Keeps an observation of presence or login status alive. It ends when this is stopped or dropped.
public final class DittoObserver: Sendable {
    private let end: Mutex<(@Sendable () -> Void)?>

    init(_ end: @escaping @Sendable () -> Void) { self.end = Mutex(end) }

    deinit { stop() }

    /// Ends the observation.
    public func stop() {
        let end = end.withLock { end in
            defer { end = nil }
            return end
        }
        end?()
    }

    /// As `stop()`.
    public func cancel() { stop() }
}
