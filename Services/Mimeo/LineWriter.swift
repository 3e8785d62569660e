import CRDT
import Foundation
import Synchronization

/// Writes whole lines to a file descriptor, each unbuffered. The lock keeps lines of different threads apart.
final class LineWriter: Sendable {
    static let standardOutput = LineWriter { OutputPipe.write($0) }
    static let standardError = LineWriter { OutputPipe.writeError($0) }

    private let sink: @Sendable (Data) -> Void
    private let isWriting = Mutex(())

    /// - Parameter sink: gets lines with their line feeds; calls never overlap.
    init(_ sink: @escaping @Sendable (Data) -> Void) { self.sink = sink }

    /// Writes a value as one line of JSON.
    func write(_ value: Value) { write(text: JSONText.print(value)) }

    /// Writes a text and a line feed.
    func write(text: String) {
        let line = Data((text + "\n").utf8)
        isWriting.withLock { _ in sink(line) }
    }
}
