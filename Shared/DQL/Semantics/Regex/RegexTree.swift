/// What a pattern says, whichever of the two syntaxes it was written in.
indirect enum RegexTree: Equatable, Sendable {
    /// Matches without taking a character.
    case empty
    /// One character of a set.
    case one(ScalarSet)
    case sequence([RegexTree])
    case choice([RegexTree])
    /// `maximum` nil: any number of times.
    case repetition(RegexTree, minimum: Int, maximum: Int?)
    case assertion(RegexAssertion)
}

/// Conditions on a place between two characters.
enum RegexAssertion: Equatable, Sendable {
    case textStart
    case textEnd
    /// The text's start, or after a line feed.
    case lineStart
    /// The text's end, or before a line feed.
    case lineEnd
    /// Between a word character and none.
    case wordEdge
    case noWordEdge
}

/// What the letters of a flags argument (or of `(?…)`) ask for.
struct RegexFlags: Equatable, Sendable {
    /// `i`; `c` takes it back.
    var ignoresCase = false
    /// `m`: `^` and `$` match at lines too.
    var isMultiline = false
    /// `s`: `.` matches a line feed too.
    var dotMatchesLineFeed = false
    /// `x`: white space and `#` comments in the pattern are ignored.
    var isExtended = false

    init() {}

    /// From a flags argument. Of `i` and `c` the later one counts.
    init(_ letters: String) throws(RegexError) {
        for (place, letter) in letters.unicodeScalars.enumerated() {
            guard set(letter, to: true) else {
                throw RegexError(
                    position: place, message: "\(letter) is no flag; the flags are i, c, m, s and x")
            }
        }
    }

    /// Turns one flag on or off; false when there is no such flag.
    mutating func set(_ letter: Unicode.Scalar, to value: Bool) -> Bool {
        switch letter {
        case "i": ignoresCase = value
        case "c": ignoresCase = !value
        case "m": isMultiline = value
        case "s": dotMatchesLineFeed = value
        case "x": isExtended = value
        default: return false
        }
        return true
    }
}
