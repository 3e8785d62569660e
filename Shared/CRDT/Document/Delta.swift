/// One transaction's net effect on one document, with the base it needs.
public struct Delta: Sendable, Equatable {
    /// The transaction's stamp; shared by every delta of its operation.
    public let stamp: Stamp
    /// The author's vector of this document before the write: the condition for applying the delta and the
    /// context of its removals. Covers the seed when the same transaction wrote both.
    public let base: VersionVector
    let root: MapEdit
    /// The document's INITIAL content (rule 7). It is applied before `root`, under `seedStamp`, and observes
    /// nothing.
    let seed: MapEdit?
    /// Time zero and an actor derived from the seed's canonical bytes, so that the same content is one
    /// write, whichever store writes it. Nil without a seed.
    public let seedStamp: Stamp?

    init(stamp: Stamp, base: VersionVector, root: MapEdit, seed: MapEdit? = nil) {
        self.stamp = stamp
        self.base = base
        self.root = root
        self.seed = seed
        seedStamp = seed.map { $0.seedStamp }
    }

    /// True if the transaction did more than seed. Only then does its own stamp enter the document's vector.
    public var writesStamp: Bool { seed == nil || !root.isEmpty }

    /// The vector of a state that holds exactly the base and this delta.
    public var resultingVector: VersionVector {
        var vector = base
        if let seedStamp { vector.insert(seedStamp) }
        if writesStamp { vector.insert(stamp) }
        return vector
    }
}

extension MapEdit {
    /// The stamp of this edit as a document's seed.
    var seedStamp: Stamp {
        var writer = ByteWriter()
        writer.edit(self, base: VersionVector())
        return Stamp(time: 0, actor: ActorID(hash64(writer.bytes)))
    }
}
