import NIOCore

/// The states of handing messages to one reader, one at a time, and their end after them. It does nothing
/// itself: `WebSocketConnection`, and the links of Transport, do what it decides.
///
/// Invariants: a reader has one message at a time; the end comes after the messages; one caller delivers at a
/// time, so calls do not nest. Bounds: what waits is bounded by `Limit` and one read of the socket, because
/// the socket is not read while the machine is full.
package struct DeliveryMachine<Reader, End> {
    /// The amount of waiting messages from which on the socket is not read.
    package struct Limit: Sendable {
        package let messages: Int
        package let bytes: Int

        package init(messages: Int, bytes: Int) {
            self.messages = messages
            self.bytes = bytes
        }
    }

    /// One thing to be done, outside of any lock.
    package enum Delivery {
        case message([UInt8], to: Reader)
        /// Nothing comes after this.
        case end(End, to: Reader)
        /// The socket is to be read again.
        case resumeReading
    }

    private enum State {
        /// Nobody reads, or not at the moment.
        case unread
        /// The reader waits for a message. One that `asks` gets one, and asks again for the next.
        case waiting(Reader, asks: Bool)
        /// The reader has a message, and has not said that it has taken it.
        case busy(Reader)
        /// The reader has got the end, or left: messages are dropped.
        case over
    }

    private var state = State.unread
    private var messages = CircularBuffer<[UInt8]>.empty
    /// Bytes of `messages`.
    private var bytes = 0
    /// The end, once it has come.
    package private(set) var end: End?
    /// True while a caller delivers.
    private var isDelivering = false
    /// True if the socket is not read because too much waits.
    package private(set) var isReadPaused = false
    private let limit: Limit

    /// A machine without messages.
    package init(limit: Limit) { self.limit = limit }

    /// True if messages wait.
    package var isUnread: Bool { !messages.isEmpty }

    private var isFull: Bool {
        if case .over = state { return false }
        return messages.count >= limit.messages || bytes >= limit.bytes
    }

    // MARK: The socket

    /// A message has come.
    package mutating func arrived(_ message: [UInt8]) {
        messages.append(message)
        bytes += message.count
    }

    /// Nothing comes any more; the first end counts.
    package mutating func ends(_ end: End) { self.end = self.end ?? end }

    /// Returns whether the socket must not be read now. `next` says when it may be again.
    package mutating func pausesReading() -> Bool {
        isReadPaused = isFull
        return isReadPaused
    }

    // MARK: The reader

    /// A reader takes one message after the other: the next one after `taken`.
    package mutating func begin(_ reader: Reader) {
        precondition(!isRead, "one reader reads a connection")
        state = .waiting(reader, asks: false)
    }

    /// A reader asks for one message.
    package mutating func ask(_ reader: Reader) {
        precondition(!isRead, "one reader reads a connection")
        state = .waiting(reader, asks: true)
    }

    private var isRead: Bool {
        switch state {
        case .waiting, .busy: true
        case .unread, .over: false
        }
    }

    /// The reader has asked, and waits no longer.
    /// - Returns: that reader; nil if it has been answered.
    package mutating func stopAsking() -> Reader? {
        guard case .waiting(let reader, asks: true) = state else { return nil }
        state = .unread
        return reader
    }

    /// The reader has taken its message.
    package mutating func taken() {
        if case .busy(let reader) = state { state = .waiting(reader, asks: false) }
    }

    /// Messages that wait, or still come, are dropped.
    /// - Returns: the reader, which gets nothing more; nil if nobody reads.
    package mutating func discard() -> Reader? {
        defer { state = .over }
        switch state {
        case .waiting(let reader, _), .busy(let reader): return reader
        case .unread, .over: return nil
        }
    }

    // MARK: Delivering

    /// Makes the caller deliver: it does what `next` says until that is nothing. False if somebody does.
    package mutating func beginDelivering() -> Bool {
        defer { isDelivering = true }
        return !isDelivering
    }

    /// The next thing to be done by the one who delivers; nil if there is nothing: then nobody delivers.
    package mutating func next() -> Delivery? {
        if let delivery = toReader() { return delivery }
        if isReadPaused, !isFull {
            isReadPaused = false
            return .resumeReading
        }
        isDelivering = false
        return nil
    }

    private mutating func toReader() -> Delivery? {
        switch state {
        case .unread, .busy: return nil
        case .over:
            messages = .empty
            bytes = 0
            return nil
        case .waiting(let reader, let asks):
            if let message = takeFirst() {
                state = asks ? .unread : .busy(reader)
                return .message(message, to: reader)
            }
            guard let end else { return nil }
            state = asks ? .unread : .over
            return .end(end, to: reader)
        }
    }

    private mutating func takeFirst() -> [UInt8]? {
        guard let message = messages.popFirst() else { return nil }
        bytes -= message.count
        // An idle connection keeps no capacity.
        if messages.isEmpty, messages.capacity > 2 { messages = .empty }
        return message
    }
}

extension CircularBuffer {
    /// An empty buffer with the least capacity. Each idle session has one, and by default it has room for 16.
    static var empty: Self { Self(initialCapacity: 1) }
}
