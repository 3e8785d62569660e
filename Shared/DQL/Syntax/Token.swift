/// One token of a statement.
struct Token: Equatable, Sendable {
    let kind: Kind
    let span: SourceSpan

    enum Kind: Equatable, Sendable {
        /// A letter or `_`, then letters, digits, `_`; with the keyword it is, if any.
        case word(String, Keyword?)
        /// A name in back quotes.
        case quotedName(String)
        /// A string literal; in double quotes it is a name at some places.
        case string(String, doubleQuoted: Bool)
        /// A whole number that fits 64 bits without a sign.
        case integer(UInt64)
        /// A number with fraction or exponent, or a whole one too large for 64 bits.
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
}
