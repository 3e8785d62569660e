extension Replica {
    /// Removes a materialization's files, so that the next opening builds it anew. The lock's file stays: who
    /// holds the directory goes on holding it. A replica that has them open must be closed right after.
    public static func discard(directory: String) throws {
        for suffix in ["", "-wal", "-shm"] {
            try DirectoryLock.remove("\(directory)/\(fileName)\(suffix)")
        }
    }

    static let fileName = "replica.sqlite"
}
