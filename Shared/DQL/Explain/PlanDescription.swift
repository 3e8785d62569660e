import CRDT

/// A plan as EXPLAIN shows it: operators in the order in which rows pass through them.
struct PlanDescription {
    let documents: any DocumentSource
    let options: ExecutionOptions

    /// `{"#operator": "sequence", "children": […]}`.
    static func sequence(_ children: [Value]) -> Value {
        [operatorKey: "sequence", "children": .array(children)]
    }

    private static let operatorKey = "#operator"

    private static func `operator`(_ name: String, _ entries: [(String, Value?)]) -> Value {
        var object = ObjectValue([(key: operatorKey, value: .string(name))])
        for (key, value) in entries { if let value { object[key] = value } }
        return .object(object)
    }

    /// The operators of a statement with its arguments.
    func operators(_ plan: StatementPlan, _ statement: Statement, _ arguments: [Value]) throws -> [Value] {
        switch (plan, statement) {
        case (.select(let plan), .select(let select)):
            return try operators(plan.specialized(arguments), select)
        case (.insert(let plan), .insert(let insert)):
            var children: [Value] = []
            if case .query(let query, _) = plan.source, case .query(let select) = insert.source {
                children = try operators(query.specialized(arguments), select)
            }
            return children + [Self.operator("insert", [("collection", .string(plan.collection.text))])]
        case (.update(let plan), .update(let update)):
            return try targets(plan.targets.specialized(arguments), update.source, update.selection)
                + [Self.operator("update", [("collection", .string(plan.collection.text))])]
        case (.delete(let plan), .delete(let removal)), (.evict(let plan), .evict(let removal)):
            let isDelete = if case .delete = statement { true } else { false }
            return try targets(plan.targets.specialized(arguments), removal.source, removal.selection)
                + [
                    Self.operator(
                        isDelete ? "delete" : "evict", [("collection", .string(plan.collection.text))])
                ]
        case (.index(let plan), _):
            switch plan.change {
            case .create(let index, _):
                return [
                    Self.operator(
                        "createIndex",
                        [("collection", .string(index.collection.text)), ("index", .string(index.name))])
                ]
            case .drop(let collection, let name, _):
                return [
                    Self.operator(
                        "dropIndex", [("collection", .string(collection.text)), ("index", .string(name))])
                ]
            }
        case (.explain(_, let inner), .explain(let explain)):
            return [
                Self.operator(
                    "advise", [("plan", Self.sequence(try operators(inner, explain.statement, arguments)))])
            ]
        default: return []
        }
    }

    // MARK: Statements

    private func operators(_ plan: SelectPlan, _ select: SelectStatement) throws -> [Value] {
        let planner = RowPlanner(documents: documents, options: options)
        let planned = try planner.plan(
            plan.input, plan.projection, isDistinct: plan.isDistinct,
            isLimited: select.selection.limit != nil && !plan.isDistinct)
        var texts = Texts(select)
        var children = try rows(planned.input.rows, &texts)
        if plan.isDistinct { children.append(Self.operator("distinct", [])) }
        let spills = documents is any SpillingSource
        children += tail(
            select.selection, planned,
            method: select.selection.limit != nil ? "topRows" : spills ? "external" : "memory")
        children.append(
            Self.operator(
                "projection", [("projection", .string(StatementPrinter.print(select.projection)))]))
        children.append(Self.operator("finalProjection", []))
        return children
    }

    private func targets(
        _ targets: OrderedRows, _ source: SourceSyntax, _ selection: SelectionSyntax
    ) throws -> [Value] {
        let planned = try RowPlanner(documents: documents, options: options).plan(
            targets, isLimited: selection.limit != nil)
        var texts = Texts(source, selection)
        return try rows(planned.input.rows, &texts)
            + tail(
                selection, planned, method: selection.limit != nil ? "topRows" : "memory")
    }

    /// - Parameter method: the way a sort is done, if there is one.
    private func tail(
        _ selection: SelectionSyntax, _ planned: RowPlanner.Planned, method: String
    ) -> [Value] {
        var children: [Value] = []
        if !selection.order.isEmpty, !planned.isOrdered {
            let terms = selection.order.map { term -> Value in
                .string(term.expression.text + (term.isDescending ? " DESC" : ""))
            }
            children.append(
                Self.operator("sort", [("terms", .array(terms)), ("method", .string(method))]))
        }
        if selection.limit != nil || selection.offset != nil {
            children.append(
                Self.operator(
                    "limit",
                    [
                        ("limit", selection.limit.map { .string($0.text) }),
                        ("offset", selection.offset.map { .string($0.text) }),
                    ]))
        }
        return children
    }

    /// The conditions as written, in the order in which a plan's filters are met from below.
    private struct Texts {
        var conditions: [String]
        var joins: [JoinSyntax]
        let groupKeys: [String]
        let sources: [SourceSyntax]

