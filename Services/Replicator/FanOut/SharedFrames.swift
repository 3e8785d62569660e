import Synchronization

/// Lately encoded frames of the live stream, so that all receivers of one frame share one encoding.
///
/// Bounded by `Limits`: the oldest go first. `state` guards the frames; it is held while one is encoded, so
/// that nobody encodes the same beside it.
final class SharedFrames: Sendable {
    private struct State {
        var frames: [[UInt64]: [UInt8]] = [:]
        /// The selections in the order in which they came, from `first` on.
        var order: [[UInt64]] = []
        var first = 0
        var bytes = 0
        var made = 0
    }

    private let state = Mutex(State())

    /// How many frames were encoded.
    var made: Int { state.withLock { $0.made } }

    /// The bytes of the frame that `selection` names.
    func frame(_ selection: [UInt64], _ make: () -> [UInt8]) -> [UInt8] {
        state.withLock { state in
            if let known = state.frames[selection] { return known }
            let frame = make()
            state.made += 1
            state.frames[selection] = frame
            state.order.append(selection)
            state.bytes += frame.count
            while state.order.count - state.first > Limits.sharedFrames
                || state.bytes > Limits.sharedFrameBytes
            {
                state.bytes -= state.frames.removeValue(forKey: state.order[state.first])?.count ?? 0
                state.first += 1
            }
            if state.first > Limits.sharedFrames {
                state.order.removeFirst(state.first)
                state.first = 0
            }
            return frame
        }
    }
}
