extension Replica {
    /// Removes a materialization's files, so that the next opening rebuilds it. The lock's file stays, and
    /// with it the lock of a replica that holds the directory. A replica that has the files open must be
    /// closed right after.
    public static func discard(directory: String) throws {
        for suffix in ["", "-wal", "-shm", "-mark"] {
            try DirectoryLock.remove("\(directory)/\(fileName)\(suffix)")
        }
    }

    static let fileName = "replica.sqlite"
}
