import CRDT

/// The possible meanings of a statement's names.
struct Scope {
    /// The documents in scope, by their position among the sources. Empty in INSERT.
    var sources: [SourceBinding] = []
    /// The names of the sources of statements around a subquery: none of them is in scope.
    var outerNames: [String] = []
    /// The place that refuses a subquery, for the error; nil where one may stand.
    var subqueriesRefused: String?
    /// The projections that ORDER BY can refer to.
    var projected = ProjectedNames()
    /// The projections that ORDER BY referred to.
    var boundProjections: [ProjectedPlace: BoundExpression] = [:]
    /// The variables of ANY, EVERY, ARRAY and OBJECT in scope, innermost last. Their index is their number;
    /// nil is a variable that cannot be named here.
    var locals: [NameSyntax?] = []
    /// The clause whose fields are noted, with their types; nil where none are.
    var notes: FieldExpectation.Clause?
    /// The lists whose elements the variables in scope are, by the variables' numbers.
    var lists: [Int: BoundExpression] = [:]
    /// Set while binding terms that see groups instead of documents.
    var grouping: GroupScope?
    /// The place that refuses an aggregate, for the error; nil where one may stand.
    var aggregatesRefused: String? = "here"

    /// A projection and the number of variables in scope at the reference: its own variables are numbered
    /// after those.
    struct ProjectedPlace: Hashable {
        let place: Int
        let locals: Int
    }
}

/// The names of projections, each with the index of the first projection that has it.
struct ProjectedNames {
    /// The projections in their order.
    private(set) var values: [ExpressionSyntax] = []
    private var places: [[UInt8]: Int] = [:]

    /// Adds a projection; false if its name was taken.
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

/// One source with its name.
struct SourceBinding {
    let index: Int
    /// The alias, or the collection's name.
    let name: String
    let isAlias: Bool
    let collection: CollectionName
    let types: TypeDefinition
    /// True for a `system:` collection.
    var isSystem = false
}

/// The groups of a statement; aggregates are added as they are met.
struct GroupScope {
    let keys: [BoundExpression]
    /// The indices of keys by fingerprint: each term of a statement is looked up among them.
    private let places: [Int: [Int]]
    var aggregates: [BoundAggregate] = []
    /// The error's name for a term that is neither key nor aggregate.
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

    /// The slot of a key; nil for an expression that is not a key.
    func slot(of key: BoundExpression) -> Int? {
        places[key.fingerprint]?.first { keys[$0] == key }
    }

    /// The slot of an aggregate, a new one if it is met for the first time; nil if there are too many.
    mutating func slot(of aggregate: BoundAggregate) -> Int? {
        if let known = aggregates.firstIndex(of: aggregate) { return keys.count + known }
        guard aggregates.count < DQLLimits.aggregates else { return nil }
        aggregates.append(aggregate)
        return keys.count + aggregates.count - 1
    }
}
