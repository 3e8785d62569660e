import CRDT
import GRDB

/// A document here and something that comes of it: each is read, decoded and merged once `MergeTable` asks
/// for a fact about it.
struct Meeting {
    enum Content {
        case nothing
        /// `isChecked`: it was decoded whole before.
        case state(EncodedState, isChecked: Bool = false)
        case delta(Delta, EncodedDelta)
        /// Void stamps, or the vector of a copy that is to be forgotten; encoded.
        case vector([UInt8])
    }

    let came: MergeTable.Came
    let key: DocumentKey
    let content: Content
    /// True if the sender presumes that the document is here: a delta onto nothing lacks its base.
    let presumesHeld: Bool
    /// True if the state was inserted already, as it turned out that nothing was here.
    private(set) var isInserted = false

    private var stored: EncodedState??
    private var here: Document?
    private var incoming: Document?
    private var joined: Document?
    private var applied: (document: Document, outcome: Document.ApplyOutcome)?

    init(_ came: MergeTable.Came, of key: DocumentKey, _ content: Content, presumesHeld: Bool = false) {
        self.came = came
        self.key = key
        self.content = content
        self.presumesHeld = presumesHeld
    }

    /// Nothing was here, and the state is inserted.
    mutating func inserted() {
        isInserted = true
        stored = .some(nil)
    }

    // MARK: The document here

    /// The encoded document; nil where nothing is here.
    mutating func stored(_ documents: inout DocumentChanges) throws -> EncodedState? {
        if let stored { return stored }
        let found = try documents.stored(key)?.state
        stored = .some(found)
        return found
    }

    /// The vector of the document; empty where nothing is here.
    mutating func held(_ documents: inout DocumentChanges) throws -> VersionVector {
        if let here { return here.vector }
        return try stored(&documents)?.withUnsafeBytes { try DocumentReader($0).vector() }
            ?? VersionVector()
    }

    /// The document; an empty one where nothing is here.
    mutating func here(_ documents: inout DocumentChanges) throws -> Document {
        if let here { return here }
        let document = try stored(&documents).map { try Document(decoding: $0) } ?? Document()
        here = document
        return document
    }

    // MARK: What comes

    /// The vector that comes: of a state, of the stamp of a delta, or itself.
    func shown() throws -> VersionVector {
        switch content {
        case .nothing: VersionVector()
        case .state(let bytes, _):
            try incoming?.vector ?? bytes.withUnsafeBytes { try DocumentReader($0).vector() }
        case .delta(let delta, _):
            VersionVector([.init(actor: delta.stamp.actor, time: delta.stamp.time)])
        case .vector(let bytes): try VersionVector(decoding: bytes)
        }
    }

    /// The state that comes; an empty document where none does.
    mutating func state() throws -> Document {
        if let incoming { return incoming }
        guard case .state(let bytes, _) = content else { return Document() }
        let document = try Document(decoding: bytes)
        incoming = document
        return document
    }

    /// Returns whether the state that comes is one of a document that nobody has written.
    mutating func isEmpty() throws -> Bool {
        guard !isInserted, case .state(let bytes, let isChecked) = content else { return !isInserted }
        if isChecked { return try shown().isEmpty }
        return try Insertion.stamp(ofState: bytes) == nil && state().vector.isEmpty
    }

    // MARK: Both

    /// The document here, merged with the state that comes.
    mutating func joined(_ documents: inout DocumentChanges) throws -> Document {
        if let joined { return joined }
        var document = try here(&documents)
        try document.merge(state())
        joined = document
        return document
    }

    /// The document here with the delta that comes, and whether it took effect. `void`: the note here.
    mutating func applied(
        _ documents: inout DocumentChanges, under void: Notes.Note?
    ) throws -> (document: Document, outcome: Document.ApplyOutcome) {
        if let applied { return applied }
        var document = try here(&documents)
        guard case .delta(let delta, _) = content else { return (document, .duplicate) }
        let outcome = document.apply(delta, gone: (void ?? Notes.Note()).known(to: delta))
        applied = (document, outcome)
        return (document, outcome)
    }
}

extension Notes.Note {
    /// A vector of what counts as known to a document below its own vector, for a delta's base: the void
    /// stamps that the base names.
    func known(to delta: Delta) -> VersionVector {
        guard !void.isEmpty else { return VersionVector() }
        return VersionVector(
            delta.base.entries.filter { entry in void[entry.actor].map { entry.time > $0 } ?? false })
    }
}
