import HTTPTypes

/// The trace of a request: W3C's `traceparent`, taken from the client and passed on to webhooks, so that
/// lines of ours and of others can be put together.
///
/// Without `--traces` we record no spans, and a request without the field begins no trace.
public struct RequestTrace: Sendable, Equatable {
    /// The trace of the request that the current task answers.
    @TaskLocal public static var current: RequestTrace?

    /// 32 hexadecimal digits.
    public let id: String
    /// 16 hexadecimal digits: our part of the trace.
    let span: String
    /// 16 hexadecimal digits: the client's part of it.
    let parent: String
    /// Two hexadecimal digits.
    let flags: String

    static let name = "traceparent"

    /// The field's name, to look it up.
    static var field: HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("a valid field name") }
        return name
    }

    /// The trace that a field's text names; nil for a text that is no `traceparent` of version 00, or of a
    /// later one that begins as such.
    init?(_ text: String?) {
        let parts = (text ?? "").split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 4, parts[0].count == 2, Self.isHex(parts[0]), parts[0] != "ff",
            parts[0] != "00" || parts.count == 4, parts[1].count == 32, Self.isHex(parts[1]),
            parts[2].count == 16, Self.isHex(parts[2]), parts[3].count == 2, Self.isHex(parts[3]),
            parts[1].contains(where: { $0 != "0" }), parts[2].contains(where: { $0 != "0" })
        else { return nil }
        (id, parent, flags) = (parts[1], parts[2], parts[3])
        let digits = String(UInt64.random(in: 1 ... .max), radix: 16)
        span = String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// The trace of a request whose own span this is.
    init(_ own: SpanIdentity, parent: String?) {
        (id, span, self.parent, flags) = (own.trace, own.span, parent ?? "", own.isSampled ? "01" : "00")
    }

    /// The field for a request that this one causes.
    public var text: String { "00-\(id)-\(span)-\(flags)" }

    private static func isHex(_ text: String) -> Bool {
        text.utf8.allSatisfy {
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
        }
    }
}
