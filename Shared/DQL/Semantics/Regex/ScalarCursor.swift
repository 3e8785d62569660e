/// The number of times a part is repeated; `maximum` nil: any number.
struct RepetitionBounds: Equatable {
    let minimum: Int
    let maximum: Int?
}

/// A pattern's characters and a place among them, with the parts that both pattern syntaxes share.
struct ScalarCursor {
    private let scalars: [Unicode.Scalar]
    var place = 0

    init(_ text: String) { scalars = Array(text.unicodeScalars) }

    var isAtEnd: Bool { place >= scalars.count }
    var peek: Unicode.Scalar? { place < scalars.count ? scalars[place] : nil }

    func failure(_ message: String) -> RegexError { RegexError(position: place, message: message) }

    func checkLength() throws(RegexError) {
        guard scalars.count <= DQLLimits.patternCharacters else {
            throw RegexError(
                position: DQLLimits.patternCharacters,
                message: "the pattern is longer than \(DQLLimits.patternCharacters) characters")
        }
    }

    mutating func next(_ wanted: String) throws(RegexError) -> Unicode.Scalar {
        guard let scalar = peek else { throw failure("the pattern ends where \(wanted) is expected") }
        place += 1
        return scalar
    }

    mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == scalar else { return false }
        place += 1
        return true
    }

    /// Moves past `scalar`, the result of `peek`.
    mutating func advance(past scalar: Unicode.Scalar) { place += 1 }

    // MARK: Repetitions

    /// `{n}`, `{n,}` or `{n,m}`; nil, with nothing read, if a brace begins anything else.
    mutating func counts() throws(RegexError) -> RepetitionBounds? {
        let start = place
        guard take("{"), let minimum = try number() else {
            place = start
            return nil
        }
        var maximum: Int? = minimum
        if take(",") { maximum = try number() }
        guard take("}") else {
            place = start
            return nil
        }
        if let maximum, maximum < minimum {
            throw RegexError(position: start, message: "a repetition whose bounds are swapped")
        }
        return RepetitionBounds(minimum: minimum, maximum: maximum)
    }

    private mutating func number() throws(RegexError) -> Int? {
        let start = place
        var value = 0
        while let digit = peek, ScalarSet.digits.contains(digit.value) {
            value = value * 10 + Int(digit.value - 0x30)
            place += 1
            guard value <= DQLLimits.patternRepetitions else {
                throw RegexError(
                    position: start, message: "a repetition of more than \(DQLLimits.patternRepetitions)")
            }
        }
        return place == start ? nil : value
    }

    // MARK: Brackets

    private static let namedSets: [String: ScalarSet] = [
        "alnum": ScalarSet([0x30...0x39, 0x41...0x5A, 0x61...0x7A]),
        "alpha": ScalarSet([0x41...0x5A, 0x61...0x7A]),
        "ascii": ScalarSet([0...0x7F]),
        "blank": ScalarSet([0x09...0x09, 0x20...0x20]),
        "cntrl": ScalarSet([0...0x1F, 0x7F...0x7F]),
        "digit": .digits,
        "graph": ScalarSet([0x21...0x7E]),
        "lower": ScalarSet([0x61...0x7A]),
        "print": ScalarSet([0x20...0x7E]),
        "punct": ScalarSet([0x21...0x2F, 0x3A...0x40, 0x5B...0x60, 0x7B...0x7E]),
        "space": .space,
        "upper": ScalarSet([0x41...0x5A]),
        "word": .word,
        "xdigit": ScalarSet([0x30...0x39, 0x41...0x46, 0x61...0x66]),
    ]

    /// One item between brackets: a character, a range, or a named set such as `[:alpha:]`. `element` reads
    /// a character or an escape.
    mutating func bracketItem(
        _ element: (inout ScalarCursor) throws(RegexError) -> ScalarSet
    ) throws(RegexError) -> [ClosedRange<UInt32>] {
        let start = place
        if let named = try namedSet() { return named.ranges }
        let set = try element(&self)
        let isRange = peek == "-" && place + 1 < scalars.count && scalars[place + 1] != "]"
        guard isRange, let low = set.single else { return set.ranges }
        place += 1
        guard let high = try element(&self).single, low <= high else {
            throw RegexError(position: start, message: "a range from a greater character to a lesser one")
        }
        return [low...high]
    }

    private mutating func namedSet() throws(RegexError) -> ScalarSet? {
        let start = place
        guard take("["), take(":") else {
            place = start
            return nil
        }
        let isInverted = take("^")
        var name = ""
        while let letter = peek, letter != ":", letter != "]" {
            name.unicodeScalars.append(letter)
            place += 1
        }
        guard take(":"), take("]") else {
            place = start
            return nil
        }
        guard let set = Self.namedSets[name] else {
            throw RegexError(position: start, message: "[:\(name):] is not a set of characters")
        }
        return isInverted ? set.inverted : set
    }

    // MARK: Escapes

    private static let sets: [Unicode.Scalar: ScalarSet] = [
        "d": .digits, "D": ScalarSet.digits.inverted, "w": .word, "W": ScalarSet.word.inverted,
        "s": .space, "S": ScalarSet.space.inverted,
    ]
    private static let controls: [Unicode.Scalar: Unicode.Scalar] = [
        "n": "\n", "r": "\r", "t": "\t", "f": "\u{C}", "v": "\u{B}", "a": "\u{7}", "0": "\0",
    ]

    /// The set that an escape stands for; its backslash, at `start`, has been read.
    mutating func escapedSet(_ start: Int) throws(RegexError) -> ScalarSet {
        let scalar = try next("an escaped character")
        if let set = Self.sets[scalar] { return set }
        if let control = Self.controls[scalar] { return ScalarSet(control) }
        switch scalar {
        case "x": return ScalarSet(try codePoint(digits: 2, start))
        case "u": return ScalarSet(try codePoint(digits: 4, start))
        case _ where scalar.isASCII && !ScalarSet.word.contains(scalar.value): return ScalarSet(scalar)
        case "_": return ScalarSet(scalar)
        case "1"..."9":
            throw RegexError(position: start, message: "references to groups are not supported")
        default: throw RegexError(position: start, message: "\\\(scalar) is not an escape")
        }
    }

    /// `\x41`, `\u0041`, or any number of digits in braces.
    private mutating func codePoint(digits: Int, _ start: Int) throws(RegexError) -> Unicode.Scalar {
        var text = ""
        let isBraced = take("{")
        while let digit = peek, digit.properties.isASCIIHexDigit,
            isBraced ? text.count < 8 : text.count < digits
        {
            text.unicodeScalars.append(digit)
            place += 1
        }
        let isComplete = isBraced ? take("}") : text.count == digits
        guard isComplete, let value = UInt32(text, radix: 16), let scalar = Unicode.Scalar(value) else {
            throw RegexError(position: start, message: "an escape that names no character")
        }
        return scalar
    }
}

extension ScalarSet {
    /// The only member, if there is exactly one.
    var single: UInt32? {
        guard ranges.count == 1, ranges[0].lowerBound == ranges[0].upperBound else { return nil }
        return ranges[0].lowerBound
    }
}
