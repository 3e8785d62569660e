import CRDT
import GRDB

// The effects that `MergeTable` decides on.

extension Merger {
    mutating func perform(_ effect: MergeTable.Effect, _ meeting: inout Meeting) throws {
        let key = meeting.key
        switch effect {
        case .insert: try insert(&meeting)
        case .apply: try apply(&meeting)
        case .merge: try put(meeting.joined(&documents), &meeting)
        case .replace: try replace(&meeting)
        case .showOwn: try showOwn(&meeting)
        case .drop:
            guard let table = try documents.table(of: key.collection) else { return }
            try documents.drop(key, table, meeting.held(&documents))
        case .observe:
            if let latest = try meeting.state().vector.greatestTime { try documents.observe(latest) }
        case .ask: try refetch.ask(key)
        case .askAgain: try refetch.askAgain(key)
        case .awaitRepair: try refetch.awaitRepair(key)
        case .lackBase: refetch.lacksBase(key)
        case .learn:
            guard let told = try told(meeting) else { return }
            try learn(told, of: key, meeting.held(&documents))
        case .acquit: try learn(VersionVector(), of: key, meeting.held(&documents))
        case .refute: try refute(key, shown: meeting.shown())
        case .tellAgain: try tellAgain(key)
        case .leaveActor:
            let actor = documents.state.actor
            guard let time = try meeting.shown()[actor] else { return }
            try documents.leave(key, VersionVector([.init(actor: actor, time: time)]))
        case .expectState: expected.insert(key)
        case .stateCame: expected.remove(key)
        case .keepWord: early[key] = try meeting.shown()
        case .dropWord: early[key] = nil
        }
    }

    // MARK: The document

    /// A document that is not here becomes the received state as it is: decoded bytes encode to themselves.
    private mutating func insert(_ meeting: inout Meeting) throws {
        guard !meeting.isInserted, case .state(let bytes, let isChecked) = meeting.content else {
            return
        }
        let table = try documents.requireTable(of: meeting.key)
        var isLive = true
        if isChecked {
            // (Its stamps were observed when it was staged.)
            isLive = try bytes.withUnsafeBytes { try DocumentReader($0).isLive }
        } else if let stamp = Insertion.stamp(ofState: bytes) {
            try documents.observe(stamp.time)
        } else {
            let document = try meeting.state()
            if let latest = document.vector.greatestTime { try documents.observe(latest) }
            isLive = document.isLive
        }
        try documents.put(bytes, meeting.key, in: table, isLive: isLive, isNew: true)
    }

    private mutating func apply(_ meeting: inout Meeting) throws {
        guard case .delta(let delta, let bytes) = meeting.content else { return }
        let document = try meeting.applied(&documents, under: nil).document
        documents.record(
            meeting.key, before: try meeting.stored(&documents), delta: (delta.stamp, bytes))
        try put(document, meeting.key)
    }

    /// Puts a document in its place, unless it is what was there.
    private mutating func put(_ document: Document, _ meeting: inout Meeting) throws {
        // A seed that was reaped elsewhere is gone here too, though no vector says so (rule 7).
        let before = try meeting.here(&documents)
        if try before.vector.covers(meeting.shown()), document == before { return }
        documents.record(meeting.key, before: try meeting.stored(&documents))
        try put(document, meeting.key)
    }

    private mutating func put(_ document: Document, _ key: DocumentKey) throws {
        if let latest = document.vector.greatestTime { try documents.observe(latest) }
        let table = try documents.requireTable(of: key)
        try documents.put(document.encoded(), key, in: table, isLive: document.isLive)
    }

    // MARK: Void stamps (decision 0083)
    //
    // A document that holds one is quarantined. Nothing is merged into it, and it is merged into nothing,
    // because removals by a void write look like fields that only others have.

