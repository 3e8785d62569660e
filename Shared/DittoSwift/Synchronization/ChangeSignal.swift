import Machine

/// Wakes the tasks that wait for a change.
///
/// Take the version, check the condition, then wait for a later version: no change is missed in between.
final class ChangeSignal: Sendable {
    private let state = Monitor(UInt64(0))

    var version: UInt64 { state.read { $0 } }

    /// Reports a change.
    func advance() { state.change { $0 += 1 } }

    /// Returns when there was a change after `version`, on timeout, or when the task is cancelled.
    func wait(after version: UInt64, atMost timeout: Duration) async {
        await state.wait(within: timeout) { $0 != version }
    }
}
