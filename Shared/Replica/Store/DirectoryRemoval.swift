extension DocumentStore {
    /// Removes a store's files; its lock stays (`Materialization.discard`).
    static func discard(directory: String) throws {
        for suffix in ["", "-wal", "-shm", "-mark"] {
            try DirectoryLock.remove("\(directory)/\(fileName)\(suffix)")
        }
    }

    static let fileName = "replica.sqlite"
    /// The name of a store's database in its directory; its write-ahead log's begins with it.
    public static let databaseName = fileName
    /// The files of a store in its directory.
    public static let fileNames = Set(["", "-wal", "-shm", "-mark"].map { fileName + $0 } + ["lock"])
}
