import CRDT

/// Spec 2.6, regular expressions.
enum PatternFunctions {
    private static let parameters: [FunctionDefinition.Parameter] = [
        .init("text", .string), .init("pattern", .string), .init("flags", .string),
    ]

    static let all: [FunctionDefinition] = [
        FunctionDefinition(
            "regexp_like", parameters, optional: 1, variadic: true,
            "True if a part of the text matches the regular expression (`^…$` for the whole). Flags: `i`"
                + " ignores case, `c` does not, `m` lets `^` and `$` match at lines, `s` lets `.` match a"
                + " line feed, `x` ignores white space in the pattern. An invalid pattern is an error where"
                + " it is written out, and MISSING where it is computed. Takes time linear in the text:"
                + " lookaround and references to groups are not supported.",
            example: ("regexp_like('Mimeo', '^m.+o$', 'i')", "true"),
            prepare: prepare, check: check
        ) { arguments, goOn in
            try FunctionDefinition.evaluateStrictly(arguments, parameters) { values in
                let pattern = try? pattern(values.dropFirst().map(StringFunctions.text), isConstant: false)
                return try pattern.map { .bool(try $0.matches(StringFunctions.text(values[0]), goOn: goOn)) }
            }
        }
    ]

    /// - Parameter texts: the pattern, then flags.
    private static func pattern(_ texts: [String], isConstant: Bool) throws(RegexError) -> RegexPattern {
        let flags = try RegexFlags(texts.dropFirst().joined())
        return try RegexPattern(texts[0], flags: flags, isConstant: isConstant)
    }

    private static let prepare: @Sendable ([KnownArgument]) -> FunctionDefinition.LongEvaluation? = {
        arguments in
        let texts = arguments.dropFirst().compactMap(\.text)
        guard texts.count == arguments.count - 1, let pattern = try? pattern(texts, isConstant: true) else {
            return nil
        }
        return { arguments, goOn in
            switch arguments[0] {
            case .string(let text)?: .bool(try pattern.matches(text, goOn: goOn))
            case .null?: .null
            default: nil
            }
        }
    }

    private static let check: @Sendable ([KnownArgument]) -> ArgumentProblem? = { arguments in
        for (index, argument) in arguments.enumerated().dropFirst(2) {
            guard let letters = argument.text else { continue }
            do throws(RegexError) {
                _ = try RegexFlags(letters)
            } catch {
                return ArgumentProblem(index: index, message: error.message, isError: true)
            }
        }
        // Flags that are unknown before execution may change the meaning of the pattern.
        let flags = arguments.dropFirst(2).compactMap(\.text)
        guard let text = arguments[1].text, flags.count == arguments.count - 2 else { return nil }
        do throws(RegexError) {
            _ = try pattern([text] + flags, isConstant: false)
            return nil
        } catch {
            return ArgumentProblem(
                index: 1,
                message: "the pattern is invalid at character \(error.position + 1): \(error.message)",
                isError: true)
        }
    }
}
