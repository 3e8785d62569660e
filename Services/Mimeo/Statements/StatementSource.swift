import Foundation

/// The statements of a command: its argument, or the lines of standard input.
enum StatementSource {
    static func statements(_ argument: String) -> AsyncThrowingStream<String, any Error> {
        guard argument == "-" else {
            return AsyncThrowingStream { continuation in
                continuation.yield(argument)
                continuation.finish()
            }
        }
        let lines = StandardInput.shared
        return AsyncThrowingStream {
            while let line = await lines.next() {
                if isStatement(line) { return line }
            }
            return nil
        }
    }

    /// Returns whether a line is neither blank nor a comment.
    static func isStatement(_ line: String) -> Bool {
        let text = line.drop { $0.isWhitespace }
        return !text.isEmpty && !text.hasPrefix("--")
    }
}
