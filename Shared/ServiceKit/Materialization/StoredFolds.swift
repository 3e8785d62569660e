import Foundation
import OperationLog
import Replica

/// The formats of stores on disk, for commands that look at a server's storage without opening it.
public enum StoredFolds {
    /// Returns whether a folder has a store, or may have one that the system does not let us see.
    public static func isStore(_ folder: URL) -> Bool {
        access(folder.appendingPathComponent(DocumentStore.databaseName).path, F_OK) == 0
            || ![ENOENT, ENOTDIR].contains(errno)
    }

    /// The format of the store in a folder, which stays as it is; nil where there is none.
    /// - Throws: `STORE-0102` for one that the system does not let us read, `STORE-0103` for a newer one,
    ///   `STORE-0104` for a file that is no store of ours.
    public static func format(in folder: URL) throws -> StoredFormat? {
        try StoredStore.format(in: folder.path).map {
            StoredFormat(
                stored: $0, oldest: StoredStore.oldestFormat, current: StoredStore.currentFormat)
        }
    }

    /// Returns whether an error of `format(in:)` makes a service build the store again from the log.
    public static func isBuiltAgain(after error: any Error) -> Bool {
        (error as? ReplicaError)?.code == .damaged
    }
}
