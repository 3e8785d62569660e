import CRDT

/// A prepared LIKE pattern: `%` is any run, `_` one character, the escape character makes the next one
/// literal.
///
/// The part between two `%` is searched for in linear time. Only if it contains a `_`, matching backtracks
/// to the last `%`, and takes at most text × length of that part steps.
struct LikePattern: Equatable, Sendable {
    enum Part: Equatable {
        case byte(UInt8)
        case anyCharacter
        case anyRun
        /// A run up to and including the first occurrence of a text, and another run after it.
        case runThrough(ByteSearch)
        /// A run up to a text at the end.
        case runToEnd([UInt8])
    }

    private(set) var parts: [Part] = []
    let ignoresCase: Bool

    /// The escape character of a LIKE without ESCAPE.
    static let defaultEscape: Unicode.Scalar = "\\"

    init(_ pattern: String, escape: Unicode.Scalar = defaultEscape, ignoresCase: Bool) {
        self.ignoresCase = ignoresCase
        var isEscaped = false
        for scalar in pattern.unicodeScalars {
            switch scalar {
            case _ where isEscaped:
                append(scalar)
                isEscaped = false
            case escape: isEscaped = true
            case "%": if parts.last != .anyRun { parts.append(.anyRun) }
            case "_": parts.append(.anyCharacter)
            default: append(scalar)
            }
        }
        if isEscaped { append(escape) }
        parts = Self.searching(parts)
    }

    /// The parts, with each `%` and the literal text after it merged into one.
    private static func searching(_ parts: [Part]) -> [Part] {
        var result: [Part] = []
        var place = 0
        while place < parts.count {
            guard parts[place] == .anyRun else {
                result.append(parts[place])
                place += 1
                continue
            }
            let end = parts[(place + 1)...].firstIndex(of: .anyRun) ?? parts.count
            let literal = parts[(place + 1)..<end].compactMap { part -> UInt8? in
                if case .byte(let byte) = part { byte } else { nil }
            }
            if literal.isEmpty || literal.count < end - place - 1 {
                result += parts[place..<end]
            } else if end < parts.count {
                result.append(.runThrough(ByteSearch(String(decoding: literal, as: UTF8.self))))
            } else {
                result.append(.runToEnd(literal))
            }
            place = end
        }
        return result
    }

    private mutating func append(_ scalar: Unicode.Scalar) {
        for byte in String(ignoresCase ? Self.folded(scalar) : scalar).utf8 { parts.append(.byte(byte)) }
    }

    /// How many bytes of text a match may read, for a text of `textBytes`: a `_` between two `%` makes it
    /// backtrack, so that it may read each byte as often as that part is long.
    func work(textBytes: Int) -> Int {
        var longest = 1
        var length = 0
        var hasWildcard = false
        var isAfterRun = false
        for part in parts {
            switch part {
            case .anyRun, .runThrough, .runToEnd:
                isAfterRun = true
                (length, hasWildcard) = (0, false)
            case .anyCharacter: hasWildcard = true
            case .byte: break
            }
            length += 1
            if isAfterRun, hasWildcard { longest = max(longest, length) }
        }
        return textBytes.multipliedReportingOverflow(by: longest).overflow ? .max : textBytes * longest
    }

    /// The range of the texts that can match: those that begin as the pattern does.
    var range: KeyRange {
        guard !ignoresCase else { return .whole(.string) }
        var literal: [UInt8] = []
        for part in parts {
            guard case .byte(let byte) = part else { break }
            literal.append(byte)
        }
        let text = String(decoding: literal, as: UTF8.self)
        if literal.count == parts.count { return .equal(to: .string(text)) }
        return literal.isEmpty
            ? .whole(.string) : KeyRange(from: .before(.string(text)), to: .afterPrefix(text))
    }

    /// Returns whether the whole text matches.
    func matches(_ text: String) -> Bool { matches(text) {} }

    /// Returns whether the whole text matches. `goOn` is called now and then, and ends the match by
    /// throwing.
    func matches(_ text: String, goOn: () throws -> Void) rethrows -> Bool {
        var text = text
        if ignoresCase {
            var folded = String.UnicodeScalarView()
            for scalar in text.unicodeScalars { folded.append(Self.folded(scalar)) }
            text = String(folded)
        }
        return try text.withUTF8 { try matches($0, goOn) }
    }

    /// A character's lower case if that is one character: `_` counts the characters of the original text,
    /// and `İ` in lower case would be two.
    private static func folded(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        let lower = scalar.properties.lowercaseMapping.unicodeScalars
        return lower.count == 1 ? lower.first ?? scalar : scalar
    }

    private func matches(
        _ text: UnsafeBufferPointer<UInt8>, _ goOn: () throws -> Void
    ) rethrows -> Bool {
        var place = 0
        var part = 0
        var steps = 0
        var retry: (place: Int, part: Int)?
        while place < text.count || part < parts.count {
            steps += 1
            if steps % DQLLimits.patternStepsBetweenChecks == 0 { try goOn() }
            if part < parts.count {
                switch parts[part] {
                case .anyRun:
                    retry = (place, part)
                    part += 1
                    continue
                case .runThrough(let search):
                    // The first occurrence leaves the most text to the rest, so backtracking is not needed.
                    guard let found = search.first(in: text, from: place) else { return false }
                    place = found + search.count
                    part += 1
                    retry = nil
                    continue
                case .runToEnd(let end):
                    return text.count - place >= end.count && text.suffix(end.count).elementsEqual(end)
                case .anyCharacter where place < text.count:
                    place += Self.width(text[place])
                    part += 1
                    continue
                case .byte(let byte) where place < text.count && text[place] == byte:
                    place += 1
                    part += 1
                    continue
                default: break
                }
            }
            guard let last = retry, last.place < text.count else { return false }
            place = last.place + Self.width(text[last.place])
            part = last.part + 1
            retry = (place, last.part)
        }
        return true
    }

    private static func width(_ lead: UInt8) -> Int {
        lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4
    }
}
