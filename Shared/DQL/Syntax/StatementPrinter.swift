/// Writes a statement in canonical form: upper-case keywords, quotes only where needed, one blank between
/// words. Parsing what it writes gives the same tree.
public enum StatementPrinter {
    /// The statement's text.
    public static func print(_ statement: Statement) -> String {
        switch statement {
        case .select(let select): self.select(select)
        case .insert(let insert): self.insert(insert)
        case .update(let update): self.update(update)
        case .delete(let removal): "DELETE FROM " + source(removal.source) + selection(removal.selection)
        case .evict(let removal): "EVICT FROM " + source(removal.source) + selection(removal.selection)
        }
    }

    private static func select(_ select: SelectStatement) -> String {
        let projection =
            switch select.projection {
            case .all: "*"
            case .raw(let value): "RAW " + ExpressionPrinter.print(value)
            case .elements(let elements): elements.map(element).joined(separator: ", ")
            }
        var grouping = ""
        if !select.groupKeys.isEmpty {
            grouping += " GROUP BY " + select.groupKeys.map(ExpressionPrinter.print).joined(separator: ", ")
        }
        if let having = select.having { grouping += " HAVING " + ExpressionPrinter.print(having) }
        return "SELECT " + (select.isDistinct ? "DISTINCT " : "") + projection + " FROM "
            + source(select.source)
            + selection(select.selection, grouping: grouping)
    }

    private static func element(_ element: ProjectionElementSyntax) -> String {
        switch element {
        case .expression(let value, let alias):
            ExpressionPrinter.print(value) + (alias.map { " AS " + ExpressionPrinter.name($0.text) } ?? "")
        case .allFields(let name): ExpressionPrinter.name(name.text) + ".*"
        case .star: "*"
        }
    }

    private static func insert(_ insert: InsertStatement) -> String {
        let documents = insert.documents.map { "(" + ExpressionPrinter.print($0) + ")" }.joined(
            separator: ", ")
        let policy = insert.policy == .fail ? "" : " ON ID CONFLICT " + insert.policy.rawValue
        return "INSERT INTO " + collection(insert.collection) + " DOCUMENTS " + documents + policy
    }

    private static func update(_ update: UpdateStatement) -> String {
        let assignments = update.assignments.map {
            target($0.target) + " = " + ExpressionPrinter.print($0.value)
        }
        let set = assignments.isEmpty ? "" : " SET " + assignments.joined(separator: ", ")
        let unset =
            update.removals.isEmpty ? "" : " UNSET " + update.removals.map(target).joined(separator: ", ")
        return "UPDATE " + source(update.source) + set + unset + selection(update.selection)
    }

    private static func target(_ target: TargetSyntax) -> String {
        target.segments.map(ExpressionPrinter.name).joined(separator: ".")
    }

    // MARK: Clauses

    static func source(_ source: SourceSyntax) -> String {
        let alias = source.alias.map { " AS " + ExpressionPrinter.name($0.text) } ?? ""
        let ids =
            switch source.ids {
            case nil: ""
            case .list(let ids): " USE IDS " + ids.map(ExpressionPrinter.print).joined(separator: ", ")
            case .array(let array): " USE IDS LIST " + ExpressionPrinter.print(array)
            }
        return collection(source.collection) + alias + ids
    }

    static func collection(_ collection: CollectionSyntax) -> String {
        let name = (collection.isSystem ? "system:" : "") + ExpressionPrinter.name(collection.name.text)
        return collection.fields.isEmpty ? name : "COLLECTION " + name + " " + types(collection.fields)
    }

    private static func types(_ fields: [FieldDeclarationSyntax]) -> String {
        let items = fields.map { field in
            ExpressionPrinter.name(field.name.text) + " " + field.type.rawValue
                + (field.children.isEmpty ? "" : types(field.children))
        }
        return "(" + items.joined(separator: ", ") + ")"
    }

    private static func selection(_ selection: SelectionSyntax, grouping: String = "") -> String {
        var text = selection.condition.map { " WHERE " + ExpressionPrinter.print($0) } ?? ""
        text += grouping
        if !selection.order.isEmpty {
            text += " ORDER BY " + selection.order.map(orderTerm).joined(separator: ", ")
        }
        if let limit = selection.limit { text += " LIMIT " + ExpressionPrinter.print(limit) }
        if let offset = selection.offset { text += " OFFSET " + ExpressionPrinter.print(offset) }
        return text
    }

    private static func orderTerm(_ term: OrderSyntax) -> String {
        ExpressionPrinter.print(term.expression) + (term.isDescending ? " DESC" : "")
            + (term.nullsFirst.map { $0 ? " NULLS FIRST" : " NULLS LAST" } ?? "")
    }
}
