/// The meaning of a pattern, in whichever of the two syntaxes it was written.
indirect enum RegexTree: Equatable, Sendable {
    /// Matches without taking a character.
    case empty
    /// One character of a set.
    case one(ScalarSet)
    case sequence([RegexTree])
    case choice([RegexTree])
    /// - Parameter maximum: nil means any number of times.
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
    /// Between a word character and one that is not.
    case wordEdge
    case noWordEdge
}

/// The flags set by the letters of a flags argument (or of `(?…)`).
struct RegexFlags: Equatable, Sendable {
    /// `i`; `c` clears it.
    var ignoresCase = false
    /// `m`: `^` and `$` match at lines too.
    var isMultiline = false
    /// `s`: `.` matches a line feed too.
    var dotMatchesLineFeed = false
    /// `x`: white space and `#` comments in the pattern are ignored.
    var isExtended = false

    init() {}

    /// Reads a flags argument. The later of `i` and `c` counts.
    init(_ letters: String) throws(RegexError) {
        for (place, letter) in letters.unicodeScalars.enumerated() {
            guard set(letter, to: true) else {
                throw RegexError(
                    position: place, message: "\(letter) is not a flag; the flags are i, c, m, s and x")
            }
        }
    }

    /// Turns one flag on or off; false if there is no such flag.
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
