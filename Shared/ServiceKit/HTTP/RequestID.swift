import HTTPTypes

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

    /// A new one: 32 hexadecimal digits.
    static func made() -> String {
        (0..<2).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}
