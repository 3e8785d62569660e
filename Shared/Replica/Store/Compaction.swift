import GRDB

extension Replica {
    /// Rewrites the file without its free pages, in which removed content may stand, and empties the
    /// write-ahead log. Takes a second per 100 MB or so; writes wait meanwhile, reads do not.
    /// - Throws: a storage error while readers keep the write-ahead log in use: try again.
    public func compact() throws {
        try checkOpen()
        do {
            try writing { database in
                try database.execute(sql: "VACUUM")
                _ = try database.checkpoint(.truncate)
            }
        } catch {
            throw ReplicaError.translated(error)
        }
    }
}
