import Foundation

/// The lines of standard input, read on its own thread. A line is read when it is asked for, not before: the
/// prompt's editor reads the same terminal.
final class StandardInput: Sendable {
    static let shared = StandardInput { readLine(strippingNewline: true) }

    private let stream: AsyncStream<String>
    private let wanted = DispatchSemaphore(value: 0)

    /// - Parameter read: blocks until there is a line; nil at the end.
    init(_ read: @escaping @Sendable () -> String?) {
        let (stream, input) = AsyncStream.makeStream(of: String.self)
        self.stream = stream
        let wanted = wanted
        Thread.detachNewThread {
            wanted.wait()
            while let line = read() {
                input.yield(line)
                wanted.wait()
            }
            input.finish()
        }
    }

    /// The next line; nil at the end of the input. Two tasks must not call this at once.
    func next() async -> String? {
        wanted.signal()
        var iterator = stream.makeAsyncIterator()
        return await iterator.next()
    }
}
