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

    /// Protects a folder with what services keep in it. Attachments are many, and were private from the
    /// start: their folder protects them.
    static func protect(dataFolder: String) throws(ServiceError) {
        try protect(dataFolder)
        try protect(inside: dataFolder, depth: 3)
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
            // Secrets that others could read are refused, not mended: somebody may have read them.
            guard kind == S_IFDIR, name != "attachments", name != "auth" else { continue }
            try protect(inside: path, depth: depth - 1)
        }
    }
}
