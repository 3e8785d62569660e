import CRDT
import GRDB

// The facts that `MergeTable` asks for.

extension Merger {
    /// Returns whether a fact holds of a document and of what comes.
    mutating func holds(_ fact: MergeTable.Fact, _ meeting: inout Meeting) throws -> Bool {
        let key = meeting.key
        switch fact {
        case .here: return try meeting.stored(&documents) != nil
        case .noted: return try notes.note(of: key)?.void.isEmpty == false
        case .known: return try notes.note(of: key) != nil || meeting.stored(&documents) != nil
        case .quarantined: return try isQuarantined(&meeting)
        case .pending: return try refetch.hasPendingWrites(key)
        case .withheld:
            let held = try meeting.held(&documents)
            return try held.without(Withheld.actors(of: key.collection, database)) != held
        case .linked: return notes.isKept
        case .empty: return try meeting.isEmpty()
        case .presumed: return try meeting.presumesHeld && meeting.stored(&documents) == nil
        case .covered:
            return try meeting.applied(&documents, under: notes.note(of: key)).outcome == .duplicate
        case .based:
            return try meeting.applied(&documents, under: notes.note(of: key)).outcome == .applied
        case .whole: return try meeting.shown().covers(meeting.held(&documents))
        case .forgettable:
            let document = try meeting.here(&documents)
            return try document.isForgettable && meeting.shown().covers(document.vector)
        case .contained, .news, .lacking, .followed, .lacksOwn, .lacksEvicted:
            return try holdsOfState(fact, &meeting)
        case .void, .accused, .quarantining, .announced, .stillQuarantined, .confirmed:
            return try holdsOfVoid(fact, &meeting)
        }
    }

    private mutating func holdsOfState(
        _ fact: MergeTable.Fact, _ meeting: inout Meeting
    ) throws -> Bool {
        if fact == .lacksEvicted { return try refetch.lacksEvicted(meeting.shown, meeting.key) }
        let document = try meeting.here(&documents)
        let incoming = try meeting.state()
        let isCovered = document.vector.covers(incoming.vector)
        switch fact {
        case .contained: return isCovered
        case .news: return !isCovered || incoming.isLive && !document.isLive
        case .lacking:
            // A deletion may be what is gone: a restored log has lost it.
            guard document.isLive || incoming.isLive else { return false }
            let lacking = Self.lacking(incoming, document)
            guard !lacking.isEmpty else { return false }
            let withheld = try Withheld.actors(of: meeting.key.collection, database)
            return !lacking.allSatisfy { withheld.contains($0.actor) }
        case .followed:
            guard document.isLive, let stored = try meeting.stored(&documents) else { return false }
            return try refetch.follows(meeting.key, stored)
        case .lacksOwn:
            let actor = documents.state.actor
            return try Self.lacking(incoming, document).allSatisfy { $0.actor == actor }
                && refetch.hasPendingWrites(meeting.key)
        default: return false
        }
    }

    /// The entries of a document that a state does not cover.
    private static func lacking(_ incoming: Document, _ document: Document) -> [VersionVector.Entry] {
        document.vector.entries.filter {
            !incoming.vector.covers(Stamp(time: $0.time, actor: $0.actor))
        }
    }

    private mutating func holdsOfVoid(
        _ fact: MergeTable.Fact, _ meeting: inout Meeting
    ) throws -> Bool {
        let key = meeting.key
        switch fact {
        case .void:
            guard let note = try notes.note(of: key) else { return false }
            return try meeting.shown().isQuarantined(by: note.void)
        case .accused:
            guard notes.isKept, let time = try meeting.shown()[documents.state.actor] else {
                return false
            }
            return try time < VoidNote.none && meeting.stored(&documents) != nil
        case .quarantining:
            return try told(meeting).map { try wouldQuarantine($0, &meeting) } ?? false
        case .announced: return early[key] != nil
        case .stillQuarantined:
            let left = try meeting.shown()
            guard let told = try told(meeting) else { return false }
            if left.isQuarantined(by: told) { return true }
            return try left.isQuarantined(by: words(with: told, of: key, meeting.held(&documents)).times)
        case .confirmed: return expected.contains(key)
        default: return false
        }
    }

    /// Returns whether the document that is here holds a void stamp, apart from those that the server's state
    /// shows not to be void.
    private mutating func isQuarantined(_ meeting: inout Meeting) throws -> Bool {
        guard var words = try notes.note(of: meeting.key)?.words else { return false }
        let held = try meeting.held(&documents)
        guard held.isQuarantined(by: words.times) else { return false }
        guard authority == .server, meeting.came == .state || meeting.came == .answer else {
            return true
        }
        words.clear(shown: try meeting.shown())
        return held.isQuarantined(by: words.times)
    }

    /// Returns whether the document that is here would be quarantined by what a link tells, and is not yet.
    private mutating func wouldQuarantine(_ told: VersionVector, _ meeting: inout Meeting) throws -> Bool {
        let held = try meeting.held(&documents)
        guard !held.isEmpty else { return false }
        let known = try notes.note(of: meeting.key)?.words ?? VoidNote()
        let more = try words(with: told, of: meeting.key, held)
        return more != known && held.isQuarantined(by: more.times)
    }
}
