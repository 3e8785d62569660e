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

    /// Protects what services keep in a data folder, by its names: other things may lie there too.
    /// Attachments are many, and were private from the start: their folder protects them.
    static func protect(dataFolder: String) throws(ServiceError) {
        for name in folders {
            let path = "\(dataFolder)/\(name)"
            var status = stat()
            // Not through links: they lead to somebody else's files.
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { continue }
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
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
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
