#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A store's file, looked at without opening the store: opening would bring an older one to this format, and
/// make or rewrite files beside it.
package enum StoredStore {
    /// The format of stores that this version writes.
    package static var currentFormat: Int { Int(Schema.format) }
    /// The oldest format of a store that this version opens.
    package static var oldestFormat: Int { Int(Schema.oldestFormat) }

    /// The format of the store in a directory, which stays as it is; nil where there is none.
    /// - Throws: `STORE-0102` for one that the system does not let us read, `STORE-0103` for a newer one,
    ///   `STORE-0104` for a file that is no store of ours.
    package static func format(in directory: String) throws -> Int? {
        let path = "\(directory)/\(DocumentStore.fileName)"
        guard access(path, F_OK) == 0 else {
            let failure = errno
            if failure == ENOENT || failure == ENOTDIR { return nil }
            throw ReplicaError(
                .directoryUnusable, "\(path) cannot be read: \(String(cString: strerror(failure)))")
        }
        return Int(try Schema.stored(path: path))
    }
}
