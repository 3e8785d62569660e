import CRDT

/// Spec 2.6. Lengths and positions count characters (Unicode scalars) unless a name says bytes.
enum StringFunctions {
    static let all: [FunctionDefinition] = [
        .strict(
            "lower", [.init("text", .string)], "The text in lower case.", example: ("lower('ÄB')", "'äb'")
        ) {
            bounded(text($0[0]).lowercased())
        },
        .strict(
            "upper", [.init("text", .string)], "The text in upper case.", example: ("upper('äb')", "'ÄB'")
        ) {
            bounded(text($0[0]).uppercased())
        },
        .strict(
            "contains", [.init("text", .string), .init("part", .string)],
            "True if the part occurs in the text, compared by bytes.",
            example: ("contains('mimeo', 'me')", "true")
        ) { .bool(place(of: text($0[1]), in: text($0[0])) != nil) },
        .strict(
            "starts_with", [.init("text", .string), .init("part", .string)],
            "True if the text begins with the part, compared by bytes.",
            example: ("starts_with('mimeo', 'mi')", "true")
        ) { .bool(text($0[0]).utf8.starts(with: text($0[1]).utf8)) },
        .strict(
            "ends_with", [.init("text", .string), .init("part", .string)],
            "True if the text ends with the part, compared by bytes.",
            example: ("ends_with('mimeo', 'eo')", "true")
        ) { .bool(text($0[0]).utf8.reversed().starts(with: text($0[1]).utf8.reversed())) },
        .strict(
            "char_length", aliases: ["character_length"], [.init("text", .string)],
            "The number of characters.",
            example: ("char_length('für')", "3")
        ) { .int(Int64(text($0[0]).unicodeScalars.count)) },
        .strict(
            "byte_length", [.init("text", .string)], "The number of UTF-8 bytes.",
            example: ("byte_length('für')", "4")
        ) { .int(Int64(text($0[0]).utf8.count)) },
        .strict(
            "substr", [.init("text", .string), .init("start", .integer), .init("length", .integer)],
            optional: 1,
            "The characters from a position, from 0, or from the end when negative. MISSING when it is"
                + " outside the text, or the length negative.",
            example: ("substr('mimeo', 2, 2)", "'me'"), evaluate: substring),
        .strict(
            "pos", aliases: ["position"], [.init("text", .string), .init("part", .string)],
            "The position of the part's first occurrence, from 0; -1 when there is none. Also written"
                + " POSITION(part IN text).",
            example: ("pos('mimeo', 'o')", "4")
        ) { arguments in
            let whole = text(arguments[0])
            guard let place = place(of: text(arguments[1]), in: whole) else { return -1 }
            let index = whole.utf8.index(whole.utf8.startIndex, offsetBy: place)
            return .int(Int64(whole.unicodeScalars[..<index].count))
        },
        .strict(
            "concat", [.init("text", .string)], variadic: true,
            "The texts joined together. MISSING when the result is too long.",
            example: ("concat('a', 'b', 'c')", "'abc'")
        ) { joined($0.map(text), separator: "") },
    ]

    static func text(_ value: Value) -> String { value.stringValue ?? "" }

    /// MISSING for a text longer than `DQLLimits.resultBytes`.
    static func bounded(_ text: String) -> Value? {
        text.utf8.count <= DQLLimits.resultBytes ? .string(text) : nil
    }

    /// The texts with a separator between them; MISSING if the result is longer than
    /// `DQLLimits.resultBytes`.
    static func joined(_ texts: [String], separator: String) -> Value? {
        var length = separator.utf8.count * max(0, texts.count - 1)
        for text in texts { length += text.utf8.count }
        return length <= DQLLimits.resultBytes ? .string(texts.joined(separator: separator)) : nil
    }

    /// The position of the part's first occurrence, in bytes.
    static func place(of part: String, in whole: String) -> Int? {
        let search = ByteSearch(part)
        var whole = whole
        return whole.withUTF8 { search.first(in: $0, from: 0) }
    }

    private static let substring: @Sendable ([Value]) -> Value? = { arguments in
        let scalars = Array(text(arguments[0]).unicodeScalars)
        let asked = arguments[1].intValue ?? 0
        let start = asked < 0 ? Int64(scalars.count) + max(asked, -.max) : asked
        guard start >= 0, start <= scalars.count else { return nil }
        var end = scalars.count
        if arguments.count > 2 {
            let length = arguments[2].intValue ?? 0
            guard length >= 0 else { return nil }
            end = Int(start) + Int(min(length, Int64(scalars.count) - start))
        }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars[Int(start)..<end])
        return .string(String(result))
    }
}
