import CRDT

/// What a statement does.
public enum StatementKind: String, Sendable {
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
}

/// A statement that was parsed and analyzed once and can be executed any number of times, on any thread.
public struct PreparedStatement: Sendable {
    /// The syntax tree.
    public let statement: Statement
    /// What it does.
    public let kind: StatementKind
    /// The collections it reads documents of, `system:` ones with their prefix.
    public let collectionsRead: [String]
    /// The collections it writes.
    public let collectionsWritten: [String]
    /// The parameters it needs arguments for, in order of appearance.
    public let parameterNames: [String]
    /// What the analysis found suspicious.
    public let warnings: [DQLWarning]

    let source: SourceText
    let plan: StatementPlan
    let parameters: [NameSyntax]
    /// Parameters that stand alone in a list of IN.
    private let listedParameters: [ListedParameter]

    /// The text it was prepared from.
    public var text: String { source.text }
    /// Whether it changes nothing.
    public var isReadOnly: Bool { kind == .select || kind == .show }
    /// The collections it touches.
    public var collections: [String] {
        collectionsRead + collectionsWritten.filter { !collectionsRead.contains($0) }
    }

    /// Parses and analyzes. Throws with the position of what is wrong.
    public init(_ text: String) throws(DQLError) {
        try self.init(try Parser.parse(text), of: text)
    }

    /// Analyzes a tree that a parser made of the text.
    init(_ statement: Statement, of text: String) throws(DQLError) {
        self.statement = statement
        source = SourceText(text: text)
        let analysis = try Analyzer.analyze(statement, source)
        plan = analysis.plan
        parameters = analysis.parameters
        listedParameters = analysis.listedParameters
        warnings = analysis.warnings
        parameterNames = parameters.map(\.text)
        switch statement {
        case .select(let select):
            (kind, collectionsRead, collectionsWritten) = (
                .select, [select.source.collection.qualifiedName], []
            )
        case .insert(let insert):
            var read: [String] = []
            if case .query(let select) = insert.source { read = [select.source.collection.qualifiedName] }
            // What is written comes back merged with what was there.
            if insert.returning != nil { read.append(insert.collection.qualifiedName) }
            (kind, collectionsRead, collectionsWritten) = (.insert, read, [insert.collection.qualifiedName])
        case .update(let update):
            let name = update.source.collection.qualifiedName
            (kind, collectionsRead, collectionsWritten) = (.update, [name], [name])
        case .delete(let removal), .evict(let removal):
            let name = removal.source.collection.qualifiedName
            (collectionsRead, collectionsWritten) = ([name], [name])
            if case .delete = statement { kind = .delete } else { kind = .evict }
        case .alterSystem: (kind, collectionsRead, collectionsWritten) = (.alterSystem, [], [])
        case .show: (kind, collectionsRead, collectionsWritten) = (.show, [], [])
        case .createIndex: (kind, collectionsRead, collectionsWritten) = (.createIndex, [], [])
        case .dropIndex: (kind, collectionsRead, collectionsWritten) = (.dropIndex, [], [])
        case .explain: preconditionFailure("the analyzer refuses it")
        }
    }

    /// The arguments in the order of the parameters. Throws `missingArgument`.
    func bind(_ arguments: ObjectValue) throws(DQLError) -> [Value] {
        guard !parameters.isEmpty else { return [] }
        var byName: [[UInt8]: Value] = [:]
        for entry in arguments.entries { byName[Array(entry.key.utf8)] = entry.value }
        var values: [Value] = []
        for parameter in parameters {
            guard let value = byName[Array(parameter.text.utf8)] else {
                throw source.error(
                    .missingArgument, "Parameter \(parameter.text) was not provided", at: parameter.span,
                    suggestion: Suggestion.closest(to: parameter.text, among: arguments.entries.map(\.key)))
            }
            values.append(value)
        }
        return values
    }

    /// What is suspicious about the arguments of one execution; `values` are those bound.
    func argumentWarnings(_ arguments: ObjectValue, _ values: [Value]) -> [DQLWarning] {
        let arrays = listedParameters.lazy.filter { values[$0.place].arrayValue != nil }
        let inLists = arrays.prefix(DQLLimits.warnings).map { listed in
            let name = parameters[listed.place].text
            return source.warning(
                .arrayInList, "the list has one element, the array \(name); IN :\(name) means its elements",
                at: listed.span)
        }
        return inLists + unusedArguments(arguments)
    }

    /// One warning per argument that no parameter names.
    func unusedArguments(_ arguments: ObjectValue) -> [DQLWarning] {
        guard !arguments.isEmpty else { return [] }
        let used = Set(parameters.map { Array($0.text.utf8) })
        return arguments.entries
            .filter { !used.contains(Array($0.key.utf8)) }
            .map { DQLWarning(.unusedArgument, "the argument \($0.key) is not used by the statement") }
    }
}

/// Prepares statements.
public enum StatementCompiler {
    /// Parses and analyzes a statement. Throws with the position of what is wrong.
    public static func compile(_ text: String) throws(DQLError) -> PreparedStatement {
        try PreparedStatement(text)
    }

    /// Parses a statement without analyzing it: names and functions are not checked.
    public static func parse(_ text: String) throws(DQLError) -> Statement { try Parser.parse(text) }
}
