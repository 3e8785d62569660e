import CRDT
import DQLCorpus

@testable import DQL

/// Random syntax trees of every kind of node; all could come from the parser.
struct TreeGenerator {
    var choices: Choices
    private let span = SourceSpan(start: 0, end: 0)

    init(seed: Int) { choices = Choices(seed: UInt64(seed) + 90_000) }

    private mutating func flag() -> Bool { choices.below(2) == 0 }

    private mutating func maybe<Item>(_ item: (inout TreeGenerator) -> Item) -> Item? {
        choices.below(3) == 0 ? item(&self) : nil
    }

    private mutating func some<Item>(
        from minimum: Int = 1, _ item: (inout TreeGenerator) -> Item
    ) -> [Item] {
        (0..<(minimum + choices.below(3))).map { _ in item(&self) }
    }

    // MARK: Names and literals

    private static let names = [
        "a", "b", "_id", "A", "select", "from", "list", "default", "if", "trim", "position", "cast",
        "missing",
        "documents", "initial", "end", "x y", "`", "``", "é", "e\u{301}", "名前", "1a", "a.b", "'", "\\", "*/",
        "nulls", "value", "distinct", "persist", "provision", "with", "order",
    ]

    mutating func name() -> NameSyntax { NameSyntax(text: choices.pick(Self.names), span: span) }

    private mutating func literal() -> Value {
        switch choices.below(6) {
        case 0: .null
        case 1: .bool(flag())
        case 2: .int(choices.pick([0, 1, -1, 42, .max, .min]))
        case 3: .double(choices.pick([0.5, -2.5, 1e300, .leastNonzeroMagnitude, 1e21, -0.0, 100]))
        default:
            .string(
                choices.pick(["", "a", "it's", "\\", "\n\r\t\u{0}", "\"", "😀", "--", "/*", "true", "`"]))
        }
    }

    private mutating func node(_ kind: ExpressionSyntax.Kind) -> ExpressionSyntax {
        ExpressionSyntax(kind, span)
    }

    // MARK: Expressions

    mutating func expression(_ depth: Int) -> ExpressionSyntax {
        guard depth > 0 else { return leaf() }
        switch choices.below(8) {
        case 0: return leaf()
        case 1: return node(path(depth - 1))
        case 2: return node(operation(depth - 1))
        case 3: return node(predicate(depth - 1))
        case 4: return node(pattern(depth - 1))
        case 5: return node(compound(depth - 1))
        case 6: return node(comprehension(depth - 1))
        default: return node(subquery(depth - 1))
        }
    }

    private mutating func leaf() -> ExpressionSyntax {
        switch choices.below(5) {
        case 0: node(.literal(literal()))
        case 1: node(.missing)
        case 2: node(.parameter(NameSyntax(text: choices.pick(["p", "select", "_1"]), span: span)))
        default: node(.name(name()))
        }
    }

    private mutating func path(_ depth: Int) -> ExpressionSyntax.Kind {
        flag() ? .member(expression(depth), name()) : .element(expression(depth), expression(depth))
    }

    private mutating func operation(_ depth: Int) -> ExpressionSyntax.Kind {
        switch choices.below(6) {
        case 0: .negate(expression(depth))
        case 1: .not(expression(depth))
        case 2: .and(some(from: 2) { $0.expression(depth) })
        case 3: .or(some(from: 2) { $0.expression(depth) })
        default: .operation(choices.pick(BinaryOperator.allCases), expression(depth), expression(depth))
        }
    }

    private mutating func predicate(_ depth: Int) -> ExpressionSyntax.Kind {
        switch choices.below(4) {
        case 0:
            .between(expression(depth), low: expression(depth), high: expression(depth), negated: flag())
        case 1: .inList(expression(depth), some { $0.expression(depth) }, negated: flag())
        case 2: .inCollection(expression(depth), expression(depth), negated: flag())
        default: .isTest(expression(depth), flag() ? .null : .missing, negated: flag())
        }
    }

    private mutating func pattern(_ depth: Int) -> ExpressionSyntax.Kind {
        if flag() {
            return .like(
                expression(depth), pattern: expression(depth), escape: maybe { $0.expression(depth) },
                ignoresCase: flag(), negated: flag())
        }
        return .similar(
            expression(depth), pattern: expression(depth), escape: maybe { $0.expression(depth) },
            negated: flag())
    }

    private mutating func compound(_ depth: Int) -> ExpressionSyntax.Kind {
        switch choices.below(4) {
        case 0:
            .conditional(
                operand: maybe { $0.expression(depth) },
                branches: some {
                    ExpressionSyntax.Branch(condition: $0.expression(depth), result: $0.expression(depth))
                }, otherwise: maybe { $0.expression(depth) })
        case 1: .array(some(from: 0) { $0.expression(depth) })
        case 2:
            .object(
                some(from: 0) {
                    ExpressionSyntax.Entry(key: $0.name().text, value: $0.expression(depth))
                })
        default: .call(call(depth))
        }
    }