        init(_ source: SourceSyntax, _ selection: SelectionSyntax) {
            conditions = selection.condition.map { [$0.text] } ?? []
            joins = source.joins
            groupKeys = []
            sources = [source] + source.joins.map(\.source)
        }

        init(_ select: SelectStatement) {
            conditions = [select.selection.condition, select.having].compactMap { $0?.text }
            joins = select.source.joins
            groupKeys = select.groupKeys.map(\.text)
            sources = [select.source] + select.source.joins.map(\.source)
        }

        func alias(_ source: Int) -> Value? {
            sources.indices.contains(source) ? sources[source].alias.map { .string($0.text) } : nil
        }
    }

    // MARK: Rows

    private func rows(_ plan: RowPlan, _ texts: inout Texts) throws -> [Value] {
        switch plan {
        case .single: return [Self.operator("scan", [("collection", "system:dual")])]
        case .scan(let collection, let source):
            return [scan(collection, texts.alias(source))]
        case .system(let name, let source, _):
            return [
                Self.operator(
                    "scan", [("collection", .string("system:\(name.text)")), ("alias", texts.alias(source))])
            ]
        case .idScan(let collection, let source, let ids):
            return [idScan(collection, ids, texts.alias(source)), fetch(collection)]
        case .access(let collection, let source, let path):
            return access(path, collection, texts.alias(source))
        case .covering(let scan, _): return [indexScan(scan, covers: true)]
        case .pushed(let statement, let source):
            return [try pushed(statement, texts.alias(source))]
        case .pushedOrder(let pushed):
            if pushed.condition != nil, !texts.conditions.isEmpty { texts.conditions.removeFirst() }
            return [try self.pushed(pushed.statement, texts.alias(pushed.source))]
        case .pushedGroups(let pushed):
            // Its WHERE is in the SQL.
            if pushed.hasCondition, !texts.conditions.isEmpty { texts.conditions.removeFirst() }
            let join = pushed.join.map { joined($0.join, &texts) } ?? []
            return [try self.pushed(pushed.groups, texts.alias(pushed.source), join)]
        case .pushedJoin(let pushed):
            return [try self.pushed(pushed.shown, texts.alias(pushed.source), joined(pushed.join, &texts))]
        case .count(let collection, _):
            return [Self.operator("countScan", [("collection", .string(collection.text))])]
        case .extremes(let collection, let extremes):
            // The condition of a count is its range.
            if extremes.contains(where: \.isOfEntries), !texts.conditions.isEmpty {
                texts.conditions.removeFirst()
            }
            return extremes.map { extreme in
                switch extreme {
                case .count: Self.operator("countScan", [("collection", .string(collection.text))])
                case .first(let scan): indexScan(scan, covers: true, takes: "first")
                case .entries(let scan): indexScan(scan, covers: true, takes: "count")
                }
            }
        case .filter(let inner, _):
            let below = try rows(inner, &texts)
            let condition = texts.conditions.isEmpty ? nil : texts.conditions.removeFirst()
            return below + [
                Self.operator(
                    "filter",
                    [("condition", condition.map { .string($0) })])
            ]
        case .group(let inner, let grouping):
            let below = try rows(inner, &texts)
            // DISTINCT, which tells of itself.
            guard !texts.groupKeys.isEmpty || !grouping.aggregates.isEmpty else { return below }
            return below + [
                Self.operator(
                    "group",
                    [
                        ("keys", .array(texts.groupKeys.map { .string($0) })),
                        ("aggregates", .int(Int64(grouping.aggregates.count))),
                    ])
            ]
        case .join(let left, let join):
            let below = try rows(left, &texts)
            return below + [try self.join(join, &texts)]
        }
    }

    private func join(_ join: JoinPlan, _ texts: inout Texts) throws -> Value {
        let written = texts.joins.isEmpty ? nil : texts.joins.removeFirst()
        let children: [Value]
        switch join.collection {
        case .system(let name):
            children = [Self.operator("scan", [("collection", .string("system:\(name.text)"))])]
        case .documents(let collection):
            if let ids = join.ids {
                children = [idScan(collection, ids, texts.alias(join.source)), fetch(collection)]
            } else {
                let path = try RowPlanner(documents: documents, options: options).joinPath(join, collection)
                children = access(path, collection, texts.alias(join.source))
            }
        }
        return Self.operator(
            "nlJoin",
            [
                ("type", .string(join.isOuter ? "left" : "inner")),
                ("on", written.map { .string($0.condition.text) }),
                ("child", Self.sequence(children)),
            ])
    }

