import Foundation

/// The lines of standard input, read on its own thread, one line ahead of the consumer.
final class StandardInput: Sendable {
    static let shared = StandardInput { readLine(strippingNewline: true) }

    private let stream: AsyncStream<String>
    private let taken = DispatchSemaphore(value: 1)

    /// - Parameter read: blocks until there is a line; nil at the end.
    init(_ read: @escaping @Sendable () -> String?) {
        let (stream, input) = AsyncStream.makeStream(of: String.self)
        self.stream = stream
        let taken = taken
        Thread.detachNewThread {
            // Waits until the previous line is taken, so that a long input does not pile up in memory.
            taken.wait()
            while let line = read() {
                input.yield(line)
                taken.wait()
            }
            input.finish()
        }
    }

    /// The next line; nil at the end of the input. Two tasks must not call this at once.
    func next() async -> String? {
        var iterator = stream.makeAsyncIterator()
        defer { taken.signal() }
        return await iterator.next()
    }
}
