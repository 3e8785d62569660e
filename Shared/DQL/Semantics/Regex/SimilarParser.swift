/// Reads the pattern of SIMILAR TO: LIKE's `%` and `_`, and `|`, `( )`, `[set]`, `* + ? {n} {n,} {n,m}`.
/// Everything else, `.`, `^` and `$` included, is literal.
struct SimilarParser {
    private var input: ScalarCursor
    private let escape: Unicode.Scalar?
    private var depth = 0

    static func parse(_ pattern: String, escape: Unicode.Scalar?) throws(RegexError) -> RegexTree {
        var parser = SimilarParser(input: ScalarCursor(pattern), escape: escape)
        try parser.input.checkLength()
        let tree = try parser.choice()
        guard parser.input.isAtEnd else { throw parser.input.failure("an unmatched ')'") }
        return tree
    }

    private init(input: ScalarCursor, escape: Unicode.Scalar?) {
        self.input = input
        self.escape = escape
    }

    private mutating func choice() throws(RegexError) -> RegexTree {
        var branches = [try sequence()]
        while input.peek != escape, input.take("|") { branches.append(try sequence()) }
        return branches.count == 1 ? branches[0] : .choice(branches)
    }

    private mutating func sequence() throws(RegexError) -> RegexTree {
        var parts: [RegexTree] = []
        while let next = input.peek, next == escape || next != "|" && next != ")" {
            let part = try atom()
            guard input.peek != escape, let bounds = try quantifier() else {
                parts.append(part)
                continue
            }
            let place = input.place
            if input.peek != escape, try quantifier() != nil {
                throw RegexError(position: place, message: "a repetition of a repetition; put it in a group")
            }
            parts.append(.repetition(part, minimum: bounds.minimum, maximum: bounds.maximum))
        }
        return parts.count == 1 ? parts[0] : parts.isEmpty ? .empty : .sequence(parts)
    }

    private mutating func quantifier() throws(RegexError) -> RepetitionBounds? {
        if input.take("*") { return RepetitionBounds(minimum: 0, maximum: nil) }
        if input.take("+") { return RepetitionBounds(minimum: 1, maximum: nil) }
        if input.take("?") { return RepetitionBounds(minimum: 0, maximum: 1) }
        return try input.counts()
    }

    private mutating func atom() throws(RegexError) -> RegexTree {
        let place = input.place
        let scalar = try input.next("a character")
        switch scalar {
        case escape: return .one(ScalarSet(try input.next("an escaped character")))
        case "%": return .repetition(.one(.everything), minimum: 0, maximum: nil)
        case "_": return .one(.everything)
        case "(": return try group(place)
        case "[": return .one(try bracket(place))
        case "*", "+", "?", "{": throw RegexError(position: place, message: "\(scalar) has nothing to repeat")
        default: return .one(ScalarSet(scalar))
        }
    }

    private mutating func group(_ place: Int) throws(RegexError) -> RegexTree {
        depth += 1
        guard depth <= DQLLimits.patternGroups else {
            throw RegexError(position: place, message: "groups nest deeper than \(DQLLimits.patternGroups)")
        }
        let tree = try choice()
        depth -= 1
        guard input.take(")") else { throw RegexError(position: place, message: "a '(' without its ')'") }
        return tree
    }

    private mutating func bracket(_ place: Int) throws(RegexError) -> ScalarSet {
        let isInverted = input.peek != escape && input.take("^")
        var ranges: [ClosedRange<UInt32>] = []
        while ranges.isEmpty || input.peek != "]" || input.peek == escape {
            guard !input.isAtEnd else {
                throw RegexError(position: place, message: "a '[' without its ']'")
            }
            let escape = escape
            ranges += try input.bracketItem { input throws(RegexError) in
                let scalar = try input.next("a character")
                return ScalarSet(scalar == escape ? try input.next("an escaped character") : scalar)
            }
        }
        input.place += 1
        return isInverted ? ScalarSet(ranges).inverted : ScalarSet(ranges)
    }
}
