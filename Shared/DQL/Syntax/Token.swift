/// One token of a statement.
struct Token: Equatable, Sendable {
    let kind: Kind
    let span: SourceSpan
    /// The hint comments (`/*+ … */`, `--+ …`) directly before it, each without its comment marks.
    var hints: [SourceSpan] = []

    enum Kind: Equatable, Sendable {
        /// A letter or `_`, then letters, digits, `_`; with its keyword, if it is one.
        case word(String, Keyword?)
        /// A name in back quotes.
        case quotedName(String)
        /// A string literal; in double quotes it can be a name at some places.
        case string(String, doubleQuoted: Bool)
        /// A whole number that fits 64 bits without a sign.
        case integer(UInt64)
        /// A number with fraction or exponent.
        case double(Double)
        case symbol(Symbol)
        case end
    }
}

/// Operators and punctuation.
enum Symbol: String, Sendable {
    case leftParenthesis = "("
    case rightParenthesis = ")"
    case leftBracket = "["
    case rightBracket = "]"
    case leftBrace = "{"
    case rightBrace = "}"
    case comma = ","
    case dot = "."
    case semicolon = ";"
    case colon = ":"
    case equal = "="
    case notEqual = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case plus = "+"
    case minus = "-"
    case star = "*"
    case slash = "/"
    case percent = "%"
    case concat = "||"
    case shiftLeft = "<<"
    case shiftRight = ">>"
    case arrow = "->"

    /// The longest symbol that two bytes begin with; not `==` and `<>`, which are other spellings.
    init?(_ first: UInt8, _ second: UInt8?) {
        switch (first, second) {
        case (UInt8(ascii: "!"), UInt8(ascii: "=")): self = .notEqual
        case (UInt8(ascii: "<"), UInt8(ascii: "=")): self = .lessOrEqual
        case (UInt8(ascii: ">"), UInt8(ascii: "=")): self = .greaterOrEqual
        case (UInt8(ascii: "|"), UInt8(ascii: "|")): self = .concat
        case (UInt8(ascii: "<"), UInt8(ascii: "<")): self = .shiftLeft
        case (UInt8(ascii: ">"), UInt8(ascii: ">")): self = .shiftRight
        case (UInt8(ascii: "-"), UInt8(ascii: ">")): self = .arrow
        case (UInt8(ascii: "="), UInt8(ascii: "=")), (UInt8(ascii: "<"), UInt8(ascii: ">")): return nil
        default:
            guard let single = Self.single(first) else { return nil }
            self = single
        }
    }

    private static func single(_ byte: UInt8) -> Symbol? {
        switch byte {
        case UInt8(ascii: "("): .leftParenthesis
        case UInt8(ascii: ")"): .rightParenthesis
        case UInt8(ascii: "["): .leftBracket
        case UInt8(ascii: "]"): .rightBracket
        case UInt8(ascii: "{"): .leftBrace
        case UInt8(ascii: "}"): .rightBrace
        case UInt8(ascii: ","): .comma
        case UInt8(ascii: "."): .dot
        case UInt8(ascii: ";"): .semicolon
        case UInt8(ascii: ":"): .colon
        case UInt8(ascii: "="): .equal
        case UInt8(ascii: "<"): .less
        case UInt8(ascii: ">"): .greater
        case UInt8(ascii: "+"): .plus
        case UInt8(ascii: "-"): .minus
        case UInt8(ascii: "*"): .star
        case UInt8(ascii: "/"): .slash
        case UInt8(ascii: "%"): .percent
        default: nil
        }
    }
}

/// Whole numbers as they are written.
enum NumberSyntax {
    /// The message about a whole number that no integer holds.
    static let tooLarge =
        "an integer has at most 64 bits; with a point or an exponent the number is a float, such as 1e20"
}
