import CRDT

/// The syntax tree as a value, printed by `mimeo parse`. Every node is an object with a `node` that names
/// its kind.
extension Statement {
    /// The tree.
    public var jsonValue: Value {
        switch self {
        case .select(let select): select.jsonValue
        case .insert(let insert): insert.jsonValue
        case .update(let update): update.jsonValue
        case .delete(let removal): .node("delete", removal.jsonEntries)
        case .evict(let removal): .node("evict", removal.jsonEntries)
        case .createIndex(let create): create.jsonValue
        case .dropIndex(let drop):
            .node(
                "dropIndex", ("name", .string(drop.name.text)), ("ifExists", .bool(drop.ifExists)),
                ("collection", drop.collection.jsonValue))
        case .explain(let explain): explain.jsonValue
        case .alterSystem(let alter): alter.jsonValue
        case .show(let show): show.jsonValue
        }
    }
}

extension Value {
    static func node(_ name: String, _ entries: [(String, Value)]) -> Value {
        .object(ObjectValue([(key: "node", value: .string(name))] + entries.map { (key: $0.0, value: $0.1) }))
    }

    static func node(_ name: String, _ entries: (String, Value)...) -> Value { node(name, entries) }

    static func list(_ expressions: [ExpressionSyntax]) -> Value { .array(expressions.map(\.jsonValue)) }
}

extension SelectStatement {
    var jsonValue: Value {
        var entries: [(String, Value)] = []
        if let directives { entries.append(("directives", .object(directives.values))) }
        if isDistinct { entries.append(("distinct", true)) }
        entries.append(("projection", projection.jsonValue))
        entries.append(("source", source.jsonValue))
        if let condition = selection.condition { entries.append(("where", condition.jsonValue)) }
        if !groupKeys.isEmpty { entries.append(("groupBy", .list(groupKeys))) }
        if let having { entries.append(("having", having.jsonValue)) }
        var rest = selection
        rest.condition = nil
        return .node("select", entries + rest.jsonEntries)
    }
}

extension ProjectionSyntax {
    var jsonValue: Value {
        switch self {
        case .all: .node("all")
        case .raw(let value): .node("raw", ("value", value.jsonValue))
        case .elements(let elements): .array(elements.map(\.jsonValue))
        }
    }
}

extension ProjectionElementSyntax {
    var jsonValue: Value {
        switch self {
        case .star: .node("all")
        case .allFields(let name): .node("allFields", ("of", .string(name.text)))
        case .missing(let path): .node("missing", ("path", .array(path.map { .string($0.text) })))
        case .expression(let value, let alias):
            .node(
                "projection",
                [("value", value.jsonValue)] + (alias.map { [("as", .string($0.text))] } ?? []))
        }
    }
}

extension SelectionSyntax {
    var jsonEntries: [(String, Value)] {
        var entries: [(String, Value)] = []
        if let condition { entries.append(("where", condition.jsonValue)) }
        if !order.isEmpty { entries.append(("orderBy", .array(order.map(\.jsonValue)))) }
        if let limit { entries.append(("limit", limit.jsonValue)) }
        if let offset { entries.append(("offset", offset.jsonValue)) }
        return entries
    }
}

extension OrderSyntax {
    var jsonValue: Value {
        .node(
            "order",
            [("value", expression.jsonValue), ("direction", isDescending ? "DESC" : "ASC")]
                + (nullsFirst.map { [("nulls", $0 ? "FIRST" : "LAST")] } ?? []))
    }
}

extension SourceSyntax {
    var jsonValue: Value {
        var entries: [(String, Value)] = [("collection", collection.jsonValue)]
        if let alias { entries.append(("as", .string(alias.text))) }
        switch ids {
        case nil: break
        case .list(let ids): entries.append(("ids", .list(ids)))
        case .array(let array): entries.append(("idsFrom", array.jsonValue))
        }
        if let indexHint { entries.append(("index", .string(indexHint.text))) }
        if let directives { entries.append(("directives", .object(directives.values))) }
        if !joins.isEmpty { entries.append(("joins", .array(joins.map(\.jsonValue)))) }
        return .node("source", entries)
    }
}

extension JoinSyntax {
    var jsonValue: Value {
        .node(
            "join", ("kind", .string(kind.rawValue)), ("source", source.jsonValue),
            ("on", condition.jsonValue))
    }
}

extension CollectionSyntax {
    var jsonValue: Value {
        .node(
            "collection",
            [("name", .string(qualifiedName.text))]
                + (fields.isEmpty ? [] : [("fields", .array(fields.map(\.jsonValue)))]))
    }
}

extension FieldDeclarationSyntax {
    var jsonValue: Value {
        .node(
            "field",
            [("name", .string(name.text)), ("type", .string(type.rawValue))]
                + (children.isEmpty ? [] : [("fields", .array(children.map(\.jsonValue)))]))
    }
}
