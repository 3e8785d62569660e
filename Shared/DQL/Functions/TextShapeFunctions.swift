import CRDT

/// Spec 2.6, functions that cut and lengthen text. Their results have at most `DQLLimits.resultBytes`.
enum TextShapeFunctions {
    static let all: [FunctionDefinition] = [
        .strict(
            "split", [.init("text", .string), .init("delimiter", .string)], optional: 1,
            "The parts between the delimiters, as an array; without a delimiter the words between white"
                + " space, with an empty one the characters. MISSING when there are too many.",
            example: ("split('a,b,,c', ',')", "['a', 'b', '', 'c']"), evaluate: split),
        FunctionDefinition(
            "joinstr", [.init("separator", .string), .init("text")], variadic: true,
            "The texts with the separator between them. An array stands for its elements, which have to be"
                + " strings. NULL when a text is null, MISSING when one is anything else, or when there are"
                + " too many or the result is too long.",
            example: ("joinstr('-', 'a', ['b', 'c'])", "'a-b-c'"), evaluate: join),
        .strict(
            "trim", [.init("text", .string), .init("characters", .string)], optional: 1,
            "The text without the characters (white space unless given) at its ends. Called in back quotes,"
                + " or written TRIM(BOTH characters FROM text).",
            example: ("`trim`('  a ')", "'a'")
        ) { trimmed($0, leading: true, trailing: true) },
        .strict(
            "ltrim", [.init("text", .string), .init("characters", .string)], optional: 1,
            "The text without the characters (white space unless given) at its beginning. Also written"
                + " TRIM(LEADING characters FROM text).",
            example: ("ltrim('xxaxx', 'x')", "'axx'")
        ) { trimmed($0, leading: true, trailing: false) },
        .strict(
            "rtrim", [.init("text", .string), .init("characters", .string)], optional: 1,
            "The text without the characters (white space unless given) at its end. Also written"
                + " TRIM(TRAILING characters FROM text).",
            example: ("rtrim('xxaxx', 'x')", "'xxa'")
        ) { trimmed($0, leading: false, trailing: true) },
        .strict(
            "lpad", [.init("text", .string), .init("length", .integer), .init("filler", .string)],
            optional: 1,
            "The text, padded on the left (with blanks unless given) or cut to `length` characters. MISSING"
                + " for a negative or too great length and for an empty filler.",
            example: ("lpad('7', 3, '0')", "'007'")
        ) { arguments in padded(arguments) { text, filler in filler + text } },
        .strict(
            "rpad", [.init("text", .string), .init("length", .integer), .init("filler", .string)],
            optional: 1,
            "The text, padded on the right (with blanks unless given) or cut to `length` characters. MISSING"
                + " for a negative or too great length and for an empty filler.",
            example: ("rpad('ab', 5, '.-')", "'ab.-.'")
        ) { arguments in padded(arguments) { text, filler in text + filler } },
        .strict(
            "repeat", [.init("text", .string), .init("count", .integer)],
            "The text repeated `count` times. MISSING for a negative count, or a result that is too long.",
            example: ("repeat('ab', 3)", "'ababab'")
        ) { arguments in
            let text = text(arguments[0])
            guard let count = arguments[1].intValue, count >= 0 else { return nil }
            let (length, overflow) = Int64(text.utf8.count).multipliedReportingOverflow(by: count)
            guard !overflow, length <= DQLLimits.resultBytes else { return nil }
            return .string(length == 0 ? "" : String(repeating: text, count: Int(count)))
        },
    ]

    private static func text(_ value: Value) -> String { StringFunctions.text(value) }

    private static func string(_ scalars: some Sequence<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }

    // MARK: Parts

    private static let split: @Sendable ([Value]) -> Value? = { arguments in
        var whole = text(arguments[0])
        let parts: [Value]
        if arguments.count < 2 {
            let words = whole.unicodeScalars.split(
                maxSplits: DQLLimits.resultElements, whereSeparator: { $0.properties.isWhitespace })
            parts = words.map { .string(String($0)) }
        } else if text(arguments[1]).isEmpty {
            guard whole.unicodeScalars.count <= DQLLimits.resultElements else { return nil }
            parts = whole.unicodeScalars.map { .string(String($0)) }
        } else {
            let search = ByteSearch(text(arguments[1]))
            parts = whole.withUTF8 { text in
                var parts: [Value] = []
                var start = 0
                while parts.count <= DQLLimits.resultElements {
                    let end = search.first(in: text, from: start)
                    let part = text[start..<(end ?? text.count)]
                    parts.append(.string(String(decoding: part, as: UTF8.self)))
                    guard let end else { break }
                    start = end + search.count
                }
                return parts
            }
        }
        return parts.count <= DQLLimits.resultElements ? .array(parts) : nil
    }

    private static let join: @Sendable ([Value?]) -> Value? = { arguments in
        var texts: [Value?] = []
        for argument in arguments {
            if case .array(let elements)? = argument, !texts.isEmpty {
                texts += elements.map(Optional.some)
            } else {
                texts.append(argument)
            }
            if texts.count > DQLLimits.resultElements { return nil }
        }
        return FunctionDefinition.evaluateStrictly(texts, [.init("text", .string)]) { values in
            StringFunctions.joined(values.dropFirst().map(text), separator: text(values[0]))
        }
    }

    // MARK: Ends

    private static func trimmed(_ arguments: [Value], leading: Bool, trailing: Bool) -> Value {
        let scalars = text(arguments[0]).unicodeScalars
        let characters = arguments.count > 1 ? Set(text(arguments[1]).unicodeScalars) : nil
        func goes(_ scalar: Unicode.Scalar) -> Bool {
            characters?.contains(scalar) ?? scalar.properties.isWhitespace
        }
        var rest = scalars[...]
        if leading { rest = rest.drop(while: goes) }
        while trailing, let last = rest.last, goes(last) { rest.removeLast() }
        return .string(String(rest))
    }

    private static func padded(_ arguments: [Value], _ join: (String, String) -> String) -> Value? {
        let scalars = text(arguments[0]).unicodeScalars
        let filler = Array(arguments.count > 2 ? text(arguments[2]).unicodeScalars : " ".unicodeScalars)
        guard let length = arguments[1].intValue, length >= 0, length <= DQLLimits.resultBytes,
            !filler.isEmpty
        else { return nil }
        let missing = Int(length) - scalars.count
        if missing <= 0 { return .string(string(scalars.prefix(Int(length)))) }
        // Appends whole fillers first: building a long text scalar by scalar takes a hundred times as long.
        let whole = string(filler)
        let (cycles, rest) = missing.quotientAndRemainder(dividingBy: filler.count)
        guard cycles <= DQLLimits.resultBytes / whole.utf8.count else { return nil }
        let fill = String(repeating: whole, count: cycles) + string(filler.prefix(rest))
        let result = join(string(scalars), fill)
        return StringFunctions.bounded(result)
    }
}
