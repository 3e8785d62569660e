/// One transaction's net effect on one document, with the base it needs.
public struct Delta: Sendable, Equatable {
    /// The transaction's stamp; shared by every delta of its operation.
    public let stamp: Stamp
    /// The author's vector of this document before the write: the condition for applying, the context of
    /// its removals.
    public let base: VersionVector
    let root: MapEdit

    init(stamp: Stamp, base: VersionVector, root: MapEdit) {
        self.stamp = stamp
        self.base = base
        self.root = root
    }

    /// The vector of a state that holds exactly the base and this delta.
    public var resultingVector: VersionVector {
        base.union(VersionVector([.init(actor: stamp.actor, time: stamp.time)]))
    }
}
