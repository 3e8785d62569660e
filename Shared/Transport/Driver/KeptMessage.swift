import Sync
import Synchronization

/// The received part of a chunked message on a broken connection, for the next session of the same peer; with
/// it the number of lists that broke. In memory: after a restart of the process such a message starts again.
package final class KeptMessage: Sendable {
    private let state = Mutex<PartialMessage?>(nil)
    private let lists = Mutex(0)

    /// An empty store.
    package init() {}

    /// The kept part.
    package var message: PartialMessage? {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }

    /// A list of what links brought begins. Returns how many before it have begun, and not ended.
    func beginList() -> Int {
        lists.withLock { count in
            defer { count += 1 }
            return count
        }
    }

    /// The list has ended.
    func endList() { lists.withLock { $0 = 0 } }
}
