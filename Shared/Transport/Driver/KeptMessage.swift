import Sync
import Synchronization

/// What a broken connection has brought of a message in chunks, for the next session of the same peer. In
/// memory: a process that starts anew begins such a message anew.
package final class KeptMessage: Sendable {
    private let state = Mutex<PartialMessage?>(nil)

    /// Nothing kept.
    package init() {}

    /// What there is.
    package var message: PartialMessage? {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