    private mutating func call(_ depth: Int) -> CallSyntax {
        let name = choices.pick(["count", "cast", "trim", "position", "pos", "list", "x y", "abs", "value"])
        if name == "cast" {
            let arguments = [expression(depth), expression(depth)]
            return CallSyntax(name: name, arguments: arguments, isDistinct: false, isStar: false)
        }
        switch choices.below(4) {
        case 0: return CallSyntax(name: name, arguments: [], isDistinct: false, isStar: true)
        case 1:
            let arguments = some { $0.expression(depth) }
            return CallSyntax(name: name, arguments: arguments, isDistinct: true, isStar: false)
        default:
            let arguments = some(from: 0) { $0.expression(depth) }
            return CallSyntax(name: name, arguments: arguments, isDistinct: false, isStar: false)
        }
    }

    private mutating func comprehension(_ depth: Int) -> ExpressionSyntax.Kind {
        let binding = BindingSyntax(
            index: maybe { $0.name() }, value: name(), isWithin: flag(), source: expression(depth))
        let condition = maybe { $0.expression(depth) }
        switch choices.below(3) {
        case 0:
            return .quantified(
                QuantifiedSyntax(
                    quantifier: choices.pick(Quantifier.allCases), binding: binding,
                    condition: expression(depth)))
        case 1:
            return .arrayComprehension(
                ArrayComprehensionSyntax(result: expression(depth), binding: binding, condition: condition))
        default:
            return .objectComprehension(
                ObjectComprehensionSyntax(
                    key: expression(depth), value: expression(depth), binding: binding, condition: condition))
        }
    }

    private mutating func subquery(_ depth: Int) -> ExpressionSyntax.Kind {
        let query = select(min(depth, 1))
        switch choices.below(3) {
        case 0: return .subquery(query)
        case 1: return .exists(query)
        default: return .inSubquery(expression(depth), query, negated: flag())
        }
    }

    // MARK: SELECT

    mutating func select(_ depth: Int) -> SelectStatement {
        let projection: ProjectionSyntax =
            choices.below(4) == 0 ? .raw(expression(depth)) : elements(depth)
        return SelectStatement(
            directives: maybe { $0.directives() }, isDistinct: flag(), projection: projection,
            source: source(depth, joins: true), groupKeys: some(from: 0) { $0.expression(depth) },
            having: maybe { $0.expression(depth) }, selection: selection(depth))
    }

    private mutating func elements(_ depth: Int) -> ProjectionSyntax {
        guard choices.below(4) > 0 else { return .all(span) }
        return .elements(
            some(from: 2) { tree in
                switch tree.choices.below(5) {
                case 0: .allFields(tree.name())
                case 1: .missing(tree.some { $0.name() })
                case 2: .star(tree.span)
                default: .expression(tree.expression(depth), alias: tree.maybe { $0.name() })
                }
            })
    }

    private mutating func directives() -> DirectivesSyntax {
        let values: [Value] = [1, 0.5, "*/", "it's \n", [1, nullValue], ["a": true], false]
        let entries = some(from: 0) { tree in
            (key: tree.name().text, value: tree.choices.pick(values))
        }
        return DirectivesSyntax(values: ObjectValue(entries), span: span)
    }

    private var nullValue: Value { .null }

    private mutating func collection() -> CollectionSyntax {
        let fields = choices.below(3) == 0 ? self.fields(2) : []
        if choices.below(5) == 0 {
            let name = NameSyntax(text: choices.pick(["dual", "indexes", "x y"]), span: span)
            return CollectionSyntax(name: name, isSystem: true, fields: fields)
        }
        return CollectionSyntax(name: name(), isSystem: false, fields: fields)
    }

    private mutating func fields(_ depth: Int) -> [FieldDeclarationSyntax] {
        some { tree in
            let type = tree.choices.pick(DeclaredType.allCases)
            let hasChildren = type == .map && depth > 0 && tree.flag()
            return FieldDeclarationSyntax(
                name: tree.name(), type: type, children: hasChildren ? tree.fields(depth - 1) : [])
        }
    }

    private mutating func source(_ depth: Int, joins: Bool) -> SourceSyntax {
        let ids: IDsSyntax? = maybe { tree in
            tree.flag() ? .list(tree.some { $0.expression(depth) }) : .array(tree.expression(depth))
        }
        var list: [JoinSyntax] = []
        if joins, choices.below(3) == 0 {
            for index in 0..<(1 + choices.below(2)) {
                let kind = choices.pick(index == 0 ? JoinKind.allCases : [.inner, .left])
                list.append(
                    JoinSyntax(
                        kind: kind, source: source(depth, joins: false), condition: expression(depth),
                        span: span))
            }
        }
        return SourceSyntax(
            collection: collection(), alias: maybe { $0.name() }, ids: ids,
            indexHint: maybe { tree in NameSyntax(text: tree.flag() ? "" : "it's", span: tree.span) },
            directives: maybe { $0.directives() }, joins: list)
    }

