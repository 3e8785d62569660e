import CRDT

/// Writes an expression so that parsing it again gives the same tree. Parentheses stand only where
/// precedence needs them.
struct ExpressionPrinter {
    private(set) var text = ""

    static func print(_ expression: ExpressionSyntax) -> String {
        var printer = ExpressionPrinter()
        printer.write(expression)
        return printer.text
    }

    mutating func write(_ expression: ExpressionSyntax) {
        Preparation.pass()
        switch expression.kind {
        case .literal(let value): text += Self.literal(value)
        case .missing: text += "MISSING"
        case .parameter(let name): text += ":\(name.text)"
        case .name(let name): text += Self.name(name.text)
        case .member(let base, let name):
            // A point behind digits would belong to the number.
            write(base, atLeast: base.kind.isNumber ? .max : Precedence.primary)
            text += ".\(Self.name(name.text))"
        case .element(let base, let index):
            write(base, atLeast: Precedence.primary)
            enclose("[", "]") { $0.write(index) }
        case .negate(let operand):
            text += "-"
            enclose("(", ")") { $0.write(operand) }
        case .not(let operand):
            text += "NOT "
            write(operand, atLeast: Precedence.not)
        case .binary(let symbol, let left, let right):
            write(left, atLeast: symbol.precedence)
            text += " \(symbol.rawValue) "
            write(right, atLeast: symbol.precedence + 1)
        case .chain(let first, let links):
            let precedence = links[0].symbol.precedence
            write(first, atLeast: precedence)
            for link in links {
                text += " \(link.symbol.rawValue) "
                write(link.operand, atLeast: precedence + 1)
            }
        case .and(let operands): join(operands, " AND ", Precedence.and)
        case .or(let operands): join(operands, " OR ", Precedence.or)
        case .array(let elements): enclose("[", "]") { $0.list(elements) }
        case .object(let entries):
            enclose("{", "}") { printer in
                for (index, entry) in entries.enumerated() {
                    printer.text += (index > 0 ? ", " : "") + Self.string(entry.key) + ": "
                    printer.write(entry.value)
                }
            }
        case .call(let call): write(call)
        case .quantified, .arrayComprehension, .objectComprehension: writeComprehension(expression)
        default: writePredicate(expression)
        }
    }

    private mutating func writePredicate(_ expression: ExpressionSyntax) {
        switch expression.kind {
        case .between(let value, let low, let high, let negated):
            write(value, atLeast: Precedence.comparison)
            text += negated ? " NOT BETWEEN " : " BETWEEN "
            write(low, atLeast: Precedence.comparison + 1)
            text += " AND "
            write(high, atLeast: Precedence.comparison + 1)
        case .inList(let value, let elements, let negated):
            write(value, atLeast: Precedence.comparison)
            text += negated ? " NOT IN " : " IN "
            enclose("(", ")") { $0.list(elements) }
        case .inCollection(let value, let collection, let negated):
            write(value, atLeast: Precedence.comparison)
            text += negated ? " NOT IN " : " IN "
            writeCollection(collection)
        case .like(let value, let pattern, let escape, let ignoresCase, let negated):
            write(value, atLeast: Precedence.like)
            text += (negated ? " NOT" : "") + (ignoresCase ? " ILIKE " : " LIKE ")
            write(pattern, atLeast: Precedence.like + 1)
            writeEscape(escape)
        case .similar(let value, let pattern, let escape, let negated):
            write(value, atLeast: Precedence.like)
            text += negated ? " NOT SIMILAR TO " : " SIMILAR TO "
            write(pattern, atLeast: Precedence.like + 1)
            writeEscape(escape)
        case .subquery(let query): text += "(" + StatementPrinter.select(query) + ")"
        case .exists(let query): text += "EXISTS (" + StatementPrinter.select(query) + ")"
        case .inSubquery(let value, let query, let negated):
            write(value, atLeast: Precedence.comparison)
            text += (negated ? " NOT IN (" : " IN (") + StatementPrinter.select(query) + ")"
        case .isTest(let value, let test, let negated):
            write(value, atLeast: Precedence.isTest)
            text += negated ? " IS NOT \(test.rawValue)" : " IS \(test.rawValue)"
        case .conditional(let operand, let branches, let otherwise):
            writeConditional(operand, branches, otherwise)
        default: preconditionFailure("not a predicate")
        }
    }

    private mutating func writeEscape(_ escape: ExpressionSyntax?) {
        guard let escape else { return }
        text += " ESCAPE "
        write(escape, atLeast: Precedence.like + 1)
    }

    private mutating func writeConditional(
        _ operand: ExpressionSyntax?, _ branches: [ExpressionSyntax.Branch], _ otherwise: ExpressionSyntax?
    ) {
        text += "CASE"
        if let operand {
            text += " "
            write(operand)
        }
        for branch in branches {
            text += " WHEN "
            write(branch.condition)
            text += " THEN "
            write(branch.result)
        }
        if let otherwise {
            text += " ELSE "
            write(otherwise)
        }
        text += " END"
    }

