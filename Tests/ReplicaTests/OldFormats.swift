@testable import Replica

extension Replica {
    /// Takes from the store's file what formats after this one (1, 2 or 3) have added, so that it is one of
    /// that format. A format that adds something adds a line here.
    func goBack(toFormat format: Int) throws {
        let afterFirst = [
            "DROP TABLE refused", "ALTER TABLE acknowledged DROP COLUMN timestamp",
            "ALTER TABLE acknowledged DROP COLUMN hash", "ALTER TABLE store DROP COLUMN born",
        ]
        let afterSecond = [
            "ALTER TABLE store DROP COLUMN reap_floor", "DROP TABLE frontier", "DROP TABLE history",
            "DROP TABLE moved", "ALTER TABLE subscription DROP COLUMN rights",
            "ALTER TABLE staged DROP COLUMN gone", "DROP TABLE resumption", "DROP TABLE unanswered",
            "DROP TABLE document_index", "DROP TABLE index_version", "DROP INDEX IF EXISTS documents_1_dead",
        ]
        let afterThird = [
            "DROP TABLE staged_page", "DROP TABLE staged_documents", "DROP TABLE refused_commit",
            "DROP TABLE withheld_actor", "DROP TABLE withheld_operation", "DROP INDEX operation_refers",
            "ALTER TABLE operation DROP COLUMN refers", "ALTER TABLE evicted DROP COLUMN time",
            "DROP TABLE feed", "DROP TABLE feed_start", "DROP TABLE peer_feed", "DROP TABLE link_cursor",
            "DROP TABLE met", "DROP TABLE note", "DROP TABLE ahead",
        ]
        try store.committing { database, _ in
            let changes =
                (format < 2 ? afterFirst : []) + (format < 3 ? afterSecond : []) + afterThird
            // Earlier formats know whole operations only.
            let all = try RawStatement(
                fresh: "SELECT \(StoredOperation.columns) FROM operation WHERE refers IS NOT NULL", database)
            while try all.step() {
                let stored = StoredOperation(all)
                let update = try RawStatement(
                    fresh: "UPDATE operation SET bytes = ? WHERE position = ?", database)
                update.bind(1, try stored.whole(database))
                update.bind(2, bits: stored.position)
                try update.run()
            }
            for change in changes {
                try RawStatement(fresh: change, database).run()
            }
            try RawStatement(fresh: "PRAGMA user_version = \(format)", database).run()
        }
    }
}
