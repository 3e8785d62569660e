import CRDT

/// Writes a statement in canonical form: upper-case keywords, quotes only where needed, one blank between
/// words. Parsing the text gives the same tree.
public enum StatementPrinter {
    /// The statement's text.
    public static func print(_ statement: Statement) -> String {
        switch statement {
        case .select(let select): self.select(select)
        case .insert(let insert): self.insert(insert)
        case .update(let update): self.update(update)
        case .delete(let removal): "DELETE" + self.removal(removal)
        case .evict(let removal): "EVICT" + self.removal(removal)
        case .createIndex(let create): self.createIndex(create)
        case .dropIndex(let drop):
            "DROP INDEX " + (drop.ifExists ? "IF EXISTS " : "") + ExpressionPrinter.name(drop.name.text)
                + " ON " + collection(drop.collection)
        case .explain(let explain): self.explain(explain)
        case .alterSystem(let alter): "ALTER SYSTEM " + self.alterSystem(alter.action)
        case .show(let show): "SHOW " + self.show(show)
        }
    }

    // MARK: SELECT

    static func select(_ select: SelectStatement) -> String {
        let hint = select.directives.map { "/*+ \(Self.json($0, inComment: true)) */ " } ?? ""
        var grouping = ""
        if !select.groupKeys.isEmpty {
            grouping += " GROUP BY " + select.groupKeys.map(ExpressionPrinter.print).joined(separator: ", ")
        }
        if let having = select.having { grouping += " HAVING " + ExpressionPrinter.print(having) }
        return "SELECT " + hint + (select.isDistinct ? "DISTINCT " : "") + projection(select.projection)
            + " FROM " + source(select.source) + selection(select.selection, grouping: grouping)
    }

    /// The projection as it is written after the word SELECT.
    static func print(_ projection: ProjectionSyntax) -> String { Self.projection(projection) }

    private static func projection(_ projection: ProjectionSyntax) -> String {
        switch projection {
        case .all: "*"
        case .raw(let value): "RAW " + ExpressionPrinter.print(value)
        case .elements(let elements): elements.map(element).joined(separator: ", ")
        }
    }

    private static func element(_ element: ProjectionElementSyntax) -> String {
        switch element {
        case .expression(let value, let alias):
            ExpressionPrinter.print(value) + (alias.map { " AS " + ExpressionPrinter.name($0.text) } ?? "")
        case .allFields(let name): ExpressionPrinter.name(name.text) + ".*"
        case .missing(let path): "MISSING " + self.path(path.map(\.text))
        case .star: "*"
        }
    }

    // MARK: Writes

    private static func insert(_ insert: InsertStatement) -> String {
        var text = "INSERT INTO " + collection(insert.collection) + (insert.isInitial ? " INITIAL" : "")
        switch insert.source {
        case .documents(let documents):
            let list = documents.map { "(" + ExpressionPrinter.print($0) + ")" }
            text += " DOCUMENTS " + list.joined(separator: ", ")
        case .query(let query): text += " " + select(query)
        }
        if insert.policy != .fail, !insert.isInitial { text += " ON ID CONFLICT " + insert.policy.rawValue }
        return text + returning(insert.returning)
    }

    private static func update(_ update: UpdateStatement) -> String {
        var text = "UPDATE " + source(update.source)
        if !update.applications.isEmpty {
            text += " APPLY " + update.applications.map(application).joined(separator: ", ")
        }
        if !update.assignments.isEmpty {
            text += " SET " + update.assignments.map(assignment).joined(separator: ", ")
        }
        if !update.removals.isEmpty {
            text += " UNSET " + update.removals.map { path($0.segments) }.joined(separator: ", ")
        }
        return text + selection(update.selection) + returning(update.returning)
    }

    private static func application(_ application: ApplySyntax) -> String {
        let action =
            switch application.action {
            case .increment(let amount): "INCREMENT BY " + ExpressionPrinter.print(amount)
            case .pnIncrement(let amount): "PN_INCREMENT BY " + ExpressionPrinter.print(amount)
            case .restart(nil): "RESTART"
            case .restart(let value?): "RESTART WITH " + ExpressionPrinter.print(value)
            }
        return path(application.target.segments) + " " + action
    }

