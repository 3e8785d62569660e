import CRDT
import GRDB

// Void stamps (decision 0083): a document that holds one is tainted. Nothing is merged into it, and it is
// merged into nothing, because removals by a void write look like fields that only others have.

extension StateMerge {
    /// Void stamps of a document were told: by the server, which names all of those that it was asked about,
    /// or by a link.
    mutating func learn(_ told: VersionVector, of key: DocumentKey, from authority: Authority) throws {
        guard notes.isKept else { return }
        var words = try notes.note(of: key)?.words ?? VoidNote()
        let held = try vector(of: key)
        if authority == .server {
            // A held write that the server does not confirm is not void.
            for entry in words.times.entries
            where told[entry.actor] == nil && held[entry.actor] ?? 0 > entry.time {
                words.clear(entry.actor)
            }
            for entry in told.entries { words.confirm(entry) }
        } else {
            guard try !held.isEmpty || notes.note(of: key) != nil else { return }
            for entry in try allowed(told, beside: words, held) { words.take(entry) }
        }
        try setVoid(key, words)
    }

    /// The entries of a link's notice that we accept. Entries of own actors are left out: only the server
    /// refuses own writes. (A notice about a document of which nothing is here is not accepted at all.)
    private func allowed(
        _ told: VersionVector, beside known: VoidNote, _ held: VersionVector
    ) throws -> [VersionVector.Entry] {
        let own = try ownActors()
        let others = told.entries.filter { !own.contains($0.actor) }
        // Actors whose stamps are here come first.
        let urgent = others.filter { held[$0.actor] != nil || known.names($0.actor) }
        let rest = others.filter { held[$0.actor] == nil && !known.names($0.actor) }
        return urgent + rest.prefix(max(0, ReplicaLimits.voidActors - known.count - urgent.count))
    }

    private func ownActors() throws -> Set<ActorID> {
        try OwnOperations.actors(documents.database).union([documents.state.actor])
    }

    /// Returns whether a document that is here would be tainted by what a link tells.
    mutating func isTainted(_ key: DocumentKey, by told: VersionVector) throws -> Bool {
        let held = try vector(of: key)
        guard !held.isEmpty else { return false }
        let words = try notes.note(of: key)?.words ?? VoidNote()
        var more = words
        for entry in try allowed(told, beside: words, held) { more.take(entry) }
        return more != words && held.isTainted(by: more.times)
    }

    /// Returns whether a link's state would be tainted by the link's notice, or by other void stamps known
    /// here.
    mutating func wouldTaint(
        _ left: VersionVector, of key: DocumentKey, _ told: VersionVector
    ) throws -> Bool {
        if left.isTainted(by: told) { return true }
        var words = try notes.note(of: key)?.words ?? VoidNote()
        let held = try vector(of: key)
        for entry in try allowed(told, beside: words, held) { words.take(entry) }
        return left.isTainted(by: words.times)
    }

    /// A link calls own stamps void. Other peers drop further writes of that actor to the document, whether
    /// the link is right or not: the actor does not write it again (rule 10).
    mutating func leaveVoided(_ key: DocumentKey, _ told: VersionVector) throws {
        let actor = documents.state.actor
        guard notes.isKept, let time = told[actor], time < VoidNote.none, try documents.stored(key) != nil
        else { return }
        try documents.leave(key, VersionVector([.init(actor: actor, time: time)]))
    }

    /// Sets the void stamps of a document. One that is clean with them is told again: the cursors of links
    /// have passed it while it was tainted.
    private mutating func setVoid(_ key: DocumentKey, _ words: VoidNote) throws {
        let wasTainted = try isTainted(key)
        guard try notes.setVoid(key, words, at: documents.position) else { return }
        guard wasTainted, let stored = try documents.stored(key), try !isTainted(key) else {
            return documents.touch(key)
        }
        let isLive = try stored.state.withUnsafeBytes { try DocumentReader($0).isLive }
        try documents.put(stored.state, key, in: stored.table, isLive: isLive)
    }

    /// The server shows what a note calls void: it is not.
    private mutating func clear(of key: DocumentKey, shown: VersionVector) throws {
        guard var words = try notes.note(of: key)?.words else { return }
        for entry in words.times.entries where shown[entry.actor] ?? 0 > entry.time {
            words.clear(entry.actor)
        }
        try setVoid(key, words)
    }

    /// Returns whether neither the document nor a note of it is here.
    mutating func hasNothing(of key: DocumentKey) throws -> Bool {
        try notes.note(of: key) == nil && documents.stored(key) == nil
    }

    /// Returns whether a document that is here holds a void stamp.
    mutating func isTainted(_ key: DocumentKey) throws -> Bool {
        guard let void = try notes.note(of: key)?.void, !void.isEmpty else { return false }
        return try vector(of: key).isTainted(by: void)
    }