    private mutating func selection(_ depth: Int) -> SelectionSyntax {
        let order = some(from: 0) { tree in
            OrderSyntax(
                expression: tree.expression(depth), isDescending: tree.flag(),
                nullsFirst: tree.maybe { $0.flag() })
        }
        return SelectionSyntax(
            condition: maybe { $0.expression(depth) }, order: order, limit: maybe { $0.count() },
            offset: maybe { $0.count() })
    }

    private mutating func count() -> ExpressionSyntax {
        flag() ? node(.literal(.int(3))) : node(.parameter(NameSyntax(text: "n", span: span)))
    }

    // MARK: Other statements

    mutating func statement(_ depth: Int) -> Statement {
        switch choices.below(10) {
        case 0, 1: return .select(select(depth))
        case 2, 3: return .insert(insert(depth))
        case 4, 5: return .update(update(depth))
        case 6: return flag() ? .delete(removal(depth)) : .evict(removal(depth))
        case 7: return index()
        case 8: return system(depth)
        default:
            let kind = choices.pick([
                ExplainKind.explain, .profile, .advise(provision: true), .advise(provision: false),
            ])
            return .explain(ExplainStatement(kind: kind, statement: .select(select(depth))))
        }
    }

    private mutating func returning(_ depth: Int) -> ReturningSyntax? {
        maybe { tree in ReturningSyntax(projection: tree.elements(depth), span: tree.span) }
    }

    private mutating func insert(_ depth: Int) -> InsertStatement {
        let isInitial = choices.below(3) == 0
        let source: InsertSource =
            isInitial || flag() ? .documents(some { $0.expression(depth) }) : .query(select(depth))
        return InsertStatement(
            collection: collection(), isInitial: isInitial, source: source,
            policy: isInitial ? .doNothing : choices.pick(ConflictPolicy.allCases),
            returning: returning(depth))
    }

    private mutating func target() -> TargetSyntax {
        TargetSyntax(segments: some { $0.name().text }, span: span)
    }

    private mutating func assignment(_ depth: Int) -> AssignmentSyntax {
        let action: AssignmentAction =
            switch choices.below(5) {
            case 0: .tombstone
            case 1: .reset
            case 2 where depth > 0: .children(some { $0.assignment(depth - 1) })
            default: .value(expression(depth))
            }
        return AssignmentSyntax(target: target(), action: action)
    }

    private mutating func application(_ depth: Int) -> ApplySyntax {
        let action: ApplyAction =
            switch choices.below(3) {
            case 0: .increment(expression(depth))
            case 1: .restart(maybe { $0.expression(depth) })
            default: .pnIncrement(expression(depth))
            }
        return ApplySyntax(target: target(), action: action, span: span)
    }

    private mutating func update(_ depth: Int) -> UpdateStatement {
        UpdateStatement(
            source: source(depth, joins: false), applications: some(from: 0) { $0.application(depth) },
            assignments: some { $0.assignment(depth) }, removals: some(from: 0) { $0.target() },
            selection: selection(depth), returning: returning(depth))
    }

    private mutating func removal(_ depth: Int) -> RemovalStatement {
        RemovalStatement(
            source: source(depth, joins: false), selection: selection(depth), returning: returning(depth))
    }

    private mutating func index() -> Statement {
        var plain = collection()
        plain = CollectionSyntax(name: plain.name, isSystem: plain.isSystem, fields: [])
        if flag() { return .dropIndex(DropIndexStatement(name: name(), ifExists: flag(), collection: plain)) }
        let keys = some { tree in
            IndexKeySyntax(
                path: tree.target(), isDescending: tree.flag(), includesMissing: tree.maybe { $0.flag() })
        }
        return .createIndex(
            CreateIndexStatement(name: name(), ifNotExists: flag(), collection: plain, keys: keys))
    }

    private mutating func system(_ depth: Int) -> Statement {
        switch choices.below(5) {
        case 0: return .show(.parameter(name()))
        case 1:
            let pattern = maybe { $0.node(.literal(.string("it's"))) }
            return .show(.all(pattern: pattern, ignoresCase: pattern != nil && flag()))
        case 2: return .alterSystem(AlterSystemStatement(action: flag() ? .resetAll : .reset(name())))
        default:
            let action = AlterSystemAction.set(name(), maybe { $0.expression(depth) }, persists: flag())
            return .alterSystem(AlterSystemStatement(action: action))
        }
    }
}