    private static func assignment(_ assignment: AssignmentSyntax) -> String {
        let action =
            switch assignment.action {
            case .value(let value): " = " + ExpressionPrinter.print(value)
            case .tombstone: " -> tombstone()"
            case .reset: " -> default()"
            case .children(let children):
                " -> (" + children.map(self.assignment).joined(separator: ", ") + ")"
            }
        return path(assignment.target.segments) + action
    }

    private static func removal(_ removal: RemovalStatement) -> String {
        " FROM " + source(removal.source) + selection(removal.selection) + returning(removal.returning)
    }

    private static func returning(_ returning: ReturningSyntax?) -> String {
        returning.map { " RETURNING " + projection($0.projection) } ?? ""
    }

    // MARK: Indexes and the system

    private static func createIndex(_ create: CreateIndexStatement) -> String {
        let keys = create.keys.map { key in
            path(key.path.segments)
                + (key.includesMissing.map { $0 ? " INCLUDE MISSING" : " EXCLUDE MISSING" } ?? "")
                + (key.isDescending ? " DESC" : "")
        }
        return "CREATE INDEX " + (create.ifNotExists ? "IF NOT EXISTS " : "")
            + ExpressionPrinter.name(create.name.text) + " ON " + collection(create.collection) + " ("
            + keys.joined(separator: ", ") + ")"
    }

    private static func explain(_ explain: ExplainStatement) -> String {
        let word =
            switch explain.kind {
            case .explain: "EXPLAIN "
            case .profile: "PROFILE "
            case .advise(provision: false): "ADVISE "
            case .advise(provision: true): "ADVISE AND PROVISION "
            }
        return word + Self.print(explain.statement)
    }

    private static func alterSystem(_ action: AlterSystemAction) -> String {
        switch action {
        case .set(let name, let value, let persists):
            "SET " + ExpressionPrinter.name(name.text) + " = "
                + (value.map(ExpressionPrinter.print) ?? "DEFAULT") + (persists ? " PERSIST" : "")
        case .reset(let name): "RESET " + ExpressionPrinter.name(name.text)
        case .resetAll: "RESET ALL"
        }
    }

    private static func show(_ show: ShowStatement) -> String {
        switch show {
        case .parameter(let name): ExpressionPrinter.name(name.text)
        case .all(nil, _): "ALL"
        case .all(let pattern?, let ignoresCase):
            (ignoresCase ? "ALL ILIKE " : "ALL LIKE ") + ExpressionPrinter.print(pattern)
        }
    }

    // MARK: Clauses

    static func source(_ source: SourceSyntax) -> String {
        var text = collection(source.collection)
        if let alias = source.alias { text += " AS " + ExpressionPrinter.name(alias.text) }
        switch source.ids {
        case nil: break
        case .list(let ids):
            let list = ids.map(ExpressionPrinter.print).joined(separator: ", ")
            text += " USE IDS " + (list.hasPrefix("(") ? "+" : "") + list
        case .array(let array): text += " USE IDS LIST " + ExpressionPrinter.print(array)
        }
        if let index = source.indexHint { text += " USE INDEX " + ExpressionPrinter.string(index.text) }
        if let directives = source.directives {
            text += " USE DIRECTIVES " + ExpressionPrinter.string(json(directives, inComment: false))
        }
        for join in source.joins {
            text +=
                " " + join.kind.rawValue + " JOIN " + self.source(join.source) + " ON "
                + ExpressionPrinter.print(join.condition)
        }
        return text
    }

    /// Inside a comment `*/` would end it; in JSON it can occur only in a string, where `/` may be escaped.
    private static func json(_ directives: DirectivesSyntax, inComment: Bool) -> String {
        let text = JSONText.print(.object(directives.values))
        guard inComment else { return text }
        var result = ""
        var previous: Unicode.Scalar?
        for scalar in text.unicodeScalars {
            if previous == "*", scalar == "/" { result += "\\" }
            result.unicodeScalars.append(scalar)
            previous = scalar
        }
        return result
    }

    static func path(_ segments: [String]) -> String {
        segments.map(ExpressionPrinter.name).joined(separator: ".")
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
