import CRDT

/// A LIKE pattern, prepared: `%` is any run, `_` one character, the escape character makes the next one
/// literal.
///
/// Matching backtracks to the last `%` only, so it takes at most text × pattern steps.
struct LikePattern: Equatable, Sendable {
    private enum Part: Equatable {
        case byte(UInt8)
        case anyCharacter
        case anyRun
    }

    private var parts: [Part] = []
    private let ignoresCase: Bool

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
    }

    private mutating func append(_ scalar: Unicode.Scalar) {
        for byte in String(ignoresCase ? Self.folded(scalar) : scalar).utf8 { parts.append(.byte(byte)) }
    }

    /// Whether the whole text matches.
    func matches(_ text: String) -> Bool {
        var text = text
        if ignoresCase {
            var folded = String.UnicodeScalarView()
            for scalar in text.unicodeScalars { folded.append(Self.folded(scalar)) }
            text = String(folded)
        }
        return text.withUTF8 { matches($0) }
    }

    /// A character's lower case where that is one character: `_` counts the characters of the text as it is,
    /// and `İ` in lower case would be two.
    private static func folded(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        let lower = scalar.properties.lowercaseMapping.unicodeScalars
        return lower.count == 1 ? lower.first ?? scalar : scalar
    }

    private func matches(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var place = 0
        var part = 0
        var retry: (place: Int, part: Int)?
        while place < text.count || part < parts.count {
            if part < parts.count {
                switch parts[part] {
                case .anyRun:
                    retry = (place, part)
                    part += 1
                    continue
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
