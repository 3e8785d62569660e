/// Reads the syntax of `regexp_like`: the part that RE2 and most others have in common.
///
/// Literals, `.`, classes, `\d \w \s \b` and their opposites, `\A \z`, groups of every spelling (all of them
/// only group), `
/// `, `* + ? {n} {n,} {n,m}` and their lazy variants (which match the same texts), flags in the pattern.
/// Constructs without a linear-time match (lookaround, back references) are refused.
struct RegexParser {
    var input: ScalarCursor
    private var flags: RegexFlags
    private var depth = 0

    static func parse(_ pattern: String, _ flags: RegexFlags) throws(RegexError) -> RegexTree {
        var parser = RegexParser(input: ScalarCursor(pattern), flags: flags)
        try parser.input.checkLength()
        let tree = try parser.choice()
        guard parser.input.isAtEnd else { throw parser.input.failure("an unmatched ')'") }
        return tree
    }

    private init(input: ScalarCursor, flags: RegexFlags) {
        self.input = input
        self.flags = flags
    }

    // MARK: Structure

    private mutating func choice() throws(RegexError) -> RegexTree {
        var branches = [try sequence()]
        while input.take("|") { branches.append(try sequence()) }
        return branches.count == 1 ? branches[0] : .choice(branches)
    }

    private mutating func sequence() throws(RegexError) -> RegexTree {
        var parts: [RegexTree] = []
        while true {
            skipIgnored()
            guard let next = input.peek, next != "|", next != ")" else { break }
            let part = try atom()
            parts.append(try quantified(part))
        }
        return parts.count == 1 ? parts[0] : parts.isEmpty ? .empty : .sequence(parts)
    }

    /// White space and comments, with the flag `x`.
    private mutating func skipIgnored() {
        guard flags.isExtended else { return }
        while let next = input.peek {
            if next == "#" {
                while let other = input.peek, other != "\n" { input.advance(past: other) }
            } else if ScalarSet.space.contains(next.value) {
                input.advance(past: next)
            } else {
                return
            }
        }
    }

    private mutating func quantified(_ part: RegexTree) throws(RegexError) -> RegexTree {
        skipIgnored()
        guard let bounds = try quantifier() else { return part }
        _ = input.take("?")
        skipIgnored()
        let place = input.place
        guard try quantifier() == nil else {
            throw RegexError(position: place, message: "a repetition of a repetition; put it in a group")
        }
        return .repetition(part, minimum: bounds.minimum, maximum: bounds.maximum)
    }

    private mutating func quantifier() throws(RegexError) -> RepetitionBounds? {
        if input.take("*") { return RepetitionBounds(minimum: 0, maximum: nil) }
        if input.take("+") { return RepetitionBounds(minimum: 1, maximum: nil) }
        if input.take("?") { return RepetitionBounds(minimum: 0, maximum: 1) }
        return try input.counts()
    }

    // MARK: Atoms

    private mutating func atom() throws(RegexError) -> RegexTree {
        let place = input.place
        let scalar = try input.next("a character")
        switch scalar {
        case "(": return try group(place)
        case "[": return one(try bracket(place))
        case ".": return .one(flags.dotMatchesLineFeed ? .everything : ScalarSet.lineFeed.inverted)
        case "^": return .assertion(flags.isMultiline ? .lineStart : .textStart)
        case "$": return .assertion(flags.isMultiline ? .lineEnd : .textEnd)
        case "*", "+", "?": throw RegexError(position: place, message: "\(scalar) has nothing to repeat")
        case "{":
            input.place = place
            guard try input.counts() == nil else {
                throw RegexError(position: place, message: "{…} has nothing to repeat")
            }
            input.place = place + 1
            return .one(ScalarSet(scalar))
        case "\\": return try escape(place)
        default: return one(ScalarSet(scalar))
        }
    }

    private func one(_ set: ScalarSet) -> RegexTree { .one(flags.ignoresCase ? set.ignoringCase : set) }

    private mutating func group(_ place: Int) throws(RegexError) -> RegexTree {
        depth += 1
        guard depth <= DQLLimits.patternGroups else {
            throw RegexError(position: place, message: "groups nest deeper than \(DQLLimits.patternGroups)")
        }
        defer { depth -= 1 }
        let outside = flags
        if input.take("?") {
            guard try openGroup(place) else {
                if let next = input.peek, next == "*" || next == "+" || next == "?" {
                    throw input.failure("\(next) has nothing to repeat")
                }
                return .empty
            }
        }
        let tree = try choice()
        flags = outside
        guard input.take(")") else { throw RegexError(position: place, message: "a '(' without its ')'") }
        return tree
    }

    /// Reads the part after `(?`. False if the group ends there: `(?i)` sets flags for the rest.
    private mutating func openGroup(_ place: Int) throws(RegexError) -> Bool {
        if input.take(":") { return true }
        let isNamed = input.take("P")
        if input.take("<") {
            if let next = input.peek, next == "=" || next == "!" {
                throw RegexError(position: place, message: "lookbehind is not supported")
            }
            repeat {
                let letter = try input.next("a group's name")
                if letter == ">" { return true }
                guard ScalarSet.word.contains(letter.value) else { break }
            } while true
            throw RegexError(position: place, message: "a group's name without its '>'")
        }
        if isNamed { throw RegexError(position: place, message: "(?P is followed by <name>") }
        if let next = input.peek, next == "=" || next == "!" {
            throw RegexError(position: place, message: "lookahead is not supported")
        }
        var value = true
        while true {
            let letter = try input.next("a flag")
            switch letter {
            case "-": value = false
            case ":": return true
            case ")": return false
            default:
                guard letter != "c", flags.set(letter, to: value) else {
                    throw RegexError(position: input.place - 1, message: "(?\(letter) is not supported")
                }
            }
        }
    }

    private mutating func escape(_ place: Int) throws(RegexError) -> RegexTree {
        switch input.peek {
        case "b":
            input.place += 1
            return .assertion(.wordEdge)
        case "B":
            input.place += 1
            return .assertion(.noWordEdge)
        case "A":
            input.place += 1
            return .assertion(.textStart)
        case "z":
            input.place += 1
            return .assertion(.textEnd)
        default:
            let set = try input.escapedSet(place)
            return set.single == nil ? .one(set) : one(set)
        }
    }

    // MARK: Brackets

    private mutating func bracket(_ place: Int) throws(RegexError) -> ScalarSet {
        let isInverted = input.take("^")
        var ranges: [ClosedRange<UInt32>] = []
        var isFirst = true
        while isFirst || input.peek != "]" {
            isFirst = false
            guard !input.isAtEnd else {
                throw RegexError(position: place, message: "a '[' without its ']'")
            }
            ranges += try input.bracketItem { input throws(RegexError) in
                let start = input.place
                let scalar = try input.next("a character")
                return scalar == "\\" ? try input.escapedSet(start) : ScalarSet(scalar)
            }
        }
        input.place += 1
        let set = ScalarSet(ranges)
        if !isInverted { return set }
        return (flags.ignoresCase ? set.ignoringCase : set).inverted
    }
}
