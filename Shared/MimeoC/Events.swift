internal import CMimeo
import CRDT
import Dispatch
import Foundation
import Glibc
import Synchronization

/// Something that happened, on its way to the program.
///
/// `done` is called exactly once: when the program releases the event, after its callback has returned, or
/// when nobody will read it any more. Until then an observer has no further event, so queues stay bounded by
/// the number of observers.
final class Event: Held {
    static let kind = "an event"
    let source: UInt64
    let kind: Int32
    let count: Int
    let format: Format
    /// The receiver; nil for an event that is polled.
    let receiver: Receiver?
    private let bytes: Bytes
    private let size: Int
    /// The object that comes with it. It gets its handle when the program gets the event: one that nobody
    /// reads leaves none.
    private let object: (any Held)?
    private let done: Mutex<(@Sendable () -> Void)?>

    init(
        _ kind: Int32, from source: UInt64, to receiver: Receiver?, _ value: Value, _ format: Format,
        count: Int = 1, object: (any Held)? = nil, done: @escaping @Sendable () -> Void = {}
    ) {
        let (bytes, used) = format.bytes(value)
        self.kind = kind
        self.source = source
        self.receiver = receiver
        self.count = count
        self.object = object
        self.format = used
        self.bytes = Bytes(bytes)
        size = bytes.count
        self.done = Mutex(done)
    }

    deinit { end() }

    func end() {
        let done = done.withLock { done in
            defer { done = nil }
            return done
        }
        done?()
    }

    /// Adds a call to those of the end.
    func whenEnded(_ call: @escaping @Sendable () -> Void) {
        done.withLock { done in
            let before = done
            done = {
                before?()
                call()
            }
        }
    }

    /// The event as the program gets it, once.
    func told(_ handle: UInt64) -> mimeo_event {
        mimeo_event(
            handle: handle, source: source, object: object.map { HandleTable.shared.add($0) } ?? 0,
            data: bytes.start, size: size, count: UInt64(count), kind: kind, format: format.rawValue)
    }
}

/// A callback of the program and its context.
struct Receiver: @unchecked Sendable {
    // Safe: the function is code, and the context is only handed back.
    let callback: mimeo_callback
    let context: UnsafeMutableRawPointer?

    init?(_ callback: mimeo_callback?, _ context: UnsafeMutableRawPointer?) {
        guard let callback else { return nil }
        self.callback = callback
        self.context = context
    }
}

/// Events in the order in which they came, for a thread that waits or a loop that polls.
///
/// `permits` counts the events and the wakes; `state` guards the rest. The descriptor is readable exactly
/// while there are events.
final class EventQueue: Sendable {
    private struct State {
        var events: [Event] = []
        /// The two ends of a pipe, which holds one byte while there are events.
        var pipe: (reads: Int32, writes: Int32)?
        var isClosed = false

        /// Makes the descriptor readable.
        func raise() {
            guard let pipe else { return }
            var byte = UInt8(0)
            _ = write(pipe.writes, &byte, 1)
        }

        /// Makes it unreadable.
        func lower() {
            guard let pipe else { return }
            var byte = UInt8(0)
            _ = read(pipe.reads, &byte, 1)
        }
    }

    private let state = Mutex(State())
    private let permits = DispatchSemaphore(value: 0)
    /// The most events; of more the oldest are dropped.
    private let limit: Int

    init(limit: Int = .max) { self.limit = limit }

    /// Adds an event. `isLatest` replaces an unread one of the same source. Returns the number that was
    /// dropped for want of room, 0 or 1.
    @discardableResult
    func add(_ event: Event, isLatest: Bool = false) -> Int {
        var dropped: Event?
        var isNew = false
        state.withLock { state in
            guard !state.isClosed else { return }
            if isLatest, let place = state.events.firstIndex(where: { $0.source == event.source }) {
                state.events[place] = event
                return
            }
            if state.events.count >= limit {
                dropped = state.events.removeFirst()
            } else {
                isNew = true
            }
            state.events.append(event)
            if state.events.count == 1 { state.raise() }
        }
        if isNew { permits.signal() }
        dropped?.end()
        return dropped == nil ? 0 : 1
    }

    /// The next event; nil when none came within the time, or after `wake`.
    /// - Throws: `NATIVE-0108` once the queue is closed.
    func next(within milliseconds: Int32) throws(BorderError) -> Event? {
        if milliseconds < 0 {
            permits.wait()
        } else if permits.wait(timeout: .now() + .milliseconds(Int(milliseconds))) == .timedOut {
            try checkOpen()
            return nil
        }
        try checkOpen()
        return state.withLock { state in
            guard !state.events.isEmpty else { return nil }
            let event = state.events.removeFirst()
            if state.events.isEmpty { state.lower() }
            return event
        }
    }

