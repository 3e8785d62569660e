import CRDT

/// What the text of a condition shows to be a mistake, though it is a valid statement. The original says
/// nothing and finds no documents.
enum Suspicions {
    /// Warnings about the statement's WHERE.
    static func warnings(_ statement: Statement, _ source: SourceText) -> [DQLWarning] {
        let condition: ExpressionSyntax?
        var hasOneSource = true
        switch statement {
        case .select(let select):
            condition = select.selection.condition
            hasOneSource = select.source.joins.isEmpty
        case .update(let update): condition = update.selection.condition
        case .delete(let removal), .evict(let removal): condition = removal.selection.condition
        default: condition = nil
        }
        guard let condition else { return [] }
        var warnings: [DQLWarning] = []
        visit(condition) { expression in
            guard case .binary(let symbol, let left, let right) = expression.kind, symbol.isComparison else {
                return
            }
            for (one, other) in [(left, right), (right, left)] {
                let found = suspicion(one, other, hasOneSource)
                if let found { warnings.append(source.warning(found.code, found.message, at: one.span)) }
            }
        }
        return warnings
    }

    private static func visit(_ expression: ExpressionSyntax, _ body: (ExpressionSyntax) -> Void) {
        body(expression)
        for child in expression.kind.children { visit(child, body) }
    }

    /// What is wrong with comparing `other` with `one`.
    private static func suspicion(
        _ one: ExpressionSyntax, _ other: ExpressionSyntax, _ hasOneSource: Bool
    ) -> (code: DQLWarningCode, message: String)? {
        switch one.kind {
        case .literal(.null), .missing:
            let test = one.kind == .missing ? "MISSING" : "NULL"
            return (.comparisonWithNothing, "a comparison with \(test) is never true; write IS \(test)")
        case .literal(.string(let text)) where text == "true" || text == "false":
            guard isPath(other) else { return nil }
            return (.booleanAsText, "this compares with the text '\(text)', not with the boolean \(text)")
        case .name(let name) where hasOneSource && !utf8Equal(name.text, documentIDField):
            guard case .name(let id) = other.kind, utf8Equal(id.text, documentIDField) else { return nil }
            return (
                .idComparedWithField,
                "this compares _id with the field \(name.text); a parameter is written :\(name.text)"
            )
        default: return nil
        }
    }

    private static func isPath(_ expression: ExpressionSyntax) -> Bool {
        switch expression.kind {
        case .name, .member, .element: true
        default: false
        }
    }
}
