import Testing

@testable import Postgres

/// The parameters of a statement stand in memory that is used again.
@Suite("Parameters of a statement")
struct ParameterBufferTests {
    /// The parameters that a buffer hands to libpq.
    private static func sent(_ parameters: [Parameter], in buffer: ParameterBuffer) -> [[UInt8]?] {
        buffer.with(parameters) { count, values, lengths, formats in
            (0..<Int(count)).map { number in
                #expect(formats[number] == 1, "it is binary")
                return values[number].map { start in
                    [UInt8](UnsafeRawBufferPointer(start: start, count: Int(lengths[number])))
                }
            }
        }
    }

    @Test("each statement's parameters are its own, whatever was sent before")
    func reused() {
        let buffer = ParameterBuffer()
        for size in [0, 1, 1_023, 1_024, 5, 100_000, 7, PostgresLimits.keptBytes + 1, 3] {
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
            #expect(
                Self.sent([.int8(-2), .bytes(bytes), .text("é")], in: buffer)
                    == [[255, 255, 255, 255, 255, 255, 255, 254], bytes, Array("é".utf8)])
            #expect(buffer.keptBytes <= PostgresLimits.keptBytes)
        }
        #expect(Self.sent([], in: buffer).isEmpty)
    }

    @Test("an empty value is not NULL, wherever it stands")
    func empty() {
        let buffer = ParameterBuffer()
        #expect(Self.sent([.bytes([])], in: buffer) == [[]])
        #expect(Self.sent([.text(""), .bytes([1]), .text("")], in: buffer) == [[], [1], []])
    }
}
