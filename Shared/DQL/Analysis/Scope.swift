import CRDT

/// What the names of a statement can mean.
struct Scope {
    /// The documents in reach, by their place among the sources. Empty in INSERT.
    var sources: [SourceBinding] = []
    /// What the sources of the statements around a subquery are called: none of it is in reach.
    var outerNames: [String] = []
    /// Why a subquery cannot stand here; nil where it can.
    var subqueriesRefused: String?
    /// ORDER BY sees what SELECT names.
    var projected = ProjectedNames()
    /// Those that ORDER BY referred to.
    var boundProjections: [ProjectedPlace: BoundExpression] = [:]
    /// The variables of ANY, EVERY, ARRAY and OBJECT in reach, innermost last. Their place is their
    /// number; nil is one that cannot be named here.
    var locals: [NameSyntax?] = []
    /// Set while terms are bound that see groups instead of documents.
    var grouping: GroupScope?
    /// Why an aggregate cannot stand here; nil where it can.
    var aggregatesRefused: String? = "here"

    /// A projection and how many variables were in reach where it was referred to: its own ones are numbered
    /// after those.
    struct ProjectedPlace: Hashable {
        let place: Int
        let locals: Int
    }
}

/// The names of projections, each with the place of the first one that has it.
struct ProjectedNames {
    /// What they name, in their order.
    private(set) var values: [ExpressionSyntax] = []
    private var places: [[UInt8]: Int] = [:]

    /// Adds a projection; false when its name was taken.
    @discardableResult
    mutating func add(_ name: String, _ value: ExpressionSyntax) -> Bool {
        defer { values.append(value) }
        let key = Array(name.utf8)
        guard places[key] == nil else { return false }
        places[key] = values.count
        return true
    }

    func place(of name: String) -> Int? { places.isEmpty ? nil : places[Array(name.utf8)] }
}

/// One source and the names it answers to.
struct SourceBinding {
    let index: Int
    /// The alias, or the collection's name.
    let name: String
    let isAlias: Bool
    let collection: CollectionName
    let types: TypeDefinition
}

/// The groups of a statement, growing aggregates as they are met.
struct GroupScope {
    let keys: [BoundExpression]
    /// Where keys of a fingerprint are: each term of a statement is looked for among them.
    private let places: [Int: [Int]]
    var aggregates: [BoundAggregate] = []
    /// How the error names a term that is neither key nor aggregate.
    var term: Term

    enum Term {
        case projection(String)
        case having
        case order
    }

    init(keys: [BoundExpression], term: Term) {
        self.keys = keys
        self.term = term
        places = Dictionary(grouping: keys.indices) { keys[$0].fingerprint }
    }

    /// The slot of a key; nil for what is none.
    func slot(of key: BoundExpression) -> Int? {
        places[key.fingerprint]?.first { keys[$0] == key }
    }

    /// The slot of an aggregate, a new one if it was not met yet; nil when there are too many.
    mutating func slot(of aggregate: BoundAggregate) -> Int? {
        if let known = aggregates.firstIndex(of: aggregate) { return keys.count + known }
        guard aggregates.count < DQLLimits.aggregates else { return nil }
        aggregates.append(aggregate)
        return keys.count + aggregates.count - 1
    }
}
