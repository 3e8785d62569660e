import Foundation
import UnixSignals

/// Ends the process where its orderly stop stands still, such as at a fold whose disk does not answer.
///
/// The first signal begins the time of the stop; when that is over, the process ends with code 1. A second
/// signal ends it at once, with the code of a process that died of this signal. Neither loses anything: a
/// write was acknowledged after it was synced to the log, and a fold goes on from the log at the next start.
final class StopDeadline {
    /// The effect of a signal.
    enum Consequence: Equatable {
        case end(after: Duration, code: Int32)
        case endNow(code: Int32)
    }

    /// The signals so far, without a clock.
    struct Count {
        /// Time of an orderly stop.
        let time: Duration
        private(set) var isStopping = false

        init(time: Duration) { self.time = time }

        mutating func caught(_ signal: Int32) -> Consequence {
            defer { isStopping = true }
            return isStopping ? .endNow(code: 128 + signal) : .end(after: time, code: 1)
        }
    }

    /// Used on the queue of the signals alone.
    private var count: Count
    private let queue = DispatchQueue(label: "mimeo.stop")

    private init(_ count: Count) { self.count = count }

    /// Watches the signals from now on, until the process ends.
    static func watch(signals: [UnixSignal], time: Duration) {
        let watch = StopDeadline(Count(time: time))
        for signal in signals {
            let source = DispatchSource.makeSignalSource(signal: signal.rawValue, queue: watch.queue)
            // Holds the source and the watch, so that they last as long as the process.
            source.setEventHandler {
                for _ in 0..<max(1, source.data) { watch.caught(signal.rawValue) }
            }
            source.activate()
        }
    }

    private func caught(_ signal: Int32) {
        switch count.caught(signal) {
        case .endNow(let code): Self.end(code, "ended by a second signal while it stopped")
        case .end(let time, let code):
            let text = "ended: it had not stopped \(time.components.seconds) s after it was asked to"
            queue.asyncAfter(deadline: .now() + time / .seconds(1)) { Self.end(code, text) }
        }
    }

    /// Ends the process without anything that could wait for a thread.
    private static func end(_ code: Int32, _ text: String) {
        FileHandle.standardError.write(Data("mimeo: \(text)\n".utf8))
        _exit(code)
    }
}
