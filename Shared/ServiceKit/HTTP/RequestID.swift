import HTTPTypes
import Synchronization

/// `X-Request-ID`: names a request in the client's log, the proxy's and ours.
enum RequestID {
    static let name = "X-Request-ID"

    /// The same, to look it up.
    static var field: HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("a valid field name") }
        return name
    }

    /// The client's own id, if it is 1 to `Limits.requestIDCharacters` visible ASCII characters. Others could
    /// forge or flood the log.
    static func taken(from text: String?) -> String? {
        guard let text, 1...Limits.requestIDCharacters ~= text.utf8.count,
            text.utf8.allSatisfy({ 0x21...0x7E ~= $0 })
        else { return nil }
        return text
    }

    /// A new one: 32 hexadecimal digits, of which the process draws half once, and counts the others.
    static func made() -> String {
        process + digits(counter.add(1, ordering: .relaxed).newValue)
    }

    private static let process = digits(.random(in: .min ... .max))
    private static let counter = Atomic<UInt64>(.random(in: .min ... .max / 2))

    private static func digits(_ number: UInt64) -> String {
        String(unsafeUninitializedCapacity: 16) { text in
            for place in 0..<16 {
                let digit = UInt8(truncatingIfNeeded: number >> UInt64(60 - 4 * place) & 15)
                text[place] = digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
            }
            return 16
        }
    }
}
