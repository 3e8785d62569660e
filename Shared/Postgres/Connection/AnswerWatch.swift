import Dispatch
import Glibc
import Synchronization

/// Shuts down connections whose servers do not answer. A stopped server keeps its connections and
/// acknowledges received bytes, and libpq would wait for it without end.
///
/// A connection reports when it begins and ends to wait. If it waits longer than its patience, its socket
/// is shut down, which libpq takes for a lost connection. It takes two looks, so that answers which came
/// while this process itself was stopped are still read. The least patient connection decides how frequent
/// the looks are.
///
/// `state` guards the entries: none is shut down after it was forgotten, because its descriptor may belong
/// to another file by then.
final class AnswerWatch: Sendable {
    /// One watched connection.
    final class Entry: Sendable {
        fileprivate let socket: Int32
        fileprivate let patience: UInt64
        /// The start of the present wait, in nanoseconds; 0 while there is none.
        fileprivate let since = Atomic<UInt64>(0)
        /// The start of the wait that a look found too long.
        fileprivate let suspected = Atomic<UInt64>(0)

        fileprivate init(_ socket: Int32, _ patience: Duration) {
            self.socket = socket
            self.patience = UInt64(max(0, patience.wholeMicroseconds)) * 1_000
        }

        /// Runs a body that may wait for the server.
        func waiting<Result>(_ body: () -> Result) -> Result {
            since.store(AnswerWatch.now, ordering: .relaxed)
            defer { since.store(0, ordering: .relaxed) }
            return body()
        }
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var timer: (any DispatchSourceTimer)?
        /// The interval of the timer's looks.
        var interval = PostgresLimits.answerLooks
    }

    /// The only watch of the process.
    static let shared = AnswerWatch()

    private let queue = DispatchQueue(label: "mimeo.postgres.answers")
    private let state = Mutex(State())

    /// Watches a socket until it is forgotten.
    func watch(_ socket: Int32, patience: Duration) -> Entry {
        let entry = Entry(socket, patience)
        state.withLock { state in
            state.entries[ObjectIdentifier(entry)] = entry
            let interval = min(PostgresLimits.answerLooks, patience / PostgresLimits.looksPerAnswer)
            guard let timer = state.timer else {
                let timer = DispatchSource.makeTimerSource(queue: queue)
                timer.setEventHandler { self.look() }
                Self.schedule(timer, each: interval)
                timer.activate()
                (state.timer, state.interval) = (timer, interval)
                return
            }
            guard interval < state.interval else { return }
            Self.schedule(timer, each: interval)
            state.interval = interval
        }
        return entry
    }

    private static func schedule(_ timer: any DispatchSourceTimer, each interval: Duration) {
        let microseconds = max(1, interval.wholeMicroseconds)
        timer.schedule(
            deadline: .now() + .microseconds(microseconds), repeating: .microseconds(microseconds),
            leeway: .microseconds(microseconds / 10))
    }

    /// Stops watching; called before the socket is closed.
    func forget(_ entry: Entry) {
        state.withLock { state in
            state.entries[ObjectIdentifier(entry)] = nil
            guard state.entries.isEmpty else { return }
            state.timer?.cancel()
            state.timer = nil
        }
    }

    /// Ends the wait of a connection as if its server had not answered; a no-op if it was forgotten.
    func hangUp(_ entry: Entry) {
        state.withLock { state in
            guard state.entries[ObjectIdentifier(entry)] != nil else { return }
            shutdown(entry.socket, Int32(SHUT_RDWR))
        }
    }

    private func look() {
        let now = Self.now
        state.withLock { state in
            for entry in state.entries.values {
                let since = entry.since.load(ordering: .relaxed)
                guard since > 0, now > since, now - since > entry.patience else { continue }
                if entry.suspected.exchange(since, ordering: .relaxed) == since {
                    shutdown(entry.socket, Int32(SHUT_RDWR))
                }
            }
        }
    }

    /// The system's coarse clock, which costs next to nothing and stops while the machine is suspended.
    private static var now: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
