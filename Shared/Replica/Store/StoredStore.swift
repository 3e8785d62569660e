/// A store's file, looked at without opening the store: opening would bring an older one to this format, and
/// make or rewrite files beside it.
package enum StoredStore {
    /// The format of stores that this version writes.
    package static var currentFormat: Int { Int(Schema.format) }

    /// The format of the store in a directory, which stays as it is; nil where there is none.
    /// - Throws: `STORE-0103` for a newer one, `STORE-0104` for a file that is no store of ours.
    package static func format(in directory: String) throws -> Int? {
        let path = "\(directory)/\(DocumentStore.fileName)"
        guard DirectoryLock.identity(of: path) != nil else { return nil }
        return Int(try Schema.stored(path: path))
    }
}