    /// A clean state, or nothing, takes the place of a quarantined document. Own writes that nobody has
    /// acknowledged go on top: at the server by the repair that moves them, over a link as they are, as soon
    /// as everything that they rest on beside void stamps is here.
    private mutating func replace(_ meeting: inout Meeting) throws {
        let key = meeting.key
        let note = try notes.note(of: key) ?? Notes.Note()
        guard let stored = try documents.stored(key) else { return }
        var document = try meeting.state()
        if let latest = document.vector.greatestTime { try documents.observe(latest) }
        _ = try applyOwn(to: &document, of: key, note)
        documents.record(key, before: stored.state)
        let left = try meeting.held(&documents).entries.filter {
            $0.time > document.vector[$0.actor] ?? 0
        }
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
    private mutating func showOwn(_ meeting: inout Meeting) throws {
        let key = meeting.key
        guard let note = try notes.note(of: key) else { return }
        var document = try meeting.here(&documents)
        guard try applyOwn(to: &document, of: key, note) else { return }
        let table = try documents.requireTable(of: key)
        documents.record(key, before: try meeting.stored(&documents))
        try documents.put(document.encoded(), key, in: table, isLive: document.isLive)
    }

    /// Applies the own writes of a document that nobody has acknowledged, as far as their bases are here.
    /// - Returns: whether any took effect.
    private mutating func applyOwn(
        to document: inout Document, of key: DocumentKey, _ note: Notes.Note
    ) throws -> Bool {
        guard try refetch.hasPendingWrites(key) else { return false }
        var isAnyApplied = false
        for delta in try OwnOperations.deltas(of: key, database) {
            let own = VersionVector([.init(actor: delta.stamp.actor, time: delta.stamp.time)])
            guard !own.isQuarantined(by: note.void) else { continue }
            let outcome = document.apply(delta, gone: note.known(to: delta))
            isAnyApplied = isAnyApplied || outcome == .applied
        }
        return isAnyApplied
    }

    /// The void stamps that count now: those that come, or that a link has told before.
    func told(_ meeting: Meeting) throws -> VersionVector? {
        meeting.came == .voidStamps ? try meeting.shown() : early[meeting.key]
    }

    /// Void stamps of a document were told: by the server, which names all of those that it was asked about,
    /// or by a link.
    private mutating func learn(_ told: VersionVector, of key: DocumentKey, _ held: VersionVector)
        throws
    {
        guard notes.isKept else { return }
        let note = try notes.note(of: key)
        switch authority {
        case .server:
            var words = note?.words ?? VoidNote()
            // A held write that the server does not confirm is not void.
            for entry in words.times.entries
            where told[entry.actor] == nil && held[entry.actor] ?? 0 > entry.time {
                words.clear(entry.actor)
            }
            for entry in told.entries { words.confirm(entry) }
            try setVoid(key, words)
        case .link:
            guard !held.isEmpty || note != nil else { return }
            try setVoid(key, words(with: told, of: key, held))
        }
    }

    /// The words about a document's void stamps together with a link's notice, as far as we accept it.
    /// Entries of own actors are left out: only the server refuses own writes.
    mutating func words(
        with told: VersionVector, of key: DocumentKey, _ held: VersionVector
    ) throws -> VoidNote {
        var words = try notes.note(of: key)?.words ?? VoidNote()
        let known = words
        let own = try ownActors()
        let others = told.entries.filter { !own.contains($0.actor) }
        // Actors whose stamps are here come first.
        let urgent = others.filter { held[$0.actor] != nil || known.names($0.actor) }
        let rest = others.filter { held[$0.actor] == nil && !known.names($0.actor) }
        let room = max(0, ReplicaLimits.voidActors - known.count - urgent.count)
        for entry in urgent + rest.prefix(room) { words.take(entry) }
        return words
    }

    func ownActors() throws -> Set<ActorID> {
        try OwnOperations.actors(database).union([documents.state.actor])
    }

    /// The server shows what a note calls void: it is not.
    private mutating func refute(_ key: DocumentKey, shown: VersionVector) throws {
        guard var words = try notes.note(of: key)?.words else { return }
        words.clear(shown: shown)
        try setVoid(key, words)
    }

    /// Sets the void stamps of a document. One that is clean with them is told again: the cursors of links
    /// have passed it while it was quarantined.
    private mutating func setVoid(_ key: DocumentKey, _ words: VoidNote) throws {
        let before = try notes.note(of: key)?.void ?? VersionVector()
        guard try notes.setVoid(key, words, at: documents.position) else { return }
        guard let stored = try documents.stored(key) else { return documents.touch(key) }
        let (held, isLive) = try stored.state.withUnsafeBytes { bytes in
            let reader = try DocumentReader(bytes)
            return (try reader.vector(), reader.isLive)
        }
        guard held.isQuarantined(by: before), !held.isQuarantined(by: words.times) else {
            return documents.touch(key)
        }
        try documents.put(stored.state, key, in: stored.table, isLive: isLive)
    }

    /// Tells a document's note again: a link has shown something that it calls void. The document is
    /// not new here, so no other link is asked about it.
    private mutating func tellAgain(_ key: DocumentKey) throws {
        guard try notes.tellAgain(key, at: documents.position) else { return }
        if let stored = try documents.stored(key)?.state { documents.record(key, before: stored) }
        documents.touch(key)
    }
}