    private mutating func vector(of key: DocumentKey) throws -> VersionVector {
        try documents.stored(key)?.state.withUnsafeBytes { try DocumentReader($0).vector() }
            ?? VersionVector()
    }

    /// Returns whether a state is to be merged; one that takes a tainted document's place is not.
    mutating func takes(
        _ bytes: EncodedState, of key: DocumentKey, under void: VersionVector
    ) throws -> Bool {
        guard !void.isEmpty else { return true }
        let incoming = try bytes.withUnsafeBytes { try DocumentReader($0).vector() }
        if incoming.isTainted(by: void) {
            guard authority == .server else {
                try tellAgain(key)
                return false
            }
            try clear(of: key, shown: incoming)
        }
        guard try isTainted(key) else { return true }
        try replace(key, by: try Document(decoding: bytes))
        return false
    }

    /// Returns whether a delta may be applied.
    mutating func takes(
        _ stamp: Stamp, of key: DocumentKey, holding vector: VersionVector, under void: VersionVector
    ) throws -> Bool {
        guard !void.isEmpty else { return true }
        if vector.isTainted(by: void) {
            // The server has a clean state. Every feed is asked again once one is here.
            if authority == .server { refetch.lacksBase(key) }
            return false
        }
        let own = VersionVector([.init(actor: stamp.actor, time: stamp.time)])
        guard own.isTainted(by: void) else { return true }
        switch authority {
        case .server: try clear(of: key, shown: own)
        case .link: try tellAgain(key)
        }
        return authority == .server
    }

    /// Tells a document's note again: a link has shown something that it calls void. The document is
    /// not new here, so no other link is asked about it.
    mutating func tellAgain(_ key: DocumentKey) throws {
        guard try notes.tellAgain(key, at: documents.position) else { return }
        if let stored = try documents.stored(key)?.state { documents.record(key, before: stored) }
        documents.touch(key)
    }

    /// A clean state takes the place of a tainted document. Own writes that nobody has acknowledged go on
    /// top: at the server by the repair that moves them, over a link as they are, as soon as everything that
    /// they rest on beside void stamps is here.
    mutating func replace(_ key: DocumentKey, by clean: Document) throws {
        let note = try notes.note(of: key) ?? Notes.Note()
        guard let stored = try documents.stored(key), !clean.vector.isTainted(by: note.void) else { return }
        if let latest = clean.vector.greatestTime { try documents.observe(latest) }
        if authority == .server, try refetch.hasPendingWrites(key) { return try refetch.awaitRepair(key) }
        var document = clean
        _ = try applyOwn(to: &document, of: key, note)
        documents.record(key, before: stored.state)
        let before = try stored.state.withUnsafeBytes { try DocumentReader($0).vector() }
        let left = before.entries.filter { $0.time > document.vector[$0.actor] ?? 0 }
        // The next write of the same actor would cover its lost stamps (rule 10).
        try documents.leave(key, VersionVector(left))
        if document.vector.isEmpty {
            try documents.remove(key, stored.table, wasHere: true)
        } else {
            try documents.put(document.encoded(), key, in: stored.table, isLive: document.isLive)
        }
        try notes.tellVoidAgain(key, at: documents.position)
    }

    /// Shows own writes again whose bases have come since a document was replaced.
    mutating func applyOwnAgain(to key: DocumentKey) throws {
        guard let note = try notes.note(of: key), !note.void.isEmpty, try refetch.hasPendingWrites(key) else {
            return
        }
        let stored = try documents.stored(key)
        var document = try stored.map { try Document(decoding: $0.state) } ?? Document()
        guard !document.vector.isTainted(by: note.void), try applyOwn(to: &document, of: key, note) else {
            return
        }
        let table = try documents.requireTable(of: key)
        documents.record(key, before: stored?.state)
        try documents.put(document.encoded(), key, in: table, isLive: document.isLive)
    }

    /// Applies the own writes of a document that nobody has acknowledged, as far as their bases are here.
    /// - Returns: whether any took effect.
    private mutating func applyOwn(
        to document: inout Document, of key: DocumentKey, _ note: Notes.Note
    ) throws -> Bool {
        guard try refetch.hasPendingWrites(key) else { return false }
        var isAnyApplied = false
        for delta in try OwnOperations.deltas(of: key, documents.database) {
            let own = VersionVector([.init(actor: delta.stamp.actor, time: delta.stamp.time)])
            guard !own.isTainted(by: note.void) else { continue }
            let outcome = document.apply(delta, gone: note.known(to: delta))
            isAnyApplied = isAnyApplied || outcome == .applied
        }
        return isAnyApplied
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
