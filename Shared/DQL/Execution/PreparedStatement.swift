import CRDT

/// The kind of a statement.
public enum StatementKind: String, Sendable, CaseIterable {
    /// Reads.
    case select
    /// Adds documents.
    case insert
    /// Changes documents.
    case update
    /// Removes documents everywhere.
    case delete
    /// Removes documents from this store only.
    case evict
    /// Changes system parameters.
    case alterSystem
    /// Shows system parameters.
    case show
    /// Builds an index.
    case createIndex
    /// Removes an index.
    case dropIndex
    /// Shows a plan.
    case explain
    /// Runs a statement and reports its cost; changes documents if that statement does.
    case profile
    /// Recommends indexes.
    case advise
}

/// A statement that was parsed and analyzed once and can be executed any number of times, on any thread.
///
/// A class, because it is handed on with every execution: a copy of all its fields takes longer than a
/// lookup.
public final class PreparedStatement: Sendable {
    /// The syntax tree.
    public let statement: Statement
    /// The kind of statement.
    public let kind: StatementKind
    /// The collections it reads documents of, `system:` ones with their prefix.
    public let collectionsRead: [CollectionName]
    /// The collections it writes.
    public let collectionsWritten: [CollectionName]
    /// The parameters it needs arguments for, in order of appearance.
    public let parameterNames: [String]
    /// The warnings of the analysis.
    public let warnings: [DQLWarning]

    let source: SourceText
    let plan: StatementPlan
    /// The short way, for statements that have one.
    let direct: DirectRead?
    let parameters: [NameSyntax]
    /// Parameters that stand alone in a list of IN.
    private let listedParameters: [ListedParameter]
    /// Parameters whose arguments need a type.
    private let parameterExpectations: [ParameterExpectation]
    /// Parameters with which values are compared.
    private let comparedParameters: [ComparedParameter]
    /// The fields whose types are looked at when they may be why something is empty.
    let expectations: [FieldExpectation]
    /// The sums and means, for warnings about values that they left out.
    let aggregates: [WrittenAggregate]
    /// Subqueries, whose values stand among the arguments.
    let subqueries: [BoundSubquery]
    /// The parameters that are right sides of IN.
    private let collectionParameters: Set<Int>

    /// The text it was prepared from.
    public var text: String { source.text }
    /// True if the statement changes nothing.
    public var isReadOnly: Bool {
        switch kind {
        case .select, .show, .explain, .advise: true
        case .profile: collectionsWritten.isEmpty
        case .delete: deletesRequests
        default: false
        }
    }
    /// True if it runs an EVICT, by itself or under PROFILE.
    public var evicts: Bool {
        guard kind == .evict || kind == .profile else { return false }
        if case .evict = explainedStatement { return true }
        return false
    }
    private var deletesRequests: Bool { if case .deleteRequests = plan { true } else { false } }
    /// True if it asks for the recommended indexes (ADVISE AND PROVISION): its owner creates the indexes
    /// that `advice(in:arguments:options:)` suggests.
    public var provisions: Bool {
        if case .explain(.advise(provision: true), _) = plan { true } else { false }
    }
    /// The names that the rows of a SELECT have, as far as its text tells them: those of its projections, the
    /// sources of a join, or `_id` of whole documents. None for bare values and other statements.
    public var columnNames: [String] {
        guard case .select(let select) = plan else { return [] }
        switch select.projection {
        case .all: return [documentIDField]
        case .raw: return []
        case .elements(let elements):
            return elements.compactMap { if case .named(let name, _) = $0 { name } else { nil } }
        }
    }
    /// The collections it reads or writes.
    public var collections: [CollectionName] {
        collectionsRead + collectionsWritten.filter { !collectionsRead.contains($0) }
    }

    /// The collections that its subqueries read: also those among them that the statement writes.
    public var collectionsOfSubqueries: [CollectionName] {
        subqueries.flatMap { $0.plan.input.rows.collections }
    }

