import CRDT

/// An expectation of one execution, and the types met so far.
struct OpenExpectation {
    let expected: FieldExpectation
    /// The types of the known values that the field is compared with.
    private var wanted: Set<ValueClass> = []
    /// The fields that it is compared with, with the types that they were met with.
    private var others: [(field: NotedField, met: Set<ValueClass>)] = []
    private var met: Set<ValueClass> = []
    /// True once values were met for which the statement's part can be true, or exist.
    private(set) var isMet = false
    /// How many documents were looked at without meeting a field that is only read.
    private var documentsWithout = 0
    /// True in strict mode, where a field that is not declared shows only if it is a REGISTER.
    private var isStrict = false
    /// The deepest step of the path that no document had, and the keys that stand at its place.
    private var missing: (step: Int, keys: Set<String>) = (0, [])

    /// Nil if nothing is asked that depends on a type.
    init?(_ expected: FieldExpectation, _ arguments: [Value]) {
        self.expected = expected
        var values: [Value?] = []
        switch expected.wanted {
        case .comparable(let sides):
            for side in sides {
                switch side {
                case .value(let written): values.append(Self.value(written, arguments))
                case .type(let type): wanted.insert(type.valueClass)
                case .field(let field): others.append((field, []))
                }
            }
        case .listed(let argument):
            values = [Self.value(argument, arguments)]
            // Another warning says that the list has the array as its only element.
            if case .array?? = values.first { return nil }
        case .element(let array):
            guard case .array(let elements)? = Self.value(array, arguments) else { return nil }
            values = elements
        case .type, .presence: return
        }
        let known = values.compactMap(\.self).filter { $0 != .null }
        if case .documentID = expected.field.expression, wanted.isEmpty, others.isEmpty,
            known.allSatisfy(Self.isUsualID)
        {
            return nil
        }
        wanted.formUnion(known.map(ValueClass.init(of:)))
        if wanted.isEmpty, others.isEmpty { return nil }
    }

    /// Returns whether a value is a text as ids mostly are. "No document has such an id" is an everyday
    /// answer and must not cost a scan; a number, or digits in a text, may be of the wrong type.
    private static func isUsualID(_ value: Value) -> Bool {
        guard case .string(let text) = value else { return false }
        return text.isEmpty || !text.utf8.allSatisfy { (0x30...0x39).contains($0) }
    }

    private static func value(_ expression: BoundExpression, _ arguments: [Value]) -> Value? {
        switch expression {
        case .constant(let value): value
        case .parameter(let place): arguments[place]
        default: nil
        }
    }

    /// True for a field that is only read.
    var isPresence: Bool { if case .presence = expected.wanted { true } else { false } }

    /// The collections whose documents have something to tell.
    var collections: [CollectionName] { [expected.field.collection] + others.map(\.field.collection) }

    // MARK: Meeting values

    /// Looks at a document of a collection, in its place among a row without others.
    mutating func meet(
        _ record: DocumentRecord, of collection: CollectionName, _ row: inout Row, _ evaluator: Evaluator
    ) throws {
        var fields: [NotedField] = []
        for field in [expected.field] + others.map(\.field) where field.collection == collection {
            if !fields.contains(field) { fields.append(field) }
        }
        for field in fields {
            row.documents[field.source] = record
            try meet(field, row, evaluator)
            if isPresence, !isMet { try note(missing: record, evaluator) }
            row.documents[field.source] = nil
        }
    }

    /// Looks at all documents of a row.
    mutating func meet(_ row: borrowing Row, _ evaluator: Evaluator) throws {
        try meet(expected.field, row, evaluator)
        for other in others { try meet(other.field, row, evaluator) }
    }

    private mutating func meet(
        _ field: NotedField, _ row: borrowing Row, _ evaluator: Evaluator
    ) throws {
        guard let list = field.list else {
            meet(field, try evaluator.evaluate(field.expression, row))
            return
        }
        guard case .array(let elements)? = try evaluator.evaluate(list.expression, row) else { return }
        var inner = copy row
        let missing = max(0, list.local + 1 - inner.locals.count)
        inner.locals += Array(repeating: Value?.none, count: missing)
        for element in elements.prefix(DQLLimits.typedDocuments) {
            inner.locals[list.local] = element
            meet(field, try evaluator.evaluate(field.expression, inner))
        }
    }

    private mutating func meet(_ field: NotedField, _ value: Value?) {
        guard let value else { return }
        if isPresence {
            isMet = true
            return
        }
        guard value != .null else { return }
        if case .type(let need) = expected.wanted {
            if need.accepts(value) { isMet = true } else { met.insert(ValueClass(of: value)) }
            return
        }
        let type = ValueClass(of: value)
        if field == expected.field { met.insert(type) }
        for index in others.indices where others[index].field == field { others[index].met.insert(type) }
        isMet =
            !met.isDisjoint(with: wanted) || others.contains { !met.isDisjoint(with: $0.met) }
    }

