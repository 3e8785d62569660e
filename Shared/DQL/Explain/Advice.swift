import CRDT

/// The recommendations of ADVISE.
public struct IndexAdvice: Sendable {
    /// An index that would help, and the reason.
    public struct Suggestion: Sendable {
        /// The index.
        public let index: IndexDescription
        /// The reason, for a person.
        public let reason: String

        /// The statement that creates it.
        public var statement: String {
            let keys = index.keys.map { key in
                IndexKeySyntax(
                    path: TargetSyntax(segments: key.path, span: SourceSpan(start: 0, end: 0)),
                    isDescending: key.isDescending, includesMissing: nil)
            }
            func name(_ text: String) -> NameSyntax {
                NameSyntax(text: text, span: SourceSpan(start: 0, end: 0))
            }
            return StatementPrinter.print(
                .createIndex(
                    CreateIndexStatement(
                        name: name(index.name), ifNotExists: false,
                        collection: CollectionSyntax(
                            name: name(index.collection.text), isSystem: false, fields: []),
                        keys: keys)))
        }
    }

    /// The statement in canonical form.
    public let statement: String
    /// Indexes that would help.
    public let suggestions: [Suggestion]
    /// The existing indexes of the collections.
    public let existing: [IndexDescription]

    /// The result row of ADVISE.
    public var row: Value { row(created: nil, failed: []) }

    /// The result row of ADVISE AND PROVISION: the names of the created indexes, and of those that could not
    /// be created, with the reason.
    public func row(created: [String]?, failed: [(name: String, message: String)]) -> Value {
        let suggested = suggestions.map { suggestion -> Value in
            [
                "collection": .string(suggestion.index.collection.text), "reason": .string(suggestion.reason),
                "statement": .string(suggestion.statement),
            ]
        }
        var advice = ObjectValue([
            (key: "statement", value: .string(statement)),
            (key: "suggestedIndexes", value: .array(suggested)),
            (key: "existingIndexes", value: .array(existing.map { .object($0.row) })),
            (key: "outcome", value: .string(outcome)),
        ])
        if let created {
            advice["createdIndexes"] = .array(created.map { .string($0) })
            advice["failedIndexes"] = .array(
                failed.map { ["name": .string($0.name), "reason": .string($0.message)] })
        }
        return ["advice": .object(advice)]
    }

    private var outcome: String {
        switch suggestions.count {
        case 0: existing.isEmpty ? "no index would help" : "no further index would help"
        case 1: "one index would help"
        default: "\(suggestions.count) indexes would help"
        }
    }
}

extension PreparedStatement {
    /// The advice of ADVISE for its statement, or for any other statement. Reads the catalog only.
    public func advice(
        in documents: any DocumentSource, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions()
    ) throws -> IndexAdvice {
        let values = try bindForPlan(arguments)
        var adviser = Adviser(documents: documents)
        let inner: StatementPlan = if case .explain(_, let inner) = plan { inner } else { plan }
        switch inner {
        case .select(let select): try adviser.advise(select.specialized(values).input)
        case .update(let update): try adviser.advise(update.targets.specialized(values))
        case .delete(let removal), .evict(let removal):
            try adviser.advise(removal.targets.specialized(values))
        case .insert(let insert):
            if case .query(let select, _) = insert.source {
                try adviser.advise(select.specialized(values).input)
            }
        default: break
        }
        return IndexAdvice(
            statement: StatementPrinter.print(explainedStatement), suggestions: adviser.suggestions,
            existing: adviser.existing)
    }
}

/// Finds conditions and orders that no index serves.
private struct Adviser {
    let documents: any DocumentSource
    var suggestions: [IndexAdvice.Suggestion] = []
    var existing: [IndexDescription] = []

    init(documents: any DocumentSource) { self.documents = documents }

    mutating func advise(_ input: OrderedRows) throws {
        try advise(input.rows, condition: nil, order: input.order)
    }

    private mutating func advise(
        _ rows: RowPlan, condition: BoundExpression?, order: [SortTerm]
    ) throws {
        switch rows {
        case .filter(let inner, let own):
            if case .group = inner { return try advise(inner, condition: nil, order: []) }
            try advise(inner, condition: own, order: order)
        case .group(let inner, _): try advise(inner, condition: condition, order: [])
        case .join(let left, let join):
            try advise(left, condition: condition, order: order)
            guard case .documents(let collection) = join.collection, join.ids == nil else { return }
            try suggest(collection, join.source, join.probe, [], "the join looks for")
        case .scan(let collection, let source):
            let confinement = condition.map { Confinement($0, source: source) } ?? .any
            try suggest(collection, source, confinement, order, "the condition asks for")
        default: break
        }
    }

    private mutating func suggest(
        _ collection: CollectionName, _ source: Int, _ confinement: Confinement, _ order: [SortTerm],
        _ who: String
    ) throws {
        let catalog = try documents.indexed?.catalog(of: collection)
        let known = catalog?.indexes ?? []
        for index in known where !existing.contains(index) { existing.append(index) }
        switch confinement {
        case .never, .ids: return
        case .some(let branches):
            for branch in branches { try suggest(collection, source, branch, [], who) }
            return
        case .all(let parts):
            if parts.contains(where: { if case .ids = $0 { true } else { false } }) { return }
            add(keys(parts, order, source), collection, known, who)
        case .field: add(keys([confinement], order, source), collection, known, who)
        case .any: add(keys([], order, source), collection, known, who)
        }
    }

    private typealias Key = (path: [String], isDescending: Bool, use: String)

    /// Equality keys first, then a range or else the order.
    private func keys(_ parts: [Confinement], _ order: [SortTerm], _ source: Int) -> [Key] {
        var equal: [Key] = []
        var ranges: [Key] = []
        for case .field(let path, let set) in parts where !path.isEmpty {
            let name = path.joined(separator: ".")
            if set.ranges.allSatisfy({ $0.point != nil }) {
                equal.append((path, false, "\(name) to be equal"))
            } else {
                ranges.append((path, false, "a range of \(name)"))
            }
        }
        var keys = Array(equal.prefix(DQLLimits.advisedEqualities))
        if let range = ranges.first { return keys + [range] }
        for term in order {
            guard let path = Confinement.field(term.expression, source) else { break }
            if keys.contains(where: { Confinement.samePath($0.path, path) }) { continue }
            keys.append((path, term.isDescending, "the order of \(path.joined(separator: "."))"))
        }
        return keys
    }

    private mutating func add(
        _ keys: [Key], _ collection: CollectionName, _ known: [IndexDescription], _ who: String
    ) {
        guard !keys.isEmpty else { return }
        let wanted = keys.map { IndexDescription.Key(path: $0.path, isDescending: $0.isDescending) }
        let all = known + suggestions.map(\.index).filter { $0.collection == collection }
        let isServed = all.contains { index in
            index.keys.count >= wanted.count
                && zip(index.keys, wanted).allSatisfy { Confinement.samePath($0.path, $1.path) }
        }
        guard !isServed else { return }
        let words = keys.flatMap(\.path).joined(separator: "_")
        let name =
            "idx_" + String((collection.text + "_" + words).map { $0.isLetter || $0.isNumber ? $0 : "_" })
        let isTaken = all.contains { utf8Equal($0.name, name) }
        suggestions.append(
            IndexAdvice.Suggestion(
                index: IndexDescription(
                    name: isTaken ? "\(name)_\(all.count)" : name, collection: collection, keys: wanted),
                reason: "\(who) \(keys.map(\.use).joined(separator: ", "))"))
    }
}