    private mutating func writeComprehension(_ expression: ExpressionSyntax) {
        switch expression.kind {
        case .quantified(let quantified):
            text += quantified.quantifier.rawValue + " "
            write(quantified.binding)
            text += " SATISFIES "
            write(quantified.condition)
            text += " END"
        case .arrayComprehension(let array):
            text += "ARRAY "
            write(array.result)
            writeSource(array.binding, array.condition)
        case .objectComprehension(let object):
            text += "OBJECT "
            write(object.key)
            text += " : "
            write(object.value)
            writeSource(object.binding, object.condition)
        default: preconditionFailure("not a comprehension")
        }
    }

    private mutating func writeSource(_ binding: BindingSyntax, _ condition: ExpressionSyntax?) {
        text += " FOR "
        write(binding)
        if let condition {
            text += " WHEN "
            write(condition)
        }
        text += " END"
    }

    private mutating func write(_ binding: BindingSyntax) {
        if let index = binding.index { text += Self.name(index.text) + ":" }
        text += Self.name(binding.value.text) + (binding.isWithin ? " WITHIN " : " IN ")
        write(binding.source)
    }

    private mutating func write(_ call: CallSyntax) {
        switch call.name {
        // Any other form of it is an ordinary call, in back quotes.
        case "cast" where call.arguments.count == 2 && !call.isDistinct && !call.isStar: text += "CAST"
        case "position": text += "`position`"  // Without quotes its first IN would part the arguments.
        default: text += Self.name(call.name)
        }
        enclose("(", ")") { printer in
            if call.isDistinct { printer.text += "DISTINCT " }
            if call.isStar { printer.text += "*" }
            printer.list(call.arguments)
        }
    }

    /// Writes an operand, in parentheses if it binds less tightly than its place needs.
    private mutating func write(_ operand: ExpressionSyntax, atLeast minimum: Int) {
        if Self.precedence(of: operand) >= minimum {
            write(operand)
        } else {
            enclose("(", ")") { $0.write(operand) }
        }
    }

    /// Writes the operand of IN if it is not a list: a leading parenthesis would read as one.
    private mutating func writeCollection(_ operand: ExpressionSyntax) {
        var printer = ExpressionPrinter()
        printer.write(operand, atLeast: Precedence.comparison + 1)
        text += printer.text.hasPrefix("(") ? "+" + printer.text : printer.text
    }

    private mutating func join(_ operands: [ExpressionSyntax], _ separator: String, _ precedence: Int) {
        for (index, operand) in operands.enumerated() {
            if index > 0 { text += separator }
            write(operand, atLeast: precedence + 1)
        }
    }

    private mutating func list(_ elements: [ExpressionSyntax]) {
        for (index, element) in elements.enumerated() {
            if index > 0 { text += ", " }
            write(element)
        }
    }

    private mutating func enclose(_ open: String, _ close: String, _ body: (inout ExpressionPrinter) -> Void)
    {
        text += open
        body(&self)
        text += close
    }

    static func precedence(of expression: ExpressionSyntax) -> Int {
        switch expression.kind {
        case .or: Precedence.or
        case .and: Precedence.and
        case .not: Precedence.not
        case .isTest: Precedence.isTest
        case .like, .similar: Precedence.like
        case .between, .inList, .inCollection, .inSubquery: Precedence.comparison
        case .binary(let symbol, _, _): symbol.precedence
        case .chain(_, let links): links[0].symbol.precedence
        case .negate: Precedence.negate
        case .literal(.int(let value)) where value < 0: Precedence.negate
        case .literal(.double(let value)) where value.sign == .minus: Precedence.negate
        default: Precedence.primary
        }
    }

    // MARK: Tokens

    /// A name, in back quotes if it needs them.
    static func name(_ name: String) -> String {
        let isPlain =
            name.utf8.first.map { $0 == UInt8(ascii: "_") || Lexer.isLetter($0) } ?? false
            && name.utf8.allSatisfy { $0 == UInt8(ascii: "_") || Lexer.isLetter($0) || Lexer.isDigit($0) }
        if isPlain {
            switch Keyword.lookup(name) {
            case nil: return name
            // These words have a meaning at the beginning of an expression or of an index's name.
            case .list, .default, .if: break
            case let keyword?: if !keyword.isReserved { return name }
            }
        }
        return "`" + name.split(separator: "`", omittingEmptySubsequences: false).joined(separator: "``")
            + "`"
    }

    static func literal(_ value: Value) -> String {
        switch value {
        case .null: "NULL"
        case .bool(let flag): flag ? "TRUE" : "FALSE"
        case .int(let number): String(number)
        case .double(let number): "\(number)"
        case .string(let text): string(text)
        case .binary, .array, .object: preconditionFailure("the parser makes no such literal")
        }
    }

    static func string(_ text: String) -> String {
        var result = "'"
        for scalar in text.unicodeScalars {
            switch scalar {
            case "'": result += "\\'"
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "'"
    }
}

extension ExpressionSyntax.Kind {
    fileprivate var isNumber: Bool {
        switch self {
        case .literal(.int), .literal(.double): true
        default: false
        }
    }
}
