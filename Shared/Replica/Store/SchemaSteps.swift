import CRDT
import GRDB

/// Steps from the format before to one that follows it.
enum SchemaSteps {
    /// Format 12: notes hold void stamps only. Documents that had a note of what was gone of them are
    /// forgotten whole (rule 10): what is left of them may have been cut without a stamp that says so. All is
    /// asked for again; own operations stay, and the server takes them (decision 0171).
    static func to12(_ database: Database) throws {
        let noted = try notedDocuments(database)
        if !noted.isEmpty {
            var own = try OwnOperations.actors(database)
            if let actor = try StoreState.load(database)?.actor { own.insert(actor) }
            var collections = Collections()
            for item in noted {
                let table = try collections.number(of: item.key.collection, database)
                let state = try table.flatMap { try DocumentRows.state($0, item.key.id, database) }
                let held = try state.map { try Document(decoding: $0).vector } ?? VersionVector()
                for entry in held.union(item.gone).entries where own.contains(entry.actor) {
                    try Evicted.note(item.key, entry.actor, at: held[entry.actor] ?? 0, database)
                }
                try Withheld.leaveActor(of: item.key.collection, database)
                try LinkCursors.forget(item.key.collection, database)
                try MetDocuments.left(item.key, database)
                if let table, state != nil { try DocumentRows.remove(table, item.key.id, database) }
            }
            try Cursors.forgetAll(but: [], database)
            try Staged.discardAll(database)
        }
        try database.execute(sql: Schema.noteStep)
    }

    private static func notedDocuments(
        _ database: Database
    ) throws -> [(key: DocumentKey, gone: VersionVector)] {
        let statement = try RawStatement(fresh: "SELECT collection, id, vector FROM note", database)
        var noted: [(key: DocumentKey, gone: VersionVector)] = []
        while try statement.step() {
            let gone = try VersionVector(decoding: statement.bytes(2))
            guard !gone.isEmpty else { continue }
            let id = DocumentID(trusted: statement.bytes(1))
            noted.append((DocumentKey(collection: CollectionName(statement.text(0)), id: id), gone))
        }
        return noted
    }
}
