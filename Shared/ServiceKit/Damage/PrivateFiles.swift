import Foundation

/// Makes files and folders readable by their owner only, those of an earlier start too.
enum PrivateFiles {
    /// Removes the rights of others from a path, which may be missing.
    /// - Throws: `SRV-0203` if it has such rights and cannot lose them.
    static func protect(_ path: String) throws(ServiceError) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & 0o077 != 0 else { return }
        let isFolder = status.st_mode & S_IFMT == S_IFDIR
        guard chmod(path, isFolder ? 0o700 : 0o600) == 0 else {
            throw ServiceError(
                .dataFolderUnusable,
                "others can read \(path), and its mode cannot be changed: "
                    + "set it to \(isFolder ? "0700" : "0600")")
        }
    }

    /// Refuses what stands in the place of a service's folder and is not one: a link, or a folder with other
    /// things that others can read. The service would take their rights away, and put its own files beside.
    /// - Throws: `SRV-0203`.
    static func refuseForeign(_ path: String) throws(ServiceError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw ServiceError(
                .dataFolderUnusable,
                "\(path) is not a folder but a link or a file: mount the other disk there, or name another "
                    + "data folder with --data")
        }
        guard status.st_mode & 0o077 != 0, !names(path).isEmpty, !isOurs(path) else { return }
        throw ServiceError(
            .dataFolderUnusable,
            "\(path) has files that are not the server's, and others can read it: name another data folder "
                + "with --data, or set the mode of this folder to 0700")
    }

    /// Returns whether a folder has files as services make them, in it or in a folder in it.
    static func isOurs(_ folder: String) -> Bool {
        names(folder).contains { name in
            if isOurFile(name) { return true }
            let inner = "\(folder)/\(name)"
            guard isFolder(inner) else { return false }
            return names(inner).contains { isOurFile($0) || isShelf("\(inner)/\($0)") }
        }
    }

    private static func isOurFile(_ name: String) -> Bool {
        ["secrets.key", "admin.token", "development.token"].contains(name) || name.hasPrefix("replica.sqlite")
    }

    /// A shelf of attachments is named by the first characters of the ids in it.
    private static func isShelf(_ path: String) -> Bool {
        let shelf = (path as NSString).lastPathComponent
        if ["incoming", "uploads"].contains(shelf) { return isFolder(path) }
        return shelf.utf8.count == 2 && isFolder(path)
            && names(path).contains { $0.utf8.count == 43 && $0.hasPrefix(shelf) }
    }

    /// Without the folder that a file system has at its top: a disk may be mounted here.
    private static func names(_ folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).filter { $0 != "lost+found" }
    }

    /// False for a link to a folder.
    private static func isFolder(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// Protects what services keep in a data folder, by its names: other things may lie there too, also under
    /// these names.
    /// Attachments are many, and were private from the start: their folder protects them.
    static func protect(dataFolder: String) throws(ServiceError) {
        for name in folders {
            let path = "\(dataFolder)/\(name)"
            // Not through links: they lead to somebody else's files.
            guard isFolder(path), isOurs(path) else { continue }
            try protect(path)
            // Secrets that others could read are refused, not mended: somebody may have read them.
            guard name != "attachments", name != "auth" else { continue }
            try protect(inside: path, depth: 2)
        }
    }

    /// The folders that services make in a data folder, those of earlier versions too.
    private static let folders = [
        "attachment-documents", "attachments", "audit", "auth", "past", "past-rows", "past-tail", "query",
        "replicator", "system", "temporary",
    ]

    /// True if others can write into a folder, and so could put something else in place of its files.
    static func othersCanWrite(_ folder: String) -> Bool {
        var status = stat()
        return stat(folder, &status) == 0 && status.st_mode & 0o002 != 0
    }

    private static func protect(inside folder: String, depth: Int) throws(ServiceError) {
        guard depth > 0 else { return }
        for name in names(folder) {
            let path = "\(folder)/\(name)"
            var status = stat()
            // Not through links: they lead to somebody else's files.
            guard lstat(path, &status) == 0 else { continue }
            let kind = status.st_mode & S_IFMT
            guard kind == S_IFDIR || kind == S_IFREG else { continue }
            guard kind == S_IFDIR || name.contains(".sqlite") else { continue }
            try protect(path)
            guard kind == S_IFDIR else { continue }
            try protect(inside: path, depth: depth - 1)
        }
    }
}
