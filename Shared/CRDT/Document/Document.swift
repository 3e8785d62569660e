/// A document's state: a version vector and a tree of variants. A pure value: no clock, no I/O, no id.
///
/// Invariants (comments of this module cite the rules behind them by number):
/// 1. The state is a function of the causally closed set of stamps its vector denotes, and of nothing else.
/// 2. A stamp is issued once, with one content, by one store; it exceeds everything its author had seen
///    here.
/// 3. A delta applies only where its base is covered; the vector never covers a stamp whose effect was not
///    merged, removed or declared void.
/// 4. A write or removal affects exactly the stamps that its author observed; concurrent values survive
///    until observed.
/// 5. Absence means "removed" only under a vector that truly covers it.
public struct Document: Sendable, Equatable {
    /// The causal context: every stamp that was merged into this state.
    public internal(set) var vector: VersionVector
    /// The tree. The document itself is a MAP whose presence says "inserted".
    var root: MapNode

    /// A document that nobody has written: empty vector, empty tree.
    public init() {
        vector = VersionVector()
        root = MapNode()
    }

    init(vector: VersionVector, root: MapNode) {
        self.vector = vector
        self.root = root
    }

    /// True if readers see the document: it was inserted, or holds fields that survived its deletion.
    public var isLive: Bool { root.isVisible }

    /// The document as a reader without declared types sees it: the most recently written variant of each
    /// key.
    public var value: ObjectValue { root.value }

    /// The effect of applying a delta.
    public enum ApplyOutcome: Sendable, Equatable {
        /// The delta took effect.
        case applied
        /// The vector covered all its writes already; nothing changed.
        case duplicate
        /// The base is not covered; nothing changed. The full state is needed (rule 3).
        case baseMissing
    }

    /// Applies a delta where its base is covered; adds only the delta's own stamps to the vector. `gone` is
    /// a vector of what was removed here and has left no entry: a base that it covers is covered, and a
    /// write that it covers has come and gone.
    public mutating func apply(_ delta: Delta, gone: VersionVector = VersionVector()) -> ApplyOutcome {
        let isSeedNew = delta.seedStamp.map { !vector.covers($0) } ?? false
        let isWriteNew = delta.writesStamp && !vector.covers(delta.stamp) && !gone.covers(delta.stamp)
        guard isSeedNew || isWriteNew else { return .duplicate }
        if isWriteNew {
            let known = gone.isEmpty ? vector : vector.union(gone)
            guard known.covers(delta.base, besides: delta.seedStamp) else { return .baseMissing }
        }
        if isSeedNew, let seed = delta.seed, let stamp = delta.seedStamp {
            root.apply(seed, observed: .nothing, stamp: stamp)
            vector.insert(stamp)
        }
        if isWriteNew {
            root.apply(delta.root, observed: Observed(base: delta.base, own: nil), stamp: delta.stamp)
            vector.insert(delta.stamp)
        }
        return .applied
    }

    /// Joins another state of the same document. Commutative, associative, idempotent.
    ///
    /// An earlier state changes nothing, unless its vector names seeds: builds before 0.2.0 reaped them, and
    /// their logs have to be folded as they did.
    public mutating func merge(_ other: Document) {
        let isEarlier = vector.covers(other.vector) && !other.vector.covers(vector)
        if isEarlier, !other.vector.holdsSeed { return }
        root = MapNode.join(root, vector, other.root, other.vector)
        vector.formUnion(other.vector)
    }

    /// The concurrent values at a path of maps that no later write has replaced, greatest stamp first: of
    /// the REGISTER or the ATTACHMENT, whichever was written last. One element means no conflict; empty
    /// means that the path holds neither.
    public func conflicts(at path: [String]) -> [Value] { root[path[...]]?.conflicts ?? [] }
}
