import GRDB

/// The folder of SQLite's temporary files: large sorts, and whatever else does not fit into its memory.
///
/// SQLite keeps it for the whole process. Without one it looks for `TMPDIR`, `/var/tmp` and `/tmp`, which a
/// container may not have, or may hold in memory.
public enum TemporaryFiles {
    /// Puts the files of all connections into a folder, from now on. The files have no names there. A folder
    /// that goes away later is left out, as if none had been set.
    /// - Throws: `STORE-0204` if SQLite cannot write there.
    public static func lie(in folder: String) throws(ReplicaError) {
        do {
            try DatabaseQueue().inDatabase { database in
                try database.execute(sql: "PRAGMA temp_store_directory = \(folder.quotedDatabaseIdentifier)")
            }
        } catch {
            throw ReplicaError(.storageFailed, "SQLite cannot use \(folder) for temporary files: \(error)")
        }
    }
}
