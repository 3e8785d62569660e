import NIOCore
import Synchronization

/// The rest of a connection after a burst of tiny frames. Each costs an event loop some microseconds, and a
/// read may have ten thousand. The connections of an event loop that rest share its time: the more there are,
/// the longer each rests, so all together are as slow as one.
///
/// The event loop guards the state. `resting` counts the rests of each event loop.
final class FrameRest {
    private static let resting = Mutex<[ObjectIdentifier: Int]>([:])

    private let loop: ObjectIdentifier
    private var task: Scheduled<Void>?

    /// Begins a rest.
    /// - Parameter then: called on the event loop at its end, unless `end` came first.
    init(after frames: Int, on loop: any EventLoop, then: @escaping @Sendable () -> Void) {
        let id = ObjectIdentifier(loop)
        self.loop = id
        let sharers = Self.resting.withLock { resting in
            resting[id, default: 0] += 1
            return resting[id] ?? 1
        }
        let bound = NIOLoopBound(self, eventLoop: loop)
        task = loop.scheduleTask(in: TimeAmount(Limits.frameRest * frames * sharers)) {
            guard bound.value.end() else { return }
            then()
        }
    }

    /// Ends it. Returns false if it had ended before.
    @discardableResult
    func end() -> Bool {
        guard let task else { return false }
        self.task = nil
        task.cancel()
        Self.resting.withLock { resting in
            let left = (resting[loop] ?? 1) - 1
            resting[loop] = left == 0 ? nil : left
        }
        return true
    }
}