    /// Parses and analyzes a statement. Throws with the position of the error.
    public convenience init(_ text: String) throws(DQLError) {
        try self.init(try Parser.parse(text), of: text)
    }

    /// Analyzes the tree that a parser made of the text.
    init(_ statement: Statement, of text: String) throws(DQLError) {
        self.statement = statement
        source = SourceText(text: text)
        let analysis = try Analyzer.analyze(statement, source)
        plan = analysis.plan
        direct = analysis.subqueries.isEmpty ? DirectRead(analysis.plan) : nil
        parameters = analysis.parameters
        listedParameters = analysis.listedParameters
        parameterExpectations = analysis.parameterExpectations
        comparedParameters = analysis.comparedParameters
        expectations = analysis.expectations
        aggregates = analysis.aggregates
        warnings = analysis.warnings
        let hidden = Set(analysis.subqueries.map(\.place))
        parameterNames = parameters.indices.filter { !hidden.contains($0) }.map {
            analysis.parameters[$0].text
        }
        subqueries = analysis.subqueries
        collectionParameters = analysis.collectionParameters
        (kind, collectionsRead, collectionsWritten) = Self.facts(of: statement, analysis.collectionsRead)
    }

    /// A statement's kind, and the collections it reads and writes.
    private static func facts(
        of statement: Statement, _ read: [CollectionName]
    ) -> (kind: StatementKind, read: [CollectionName], written: [CollectionName]) {
        switch statement {
        case .select: return (.select, read, [])
        case .insert(let insert):
            let name = insert.collection.qualifiedName
            // The returned document is merged with the stored one.
            let isRead = insert.returning == nil || read.contains(name)
            return (.insert, isRead ? read : read + [name], [name])
        case .update(let update): return (.update, read, [update.source.collection.qualifiedName])
        case .delete(let removal): return (.delete, read, [removal.source.collection.qualifiedName])
        case .evict(let removal): return (.evict, read, [removal.source.collection.qualifiedName])
        case .alterSystem: return (.alterSystem, [], [])
        case .show: return (.show, [], [])
        case .createIndex: return (.createIndex, [], [])
        case .dropIndex: return (.dropIndex, [], [])
        case .explain(let explain):
            let inner = facts(of: explain.statement, read)
            switch explain.kind {
            case .profile: return (.profile, inner.read, inner.written)
            // A caller who may not read a collection learns nothing of its indexes.
            case .explain: return (.explain, inner.read + inner.written, [])
            case .advise: return (.advise, inner.read + inner.written, [])
            }
        }
    }

    /// The same as `bind`, with a word in place of missing arguments: for plans, which need no argument.
    func bindForPlan(_ arguments: ObjectValue) throws(DQLError) -> [Value] {
        var all = arguments
        for name in parameterNames where all[name] == nil { all[name] = .string(":" + name) }
        var values = try bind(all)
        for place in collectionParameters where arguments[parameters[place].text] == nil {
            values[place] = .array([.string(":" + parameters[place].text)])
        }
        for subquery in subqueries {
            values[subquery.place] =
                switch subquery.use {
                case .list: .array(["(subquery)"])
                case .exists: true
                case .value: "(subquery)"
                }
        }
        return values
    }

    /// The arguments in the order of the parameters. Throws `missingArgument`.
    func bind(_ arguments: ObjectValue) throws(DQLError) -> [Value] {
        guard !parameters.isEmpty else { return [] }
        let byName = arguments.count > Self.fewArguments ? Self.byName(arguments) : nil
        var values: [Value] = []
        values.reserveCapacity(parameters.count)
        for (place, parameter) in parameters.enumerated() {
            if subqueries.contains(where: { $0.place == place }) {
                values.append(.null)
                continue
            }
            let given = byName.map { $0[Array(parameter.text.utf8)] } ?? arguments[parameter.text]
            guard let value = given else {
                throw source.error(
                    .missingArgument, "Parameter \(parameter.text) was not provided", at: parameter.span,
                    suggestion: Suggestion.closest(to: parameter.text, among: arguments.entries.map(\.key)))
            }
            values.append(value)
        }
        return values
    }

