import Tracing

/// The place of a span: its trace, itself, and whether the trace is recorded. `traceparent` carries it.
struct SpanIdentity: Sendable, Hashable {
    /// 32 hexadecimal digits.
    var trace: String
    /// 16 hexadecimal digits.
    var span: String
    /// True if spans of this trace are sent.
    var isSampled: Bool

    /// The value of `traceparent`.
    var text: String { "00-\(trace)-\(span)-\(isSampled ? "01" : "00")" }

    /// The identity in another process's `traceparent`; nil for a text that is none.
    init?(traceparent text: String?) {
        guard let found = RequestTrace(text) else { return nil }
        (trace, span) = (found.id, found.parent)
        isSampled = UInt8(found.flags, radix: 16).map { $0 & 1 == 1 } ?? false
    }

    /// A span below a parent; without one the first span of a new trace.
    init(below parent: SpanIdentity?, isSampled: Bool) {
        trace =
            parent?.trace ?? Self.digits(.random(in: .min ... .max)) + Self.digits(.random(in: 1 ... .max))
        span = Self.digits(.random(in: 1 ... .max))
        self.isSampled = isSampled
    }

    private static func digits(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}

private enum SpanIdentityKey: InstrumentationContextKey {
    typealias Value = SpanIdentity
    static let nameOverride: String? = "mimeo.span"
}

extension InstrumentationContext {
    /// The span that is open here.
    var span: SpanIdentity? {
        get { self[SpanIdentityKey.self] }
        set { self[SpanIdentityKey.self] = newValue }
    }
}