    private func checkOpen() throws(BorderError) {
        guard state.withLock({ $0.isClosed }) else { return }
        // For the next thread that waits.
        permits.signal()
        throw BorderError(.interrupted, "the source of the events was closed")
    }

    /// Lets one `next` return nothing.
    func wake() { permits.signal() }

    /// A descriptor that is readable while there are events.
    func descriptor() throws -> Int32 {
        try state.withLock { state in
            if let pipe = state.pipe { return pipe.reads }
            guard !state.isClosed else {
                throw BorderError(.interrupted, "the source of the events was closed")
            }
            var ends: [Int32] = [-1, -1]
            guard Glibc.pipe(&ends) == 0 else {
                throw BorderError(
                    .noDescriptor, "no descriptor for events: \(String(cString: strerror(errno)))")
            }
            for end in ends {
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
            }
            state.pipe = (reads: ends[0], writes: ends[1])
            if !state.events.isEmpty { state.raise() }
            return ends[0]
        }
    }

    /// Drops the events of a source that has ended.
    func drop(_ source: UInt64) {
        let dropped = state.withLock { state in
            let dropped = state.events.filter { $0.source == source }
            state.events.removeAll { $0.source == source }
            if state.events.isEmpty, !dropped.isEmpty { state.lower() }
            return dropped
        }
        // Their permits stay: a `next` that takes one returns nothing.
        for event in dropped { event.end() }
    }

    /// Drops everything, and lets nobody wait any more.
    func close() {
        let dropped = state.withLock { state in
            defer { state.events = [] }
            state.isClosed = true
            if let pipe = state.pipe {
                _ = Glibc.close(pipe.reads)
                _ = Glibc.close(pipe.writes)
            }
            state.pipe = nil
            return state.events
        }
        for event in dropped { event.end() }
        permits.signal()
    }
}

/// Everything that a database or a log tells the program: by callbacks, or to be polled.
///
/// `calling` is held while a callback runs, so that whoever ends an observer can wait for it; it is recursive
/// because a callback may end its own observer. `state` guards the dispatcher, which begins with the first
/// callback.
final class Events: Sendable {
    private struct State {
        var isDispatching = false
        var isClosed = false
    }

    let polled: EventQueue
    private let called: EventQueue
    private let state = Mutex(State())
    private let calling = NSRecursiveLock()
    private let ended = DispatchSemaphore(value: 0)
    private let dispatcher = Mutex<pthread_t?>(nil)

    init(limit: Int = .max) {
        polled = EventQueue(limit: limit)
        called = EventQueue(limit: limit)
    }

    /// Hands over an event. Returns the number of events that were dropped for it.
    @discardableResult
    func tell(_ event: Event, isLatest: Bool = false) -> Int {
        guard event.receiver != nil else { return polled.add(event, isLatest: isLatest) }
        let begins = state.withLock { state in
            defer { state.isDispatching = true }
            return !state.isDispatching && !state.isClosed
        }
        if begins { Thread.detachNewThread { self.dispatch() } }
        return called.add(event, isLatest: isLatest)
    }

    /// A source has ended: its callback does not run any more when this returns, unless this is called in it.
    func forget(_ source: UInt64) {
        polled.drop(source)
        called.drop(source)
        calling.withLock {}
    }

    /// Ends everything, and waits for a callback that runs on another thread.
    func close() {
        let wasDispatching = state.withLock { state in
            defer { state.isClosed = true }
            return state.isDispatching && !state.isClosed
        }
        polled.close()
        called.close()
        let isInside = dispatcher.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
        if wasDispatching, !isInside { ended.wait() }
    }

    private func dispatch() {
        dispatcher.withLock { $0 = pthread_self() }
        var all = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, nil)
        while let next = try? called.next(within: -1) as Event?? {
            guard let event = next else { continue }
            calling.withLock {
                // Ended meanwhile: nobody expects a call.
                guard let receiver = event.receiver, HandleTable.shared.has(event.source) else { return }
                let handle = HandleTable.shared.add(event)
                var told = event.told(handle)
                receiver.callback(receiver.context, &told)
                _ = try? HandleTable.shared.remove(handle)
            }
            event.end()
        }
        ended.signal()
    }
}