    /// Up to this many arguments are compared with each parameter: quicker than a table.
    private static let fewArguments = 8

    private static func byName(_ arguments: ObjectValue) -> [[UInt8]: Value] {
        var values: [[UInt8]: Value] = [:]
        for entry in arguments.entries { values[Array(entry.key.utf8)] = entry.value }
        return values
    }

    /// Warnings about the arguments of one execution; `values` are the bound ones.
    func argumentWarnings(_ arguments: ObjectValue, _ values: [Value]) -> [DQLWarning] {
        let hasNulls = comparedParameters.contains { Self.holdsNull(values[$0.place], $0.looksInside) }
        guard hasNulls || !listedParameters.isEmpty || !parameterExpectations.isEmpty else {
            return unusedArguments(arguments)
        }
        let arrays = listedParameters.lazy.filter { [subqueries] listed in
            values[listed.place].arrayValue != nil && !subqueries.contains { $0.place == listed.place }
        }
        let inLists = arrays.prefix(DQLLimits.warnings).map { [parameters, source] listed in
            let name = parameters[listed.place].text
            return source.warning(
                .arrayInList, "the list has one element, the array \(name); IN :\(name) means its elements",
                at: listed.span)
        }
        let typed = parameterExpectations.compactMap { expected -> DQLWarning? in
            let value = values[expected.place]
            guard !expected.need.accepts(value) else { return nil }
            let name = ":" + parameters[expected.place].text
            return source.warning(
                expected.need.code, expected.need.message(name, is: value), at: expected.span)
        }
        let nulls = hasNulls ? comparedParameters.compactMap { nullWarning($0, values[$0.place]) } : []
        return inLists + typed + nulls + unusedArguments(arguments)
    }

    private static func holdsNull(_ value: Value, _ looksInside: Bool) -> Bool {
        switch value {
        case .null: true
        case .array(let elements) where looksInside:
            elements.contains { if case .null = $0 { true } else { false } }
        default: false
        }
    }

    /// The warning about a comparison with an argument or a subquery that is null, or holds a null.
    private func nullWarning(_ compared: ComparedParameter, _ value: Value) -> DQLWarning? {
        guard Self.holdsNull(value, compared.looksInside) else { return nil }
        let found = value == .null ? "is NULL" : "holds a NULL"
        let isSubquery = subqueries.contains { $0.place == compared.place }
        let name = isSubquery ? "the subquery" : ":" + parameters[compared.place].text
        return source.warning(
            .nullComparison, "\(name) \(found): a comparison with NULL is never true; write IS NULL",
            at: compared.span)
    }

    /// One warning per argument that no parameter names.
    func unusedArguments(_ arguments: ObjectValue) -> [DQLWarning] {
        guard !arguments.isEmpty else { return [] }
        if arguments.count <= Self.fewArguments,
            arguments.entries.allSatisfy({ entry in
                parameters.contains { utf8Equal($0.text, entry.key) }
            })
        {
            return []
        }
        let used = Set(parameters.map { Array($0.text.utf8) })
        return arguments.entries
            .filter { !used.contains(Array($0.key.utf8)) }
            .map { DQLWarning(.unusedArgument, "the argument \($0.key) is not used by the statement") }
    }
}

/// Prepares statements.
public enum StatementCompiler {
    /// Parses and analyzes a statement. Throws with the position of the error.
    public static func compile(_ text: String) throws(DQLError) -> PreparedStatement {
        try PreparedStatement(text)
    }

    /// Parses a statement without analyzing it: names and functions are not checked.
    public static func parse(_ text: String) throws(DQLError) -> Statement { try Parser.parse(text) }
}