    private func access(_ path: AccessPath, _ collection: CollectionName, _ alias: Value?) -> [Value] {
        switch path {
        case .collection: return [scan(collection, alias)]
        case .nothing:
            return [
                Self.operator(
                    "scan",
                    [
                        ("collection", .string(collection.text)), ("alias", alias),
                        ("empty", true), ("reason", "the condition can never be true"),
                    ])
            ]
        case .union, .intersection, .index, .ids, .idRanges:
            return [scan(of: path, collection), fetch(collection)]
        }
    }

    private func scan(of path: AccessPath, _ collection: CollectionName) -> Value {
        switch path {
        case .index(let scan): indexScan(scan, covers: false)
        case .idRanges(let ranges):
            Self.operator(
                "idRangeScan",
                [
                    ("collection", .string(collection.text)), ("runs", .int(Int64(ranges.runs.count))),
                    ("first", ranges.first.map { .int(Int64($0)) }),
                ])
        case .ids(let ids): idScan(collection, .list(ids.map { .constant($0.value) }), nil)
        case .union(let paths):
            Self.operator("unionScan", [("scans", .array(paths.map { scan(of: $0, collection) }))])
        case .intersection(let scans):
            Self.operator(
                "intersectScan", [("scans", .array(scans.map { indexScan($0, covers: false) }))])
        case .collection, .nothing: scan(collection, nil)
        }
    }

    private func scan(_ collection: CollectionName, _ alias: Value?) -> Value {
        Self.operator(
            "scan",
            [
                ("collection", .string(collection.text)), ("alias", alias),
            ])
    }

    /// The join of a part that runs in the store's SQL.
    private func joined(_ join: JoinPlan, _ texts: inout Texts) -> [(String, Value?)] {
        let written = texts.joins.isEmpty ? nil : texts.joins.removeFirst()
        guard case .documents(let collection) = join.collection else { return [] }
        return [
            ("type", .string(join.isOuter ? "left" : "inner")), ("joined", .string(collection.text)),
            ("joinedAlias", texts.alias(join.source)), ("on", written.map { .string($0.condition.text) }),
        ]
    }

    /// A part that runs in the store's SQL, with the server's own estimate.
    private func pushed(
        _ statement: PushedStatement, _ alias: Value?, _ join: [(String, Value?)] = []
    ) throws -> Value {
        guard let explanation = try documents.pushing?.explanation(of: statement) else {
            preconditionFailure("planned on a source with SQL")
        }
        let source: [(String, Value?)] = [
            ("collection", .string(statement.collection.text)), ("alias", alias),
        ]
        return Self.operator(
            "postgres",
            source + join + [
                ("part", .string(statement.part.rawValue)),
                ("decides", statement.isExact ? "exact" : "rechecked"),
                ("sql", .string(explanation.sql)), ("arguments", .array(explanation.arguments)),
                ("estimate", explanation.estimate),
                ("narrowedBy", statement.path.map { scan(of: $0, statement.collection) }),
            ])
    }

    private func fetch(_ collection: CollectionName) -> Value {
        Self.operator("fetch", [("collection", .string(collection.text))])
    }

    private func idScan(_ collection: CollectionName, _ ids: IDList, _ alias: Value?) -> Value {
        var shown: Value?
        switch ids {
        case .list(let values):
            shown = .array(
                values.prefix(DQLLimits.explainedValues).compactMap {
                    if case .constant(let value?) = $0 { value } else { nil }
                })
        case .array(.constant(let value), _): shown = value
        case .array: break
        }
        return Self.operator(
            "idScan", [("collection", .string(collection.text)), ("alias", alias), ("ids", shown)])
    }

    private func indexScan(_ scan: IndexScan, covers: Bool, takes: Value? = nil) -> Value {
        let shown = scan.ranges.prefix(DQLLimits.explainedValues).map { self.range($0) }
        return Self.operator(
            "indexScan",
            [
                ("collection", .string(scan.index.collection.text)), ("index", .string(scan.index.name)),
                ("ranges", .array(shown)),
                ("rangeCount", .int(Int64(scan.ranges.count))),
                ("direction", scan.isReversed ? "backward" : "forward"),
                ("covers", covers ? true : nil), ("takes", takes),
            ])
    }

    private func range(_ range: IndexRange) -> Value {
        var object = ObjectValue()
        if !range.equal.isEmpty { object["equal"] = .array(range.equal.map { $0 ?? "MISSING" }) }
        if let next = range.next {
            object["from"] = Self.shown(next.lower)
            object["to"] = Self.shown(next.upper)
        }
        return .object(object)
    }

    private static func shown(_ position: KeyPosition) -> Value {
        switch position {
        case .before(let value): ["before": value ?? "MISSING"]
        case .after(let value): ["after": value ?? "MISSING"]
        case .beforeClass(let known): ["beforeType": .string("\(known)")]
        case .afterClass(let known): ["afterType": .string("\(known)")]
        case .afterPrefix(let text): ["afterPrefix": .string(text)]
        }
    }
}
