import CRDT

/// The way to reach the documents of one source. The condition stays in the plan as a filter, so a path may
/// find too many documents and never changes an answer.
indirect enum AccessPath: Equatable, Sendable {
    /// Every live document.
    case collection
    /// No document: the condition cannot hold.
    case nothing
    /// The documents with these ids.
    case ids([DocumentID])
    /// The documents whose ids are in some runs.
    case idRanges(IDRanges)
    /// The documents of some entries of an index, in its order.
    case index(IndexScan)
    /// The documents that any of the paths finds.
    case union([AccessPath])
    /// The documents that all of the index scans find.
    case intersection([IndexScan])
}

extension AccessPath {
    /// The ids to which a condition confines a source: `_id = x` or `_id IN …` among the operands of its
    /// AND.
    static func ids(in condition: BoundExpression, source: Int) -> IDList? {
        switch condition {
        case .and(let operands):
            for operand in operands {
                if let ids = ids(in: operand, source: source) { return ids }
            }
            return nil
        case .comparison(.equal, .documentID(source), let value) where isKnown(value),
            .comparison(.equal, let value, .documentID(source)) where isKnown(value):
            return .list([value])
        case .inList(.documentID(source), let values) where values.allSatisfy(isKnown):
            return .list(values)
        case .inCollection(.documentID(source), let values) where isKnown(values):
            return .array(values, nil)
        case .inSet(.documentID(source), let set):
            return .list(set.values.map { .constant($0) })
        default: return nil
        }
    }

    /// Returns whether a condition says nothing but which ids it wants, so that `ids(in:)` is all of it.
    static func isOnlyIDs(_ condition: BoundExpression, source: Int) -> Bool {
        if case .and = condition { return false }
        return ids(in: condition, source: source) != nil
    }

    /// Returns whether a value is known when the statement starts.
    private static func isKnown(_ value: BoundExpression) -> Bool {
        switch value {
        case .constant, .parameter: true
        default: false
        }
    }

    /// The id that compares equal to a value; nil if none does. Ids hold no floats, yet `_id = 1.0` finds 1.
    static func id(equalTo value: Value) -> DocumentID? {
        guard let value = withoutFloats(value) else { return nil }
        return try? DocumentID(value)
    }

    private static func withoutFloats(_ value: Value) -> Value? {
        switch value {
        case .double(let number): return Int64(exactly: number).map { .int($0) }
        case .array(let elements):
            let whole = elements.compactMap(withoutFloats)
            return whole.count == elements.count ? .array(whole) : Value?.none
        case .object(let object):
            let whole: [ObjectValue.Entry] = object.entries.compactMap { entry in
                withoutFloats(entry.value).map { (key: entry.key, value: $0) }
            }
            return whole.count == object.count ? .object(ObjectValue(whole)) : Value?.none
        default: return value
        }
    }
}
