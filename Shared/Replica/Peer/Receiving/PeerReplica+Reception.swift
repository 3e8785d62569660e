import CRDT
import Exchange
import GRDB

extension PeerReplica {
    /// Stores a server message, all or nothing. Throws CRDT errors for bytes that do not decode: nothing is
    /// stored then.
    public func receive(_ reception: Reception) throws -> ReceptionOutcome {
        try committing { database, state in
            for own in reception.acknowledges {
                for key in try unsubscribed(own.actor, through: own.through, database) {
                    try Unanswered.note(key, own.offset, database)
                }
                try OwnOperations.forget(own.actor, through: own.through, state.actor, database)
            }
            var merger = Merger(
                database: database, state: state, liveQueries: liveQueries, recorder: recording.recorder,
                milliseconds: store.environment.wallMilliseconds())
            try take(reception, &merger, database)
            guard merger.missing.isEmpty else {
                for key in merger.missing { try Wanted.note(key, database) }
                return (.wanting(merger.missing), nil)
            }
            try feed.noteUnsettled(reception, merger.state, database)
            state = merger.state
            let outcome =
                merger.returning.isEmpty
                ? ReceptionOutcome.stored : .returning(Array(merger.returning))
            guard !merger.changed.isEmpty || !merger.wanted.isEmpty else { return (outcome, nil) }
            state.advance()
            let commit = Commit(
                number: state.head, documents: merger.changed, actor: nil, wanted: merger.wanted)
            return (outcome, commit)
        }
    }

    /// Merges a reception and moves what it moves; nothing of that where the merger misses a base.
    func take(_ reception: Reception, _ merger: inout Merger, _ database: Database) throws {
        try database.inPart {
            if let key = reception.publishes { try merger.publish(key) }
            let answered = Set(reception.settles)
            for update in reception.updates {
                if answered.contains(update.key) {
                    try merger.mergeAnswer(update, presumesHeld: reception.presumesHeld)
                } else {
                    try merger.merge(update, presumesHeld: reception.presumesHeld)
                }
            }
            try merger.conclude()
            guard merger.missing.isEmpty else { return false }
            if !reception.hides.isEmpty { try Cursors.forgetAll(but: liveKeys, database) }
            try merger.hide(reception.hides)
            // An answer may be older than what was written here before its document was evicted.
            for key in reception.settles where !merger.isStale(key) {
                try Wanted.settle(key, database)
            }
            for cursor in reception.cursors where keepsCursor(of: cursor.key) {
                let replaces = cursor.key == reception.publishes
                try Cursors.advance(
                    cursor.key, to: cursor.position, replaces: replaces,
                    rights: replaces ? reception.rights ?? [] : nil, database)
            }
            for key in reception.distrusts { try Cursors.distrust(key, database) }
            if let position = reception.seen { try Seen.note(position, replaces: false, database) }
            if let offset = reception.streamed { try Unanswered.settle(through: offset, database) }
            return true
        }
    }
}
