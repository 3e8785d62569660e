/// One token of a legacy query.
struct LegacyToken: Equatable, Sendable {
    let kind: Kind
    let span: SourceSpan

    enum Kind: Equatable, Sendable {
        case word(String)
        case string(String)
        case integer(UInt64)
        case double(Double)
        case symbol(LegacySymbol)
        case end
    }
}

/// Operators and punctuation, each with its documented spelling.
enum LegacySymbol: String, Sendable {
    case leftParenthesis = "("
    case rightParenthesis = ")"
    case leftBracket = "["
    case rightBracket = "]"
    case leftBrace = "{"
    case rightBrace = "}"
    case colon = ":"
    case comma = ","
    case dot = "."
    case minus = "-"
    case dollar = "$"
    case and = "&&"
    case or = "||"
    case not = "!"
    case equal = "=="
    case notEqual = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="

    /// The comparison that the symbol stands for.
    var comparison: BinaryOperator? {
        switch self {
        case .equal: .equal
        case .notEqual: .notEqual
        case .less: .less
        case .lessOrEqual: .lessOrEqual
        case .greater: .greater
        case .greaterOrEqual: .greaterOrEqual
        default: nil
        }
    }

    /// The longest symbol that two bytes begin with, and its width in bytes.
    static func read(_ first: UInt8, _ second: UInt8?) -> (symbol: LegacySymbol, width: Int)? {
        if let second {
            switch (first, second) {
            case (UInt8(ascii: "&"), UInt8(ascii: "&")): return (.and, 2)
            case (UInt8(ascii: "|"), UInt8(ascii: "|")): return (.or, 2)
            case (UInt8(ascii: "="), UInt8(ascii: "=")): return (.equal, 2)
            case (UInt8(ascii: "!"), UInt8(ascii: "=")), (UInt8(ascii: "<"), UInt8(ascii: ">")):
                return (.notEqual, 2)
            case (UInt8(ascii: "<"), UInt8(ascii: "=")): return (.lessOrEqual, 2)
            case (UInt8(ascii: ">"), UInt8(ascii: "=")): return (.greaterOrEqual, 2)
            default: break
            }
        }
        if first == UInt8(ascii: "=") { return (.equal, 1) }
        guard first < 0x80, let symbol = LegacySymbol(rawValue: String(UnicodeScalar(first))) else {
            return nil
        }
        return (symbol, 1)
    }
}
