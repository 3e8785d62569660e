import CRDT
import Exchange
import GRDB

/// Merges states and deltas of others into the documents, and has those fetched again that it cannot decide
/// about.
struct StateMerge {
    var documents: DocumentChanges
    var refetch: Refetch
    var notes: NoteBook
    /// True if nothing that came before the answers can be later than they are.
    var areAnswersLatest = false

    /// The sender of the updates.
    var authority: Authority { refetch.authority }

    /// The meaning of an update that is merged.
    struct Origin {
        /// True if the sender presumes that the document is here: a delta onto nothing lacks its base.
        var presumesHeld = false
        /// True if the server was asked for it.
        var isAnswer = false
    }

    /// Merges a document's state.
    mutating func merge(_ bytes: EncodedState, of key: DocumentKey, _ origin: Origin = Origin()) throws {
        let table = try documents.requireTable(of: key)
        if let note = try notes.note(of: key) {
            guard try takes(bytes, of: key, under: note.void) else { return }
        }
        // Mostly a state is of a document that is not here: then nothing is looked up before.
        if let stamp = Insertion.stamp(ofState: bytes), try documents.add(bytes, key, in: table) {
            try documents.observe(stamp.time)
            return try refetch.askIfEvicted(key, bytes)
        }
        guard let stored = try documents.stored(key)?.state else { return try insert(bytes, key, table) }
        try merge(try Document(decoding: bytes), of: key, onto: stored, in: table, origin)
    }

    private mutating func merge(
        _ incoming: Document, of key: DocumentKey, onto stored: EncodedState, in table: DocumentTable,
        _ origin: Origin
    ) throws {
        var document = try Document(decoding: stored)
        let isKnown = document.vector.covers(incoming.vector)
        // A living document that is deleted here: it is from before that, or a restored log has lost it.
        let isAlive = isKnown && incoming.isLive && !document.isLive
        if !isKnown || isAlive, !origin.isAnswer {
            try refetch.askIfLacking(incoming, key, document, stored)
        }
        if isKnown, !incoming.vector.holdsSeed { return }
        let before = document
        document.merge(incoming)
        if incoming.vector.holdsSeed,
            try hasLost(incoming, document, before, key, isOld: origin.isAnswer && !areAnswersLatest)
        {
            if origin.isAnswer, areAnswersLatest, document.vector == incoming.vector {
                document = incoming
            } else {
                try refetch.askAgain(key)
            }
        }
        // A seed that was reaped elsewhere is gone here too, though no vector says so (rule 7).
        if isKnown, document == before { return }
        documents.record(key, before: stored)
        try put(document, key, table)
    }

    /// Applies a delta.
    mutating func apply(
        _ bytes: EncodedDelta, at stamp: Stamp, to key: DocumentKey, _ origin: Origin = Origin()
    ) throws {
        let table = try documents.requireTable(of: key)
        let stored = try documents.stored(key)?.state
        var document = try stored.map { try Document(decoding: $0) } ?? Document()
        let delta = try Delta(decoding: bytes, stamp: stamp)
        // A document evicted unnoticed is not here; a delta that rests on nothing would be all of it.
        let note = try notes.note(of: key) ?? Notes.Note()
        guard try takes(stamp, of: key, holding: document.vector, under: note.void) else { return }
        let known = note.known(to: delta)
        switch stored == nil && origin.presumesHeld ? .baseMissing : document.apply(delta, gone: known) {
        case .applied:
            documents.record(key, before: stored, delta: (stamp, bytes))
            try put(document, key, table)
        case .duplicate: break
        case .baseMissing: refetch.lacksBase(key)
        }
    }

    /// Merges a staged state, which was decoded whole when it was staged.
    mutating func mergeStaged(_ state: UnsafeRawBufferPointer, of key: DocumentKey) throws {
        let table = try documents.requireTable(of: key)
        let bytes = EncodedState([UInt8](state))
        guard try DocumentRows.isLive(table, key.id, documents.database) == nil,
            try notes.note(of: key) == nil
        else { return try merge(bytes, of: key) }
        let document = try DocumentReader(state)
        guard try !document.vector().isEmpty else { return }
        try documents.put(bytes, key, in: table, isLive: document.isLive, isNew: true)
        try refetch.askIfEvicted(key, bytes)
    }

    private mutating func put(_ document: Document, _ key: DocumentKey, _ table: DocumentTable) throws {
        if let latest = document.vector.greatestTime { try documents.observe(latest) }
        try documents.put(document.encoded(), key, in: table, isLive: document.isLive)
    }

    /// A document that is not here becomes the received state as it is: decoded bytes encode to themselves.
    private mutating func insert(_ bytes: EncodedState, _ key: DocumentKey, _ table: DocumentTable) throws {
        var isLive = true
        if let stamp = Insertion.stamp(ofState: bytes) {
            try documents.observe(stamp.time)
        } else {
            let document = try Document(decoding: bytes)
            guard let latest = document.vector.greatestTime else { return }
            try documents.observe(latest)
            isLive = document.isLive
        }
        try documents.put(bytes, key, in: table, isLive: isLive, isNew: true)
        try refetch.askIfEvicted(key, bytes)
    }

    /// Returns whether seeds that the server shows are gone here, and nothing here says why: what came is
    /// from before they were reaped, or a restored log has lost that. The server's answer to a question
    /// counts.
    /// - Parameter isOld: true for an answer that is from before something else that came.
    private mutating func hasLost(
        _ incoming: Document, _ document: Document, _ before: Document, _ key: DocumentKey, isOld: Bool
    ) throws -> Bool {
        if document.vector == incoming.vector { return document != incoming }
        guard document.hasLostSeeds, !incoming.hasLostSeeds else { return false }
        if isOld { return true }
        // Own writes onto what is left of them, which the server does not have yet.
        guard try refetch.hasPendingWrites(key) else { return false }
        let own = try OwnOperations.actors(documents.database).union([documents.state.actor])
        return before.vector.entries.allSatisfy {
            own.contains($0.actor) || incoming.vector.covers(Stamp(time: $0.time, actor: $0.actor))
        }
    }
}