    /// Notes the step of a path at which a document has nothing, and the keys that it has there.
    private mutating func note(missing record: DocumentRecord, _ evaluator: Evaluator) throws {
        documentsWithout += 1
        isStrict = evaluator.fields.isStrict
        guard case .field(let access) = expected.field.expression else { return }
        var step = 0
        var keys: [String] = []
        try record.document.root.forEach { key, _ in keys.append(key) }
        while step + 1 < access.path.count {
            let part = FieldAccess(
                source: access.source, path: Array(access.path[...step]),
                kinds: Array(access.kinds[...step]), declaration: nil)
            guard case .object(let object)? = try evaluator.fields.read(part, in: record.document) else {
                break
            }
            step += 1
            keys = object.entries.map(\.key)
        }
        if step > missing.step { missing = (step, []) }
        guard step == missing.step else { return }
        missing.keys.formUnion(keys.prefix(DQLLimits.typedDocuments))
    }

    // MARK: Telling

    /// The warning about what was met, if the types or the missing field are why.
    func warning(_ source: SourceText) -> DQLWarning? {
        guard !isMet else { return nil }
        if isPresence { return absence(source) }
        guard !met.isEmpty, !wanted.isEmpty || others.allSatisfy({ !$0.met.isEmpty }) else { return nil }
        return source.warning(code, message(source), at: expected.span)
    }

    private func absence(_ source: SourceText) -> DQLWarning? {
        guard documentsWithout > 0, case .field(let access) = expected.field.expression else { return nil }
        let word = access.path[missing.step]
        let known = missing.keys.sorted()
        let quoted = known.first { Self.isBeginning(word, of: $0) }
        let near = quoted ?? Suggestion.closest(to: word, among: known)
        // A field that a condition misses is why it finds nothing. Elsewhere it may be one that few documents
        // have, and only a word like another is probably a mistake.
        guard near != nil || expected.clause == .condition else { return nil }
        let path = access.path[...missing.step].joined(separator: ".")
        let shown = isStrict ? "shows the field \(path) as a REGISTER" : "has the field \(path)"
        let meant = near.map { "; did you mean \(ExpressionPrinter.name($0))?" } ?? ""
        return source.warning(
            .unknownField,
            "no document of \(expected.field.collection) that was looked at \(shown)\(meant)",
            at: expected.span)
    }

    /// Returns whether a word is the beginning of a name that has to be quoted, as in `SELECT US Gross` of
    /// documents with `US Gross`: the rest reads as an alias, or as an operator and a field.
    private static func isBeginning(_ word: String, of name: String) -> Bool {
        let (word, name) = (word.lowercased().unicodeScalars, name.lowercased().unicodeScalars)
        guard name.starts(with: word), let next = name.dropFirst(word.count).first else { return false }
        return next != "_" && !next.properties.isAlphabetic && next.properties.numericType == nil
    }

    private var code: DQLWarningCode {
        if case .type(let need) = expected.wanted { need.code } else { .neverEqual }
    }

    /// Returns whether this would say of a field what another one said.
    func repeats(_ other: OpenExpectation) -> Bool {
        guard expected.field == other.expected.field, isPresence == other.isPresence else { return false }
        if isPresence { return true }
        guard code == other.code else { return false }
        guard case .type(let need) = expected.wanted, case .type(let known) = other.expected.wanted else {
            return wanted == other.wanted && others.map(\.field) == other.others.map(\.field)
        }
        return need.type == known.type
    }

    private func message(_ source: SourceText) -> String {
        let name = expected.field.name
        let types = Self.named(met)
        if case .type(let need) = expected.wanted {
            return need.message("every \(name) that was met", is: types)
        }
        let targets = (wanted.isEmpty ? [] : [Self.named(wanted)]) + others.map(\.field.name)
        var text =
            "\(source.token(of: expected.span) ?? "") compares \(name) with "
            + "\(targets.joined(separator: " or ")), and every \(name) that was met is \(types)"
        for other in others where !other.met.isEmpty {
            text += ", every \(other.field.name) \(Self.named(other.met))"
        }
        return text + ": that is never true"
    }

    private static func named(_ types: Set<ValueClass>) -> String {
        types.sorted().map(\.named).joined(separator: " or ")
    }
}

extension ValueClass {
    /// The class with an article, for messages.
    fileprivate var named: String { (self == .array || self == .object ? "an " : "a ") + "\(self)" }
}

extension StaticType {
    /// The class of its values.
    fileprivate var valueClass: ValueClass {
        switch self {
        case .boolean: .boolean
        case .number: .number
        case .string: .string
        case .binary: .binary
        case .array: .array
        case .object: .object
        }
    }
}
