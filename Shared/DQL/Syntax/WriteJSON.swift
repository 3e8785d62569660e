import CRDT

/// The trees of statements that write, and of index and system statements, as values.
extension InsertStatement {
    var jsonValue: Value {
        var entries: [(String, Value)] = [("collection", collection.jsonValue)]
        if isInitial { entries.append(("initial", true)) }
        switch source {
        case .documents(let documents): entries.append(("documents", .list(documents)))
        case .query(let query): entries.append(("query", query.jsonValue))
        }
        entries.append(("onIDConflict", .string(policy.rawValue)))
        return .node("insert", entries + returning.jsonEntries)
    }
}

extension UpdateStatement {
    var jsonValue: Value {
        var entries: [(String, Value)] = [("source", source.jsonValue)]
        if !applications.isEmpty { entries.append(("apply", .array(applications.map(\.jsonValue)))) }
        if !assignments.isEmpty { entries.append(("set", .array(assignments.map(\.jsonValue)))) }
        if !removals.isEmpty { entries.append(("unset", .array(removals.map(\.jsonValue)))) }
        return .node("update", entries + selection.jsonEntries + returning.jsonEntries)
    }
}

extension RemovalStatement {
    var jsonEntries: [(String, Value)] {
        [("source", source.jsonValue)] + selection.jsonEntries + returning.jsonEntries
    }
}

extension ReturningSyntax? {
    var jsonEntries: [(String, Value)] { map { [("returning", $0.projection.jsonValue)] } ?? [] }
}

extension ApplySyntax {
    var jsonValue: Value {
        let what: [(String, Value)] =
            switch action {
            case .increment(let amount): [("increment", amount.jsonValue)]
            case .pnIncrement(let amount): [("pnIncrement", amount.jsonValue)]
            case .restart(let value): [("restart", value?.jsonValue ?? .null)]
            }
        return .object(ObjectValue(([("path", target.jsonValue)] + what).map { (key: $0.0, value: $0.1) }))
    }
}

extension AssignmentSyntax {
    var jsonValue: Value {
        switch action {
        case .value(let value): ["path": target.jsonValue, "value": value.jsonValue]
        case .tombstone: ["path": target.jsonValue, "mutator": "tombstone"]
        case .reset: ["path": target.jsonValue, "mutator": "default"]
        case .children(let children):
            ["path": target.jsonValue, "children": .array(children.map(\.jsonValue))]
        }
    }
}

extension TargetSyntax {
    var jsonValue: Value { .array(segments.map { .string($0) }) }
}

extension CreateIndexStatement {
    var jsonValue: Value {
        .node(
            "createIndex", ("name", .string(name.text)), ("ifNotExists", .bool(ifNotExists)),
            ("collection", collection.jsonValue), ("keys", .array(keys.map(\.jsonValue))))
    }
}

extension IndexKeySyntax {
    var jsonValue: Value {
        .node(
            "indexKey",
            [("path", path.jsonValue), ("direction", isDescending ? "DESC" : "ASC")]
                + (includesMissing.map { [("includesMissing", .bool($0))] } ?? []))
    }
}

extension ExplainStatement {
    var jsonValue: Value {
        switch kind {
        case .explain: .node("explain", ("statement", statement.jsonValue))
        case .profile: .node("profile", ("statement", statement.jsonValue))
        case .advise(let provision):
            .node("advise", ("provision", .bool(provision)), ("statement", statement.jsonValue))
        }
    }
}

extension AlterSystemStatement {
    var jsonValue: Value {
        switch action {
        case .set(let name, let value, let persists):
            .node(
                "alterSystem", ("set", .string(name.text)), ("value", value?.jsonValue ?? .node("default")),
                ("persists", .bool(persists)))
        case .reset(let name): .node("alterSystem", ("reset", .string(name.text)))
        case .resetAll: .node("alterSystem", ("resetAll", true))
        }
    }
}

extension ShowStatement {
    var jsonValue: Value {
        switch self {
        case .parameter(let name): .node("show", ("name", .string(name.text)))
        case .all(nil, _): .node("show", ("all", true))
        case .all(let pattern?, let ignoresCase):
            .node("show", ("all", true), (ignoresCase ? "ilike" : "like", pattern.jsonValue))
        }
    }
}
