import CRDT

/// The documents of one source to which a condition confines it: every document for which the condition
/// holds is within; others may be too. Computed when all arguments are known, so that a comparison with the
/// wrong type turns out to find nothing.
indirect enum Confinement: Equatable, Sendable {
    /// No confinement.
    case any
    /// No document.
    case never
    /// A field, as an undeclared read gives it, lies in one of the ranges. The empty path is the id.
    case field([String], RangeSet)
    /// The id is one of these.
    case ids([DocumentID])
    /// All of these hold; none of them is itself `all`.
    case all([Confinement])
    /// At least one of these holds.
    case some([Confinement])

    /// The confinement under which a condition is true; with `wanted` false, the one under which it is false
    /// (and neither NULL nor MISSING).
    init(_ condition: BoundExpression, source: Int, wanted: Bool = true) {
        Preparation.pass()
        func part(_ operand: BoundExpression, _ wanted: Bool) -> Confinement {
            Confinement(operand, source: source, wanted: wanted)
        }
        switch condition {
        case .constant(let value): self = value == .some(.bool(wanted)) ? .any : .never
        case .not(let operand): self = part(operand, !wanted)
        case .and(let operands):
            let parts = operands.map { part($0, wanted) }
            self = wanted ? .conjunction(parts) : .disjunction(parts)
        case .or(let operands):
            let parts = operands.map { part($0, wanted) }
            self = wanted ? .disjunction(parts) : .conjunction(parts)
        case .comparison(let symbol, let left, .constant(let value)):
            self = Self.comparison(symbol, left, value, source, wanted)
        case .comparison(let symbol, .constant(let value), let right):
            self = Self.comparison(symbol.mirrored, right, value, source, wanted)
        case .between(let value, let low, let high):
            let parts = [
                part(.comparison(.greaterOrEqual, value, low), wanted),
                part(.comparison(.lessOrEqual, value, high), wanted),
            ]
            self = wanted ? .conjunction(parts) : .disjunction(parts)
        case .inList(let value, let elements):
            var known: [Value?] = []
            for element in elements {
                guard case .constant(let value) = element else {
                    self = .any
                    return
                }
                known.append(value)
            }
            let values = known.compactMap { $0 == .some(.null) ? nil : $0 }
            self = Self.membership(value, values, values.count < known.count, source, wanted)
        case .inSet(let value, let set):
            self = Self.membership(value, set.values, set.hasNull, source, wanted)
        case .inCollection(let value, .constant(.array(let elements)?)):
            let values = elements.filter { $0 != .null }
            self = Self.membership(value, values, values.count < elements.count, source, wanted)
        case .inCollection(_, .constant): self = .never
        default: self = Self.test(condition, source, wanted)
        }
    }

    private static func test(_ condition: BoundExpression, _ source: Int, _ wanted: Bool) -> Confinement {
        let found: (operand: BoundExpression, ranges: RangeSet)
        switch condition {
        case .field: found = (condition, RangeSet([.equal(to: .bool(wanted))]))
        case .isNull(let operand): found = (operand, absence(.null, wanted))
        case .isMissing(let operand): found = (operand, absence(.missing, wanted))
        case .like(let operand, .prepared(let pattern)) where wanted:
            found = (operand, RangeSet([pattern.range]))
        case .like(let operand, _), .similar(let operand, _):
            found = (operand, RangeSet([.whole(.string)]))
        default: return .any
        }
        guard let path = path(found.operand, source) else { return .any }
        return confined(path, found.ranges)
    }

    private static func absence(_ known: ValueClass, _ wanted: Bool) -> RangeSet {
        let range = RangeSet([.whole(known)])
        return wanted ? range : range.complement(before: .end)
    }

    private static func comparison(
        _ symbol: BinaryOperator, _ operand: BoundExpression, _ value: Value?, _ source: Int, _ wanted: Bool
    ) -> Confinement {
        let known = ValueClass(of: value)
        guard known < .null else { return .never }
        let symbol = wanted ? symbol : symbol.negated
        if case .documentID(source) = operand {
            if symbol == .equal, let value {
                return AccessPath.id(equalTo: value).map { .ids([$0]) } ?? .never
            }
            guard symbol != .notEqual else { return .any }
        }
        guard let path = path(operand, source) else { return .any }
        let ranges: [KeyRange] =
            switch symbol {
            case .equal: [.equal(to: value)]
            case .less: [KeyRange(from: .beforeClass(known), to: .before(value))]
            case .lessOrEqual: [KeyRange(from: .beforeClass(known), to: .after(value))]
            case .greater: [KeyRange(from: .after(value), to: .afterClass(known))]
            case .greaterOrEqual: [KeyRange(from: .before(value), to: .afterClass(known))]
            default:
                [
                    KeyRange(from: .beforeClass(known), to: .before(value)),
                    KeyRange(from: .after(value), to: .afterClass(known)),
                ]
            }
        return confined(path, RangeSet(ranges))
    }

    private static func membership(
        _ operand: BoundExpression, _ values: [Value], _ hasUnknown: Bool, _ source: Int, _ wanted: Bool
    ) -> Confinement {
        if case .documentID(source) = operand {
            guard wanted else { return .any }
            return .ids(values.compactMap(AccessPath.id(equalTo:)))
        }
        guard let path = field(operand, source) else { return .any }
        let found = RangeSet(values.map { .equal(to: $0) })
        if wanted { return confined(path, found) }
        return hasUnknown ? .never : confined(path, found.complement(before: .beforeClass(.null)))
    }

    private static func confined(_ path: [String], _ ranges: RangeSet) -> Confinement {
        ranges.isEmpty ? .never : ranges.isAll ? .any : .field(path, ranges)
    }

    /// The path of an operand that may be confined: of a field, or of the id, which is empty.
    private static func path(_ expression: BoundExpression, _ source: Int) -> [String]? {
        if case .documentID(source) = expression { return [] }
        return field(expression, source)
    }

    /// The path of a field that an index can hold: a field that is read as undeclared.
    static func field(_ expression: BoundExpression, _ source: Int) -> [String]? {
        guard case .field(let access) = expression, access.source == source,
            access.kinds.allSatisfy({ $0 == nil }), access.declaration?.children.isEmpty ?? true
        else { return nil }
        return access.path
    }

    // MARK: Combining

    private static func conjunction(_ parts: [Confinement]) -> Confinement {
        var fields = FieldRanges()
        var others: [Confinement] = []
        var ids: [DocumentID]?
        func add(_ part: Confinement) {
            switch part {
            case .any: break
            case .field(let path, let ranges): fields.add(path, ranges)
            case .ids(let more):
                guard let known = ids else {
                    ids = more
                    return
                }
                let common = Set(more)
                ids = known.filter(common.contains)
            case .all(let inner): inner.forEach(add)
            case .never, .some: others.append(part)
            }
        }
        parts.forEach(add)
        let common = fields.all.map { (path: $0.path, ranges: RangeSet.intersection(of: $0.sets)) }
        if others.contains(.never) || common.contains(where: \.ranges.isEmpty) { return .never }
        var result = common.map { Confinement.field($0.path, $0.ranges) }
        if let ids { result.append(.ids(ids)) }
        result += others
        return result.isEmpty ? .any : result.count == 1 ? result[0] : .all(result)
    }

    private static func disjunction(_ parts: [Confinement]) -> Confinement {
        var fields = FieldRanges()
        var others: [Confinement] = []
        var ids: [DocumentID] = []
        var hasIDs = false
        for part in parts {
            switch part {
            case .never: break
            case .any: return .any
            case .field(let path, let ranges): fields.add(path, ranges)
            case .ids(let more):
                hasIDs = true
                ids += more
            case .some(let inner): others += inner
            case .all: others.append(part)
            }
        }
        var result: [Confinement] = fields.all.map { field in
            .field(field.path, RangeSet(field.sets.flatMap(\.ranges)))
        }
        if hasIDs { result.append(.ids(ids)) }
        result += others
        return result.isEmpty ? .never : result.count == 1 ? result[0] : .some(result)
    }

    static func samePath(_ left: [String], _ right: [String]) -> Bool {
        left.count == right.count && zip(left, right).allSatisfy(utf8Equal)
    }
}

/// The ranges that the parts of a condition name, by field, in the order of the fields' first parts. A
/// statement may have thousands of parts.
private struct FieldRanges {
    private(set) var all: [(path: [String], sets: [RangeSet])] = []
    /// The places of the paths, by their bytes.
    private var places: [[[UInt8]]: Int] = [:]

    mutating func add(_ path: [String], _ ranges: RangeSet) {
        let bytes = path.map { Array($0.utf8) }
        if let place = places[bytes] { return all[place].sets.append(ranges) }
        places[bytes] = all.count
        all.append((path, [ranges]))
    }
}

extension BinaryOperator {
    /// The comparison with its sides swapped.
    var mirrored: BinaryOperator {
        switch self {
        case .less: .greater
        case .lessOrEqual: .greaterOrEqual
        case .greater: .less
        case .greaterOrEqual: .lessOrEqual
        default: self
        }
    }

    /// The comparison that holds for comparable values exactly where this one does not.
    var negated: BinaryOperator {
        switch self {
        case .equal: .notEqual
        case .notEqual: .equal
        case .less: .greaterOrEqual
        case .lessOrEqual: .greater
        case .greater: .lessOrEqual
        case .greaterOrEqual: .less
        default: self
        }
    }
}
