import Sync
import Synchronization

/// The received part of a chunked message on a broken connection, for the next session of the same peer. In
/// memory: after a restart of the process such a message starts again.
package final class KeptMessage: Sendable {
    private let state = Mutex<PartialMessage?>(nil)

    /// An empty store.
    package init() {}

    /// The kept part.
    package var message: PartialMessage? {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
