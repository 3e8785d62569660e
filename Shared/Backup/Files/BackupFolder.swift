import Foundation

/// A folder of backups: one folder each, named after the time at which it began.
///
/// Names that begin with a dot are backups that are being made (`.making-`) or removed (`.removing-`), and
/// scratch of a fold; whoever has the lock removes what an interrupted process left. A backup gets its name
/// when everything in it is durable, so one that has a name is whole, or was damaged later.
public struct BackupFolder: Sendable {
    /// The folder's path.
    public let path: String

    /// A folder of backups; nothing is read or made.
    public init(_ path: String) { self.path = path }

    /// A backup, or a folder that looks like one and cannot be read.
    public struct Listed: Sendable {
        /// The folder's name.
        public let name: String
        /// Its content, or the reason why that cannot be read.
        public let content: Result<Manifest, BackupError>
    }

    static let prefix = "backup-"
    static let making = ".making-"
    static let removing = ".removing-"
    static let scratch = ".scratch-"

    /// All backups, oldest first.
    /// - Throws: `BAK-0101`.
    public func list() throws(BackupError) -> [Listed] {
        try Folder.names(path).filter(Self.isName).map { name in
            Listed(name: name, content: Result { () throws(BackupError) in try manifest(name) })
        }
    }

    /// The content of a backup.
    /// - Throws: `BAK-0201`, `BAK-0202`, `BAK-0203`.
    public func manifest(_ name: String) throws(BackupError) -> Manifest {
        guard Folder.exists("\(path)/\(name)") else {
            throw BackupError(.unknownBackup, "\(path) has no backup \(name)")
        }
        let manifest = try Manifest(folder: "\(path)/\(name)")
        guard manifest.name == name else {
            throw .damaged("\(path)/\(name)", "is the backup \(manifest.name) under another name")
        }
        return manifest
    }

    /// The newest backup that can be read; nil if there is none.
    func newest() throws(BackupError) -> Manifest? {
        for listed in try list().reversed() {
            if case .success(let manifest) = listed.content { return manifest }
        }
        return nil
    }

    /// A backup and all that it continues, oldest first.
    /// - Throws: `BAK-0204`, and as `manifest`.
    public func chain(to name: String) throws(BackupError) -> [Manifest] {
        var chain = [try manifest(name)]
        while let parent = chain.last?.parent {
            guard chain.count < Limits.chainLength, Folder.exists("\(path)/\(parent.name)") else {
                throw BackupError(.chainBroken, "\(name) continues \(parent.name), which is missing")
            }
            let earlier = try manifest(parent.name)
            guard earlier.id == parent.id else {
                throw BackupError(.chainBroken, "\(name) continues another backup than \(parent.name)")
            }
            chain.append(earlier)
        }
        return chain.reversed()
    }

    /// Finds the backup that a path names: a folder of backups (the newest in it), or one of them.
    /// - Throws: `BAK-0201`, and as `manifest`.
    public static func find(_ path: String) throws(BackupError) -> (folder: BackupFolder, name: String?) {
        var url = URL(fileURLWithPath: path).standardizedFileURL.path
        if url.count > 1, url.hasSuffix("/") { url.removeLast() }
        guard Folder.exists(url) else { throw BackupError(.unknownBackup, "there is no folder \(path)") }
        let name = (url as NSString).lastPathComponent
        guard Folder.exists("\(url)/\(Manifest.file)") || isName(name) else {
            return (BackupFolder(url), nil)
        }
        return (BackupFolder((url as NSString).deletingLastPathComponent), name)
    }

    // MARK: changes

    /// Locks the folder, creates it if needed, and removes what interrupted processes have left.
    /// - Throws: `BAK-0101`, `BAK-0102`.
    func lock() throws(BackupError) -> FolderLock {
        if !Folder.exists(path) { try Folder.make(path) }
        let lock = try FolderLock(path)
        for name in try Folder.names(path)
        where [Self.making, Self.removing, Self.scratch].contains(where: name.hasPrefix) {
            try Folder.remove("\(path)/\(name)")
        }
        return lock
    }

    /// Gives a backup its name, once everything in it is durable.
    func publish(_ manifest: Manifest) throws(BackupError) {
        let making = "\(path)/\(Self.making)\(manifest.name)"
        try Folder.sync(making)
        try Folder.rename(making, to: "\(path)/\(manifest.name)")
        try Folder.sync(path)
    }

    /// Removes a backup: from its first step on nobody lists it.
    func remove(_ name: String) throws(BackupError) {
        let removing = "\(path)/\(Self.removing)\(name)"
        try Folder.rename("\(path)/\(name)", to: removing)
        try Folder.sync(path)
        try Folder.remove(removing)
    }

    /// The name of a backup that begins now: later than all that are there, whatever the clock says.
    func newName(at milliseconds: UInt64) throws(BackupError) -> String {
        let last = try Folder.names(path).last(where: Self.isName)
        var time = milliseconds
        while true {
            let name = Self.prefix + Self.text(of: time)
            guard let last, name <= last else { return name }
            // Names have milliseconds; a clock that went back by years is not waited for.
            guard time - milliseconds < 1_000 else { return "\(last)a" }
            time += 1
        }
    }

    /// Returns whether a folder's name is one that a backup gets, not just begins alike.
    public static func isName(_ name: String) -> Bool {
        guard name.hasPrefix(prefix) else { return false }
        let time = name.dropFirst(prefix.count)
        return time.prefix(8).count { $0.isNumber } == 8 && time.dropFirst(8).first == "T"
    }

    /// `20261126T083000.123Z`.
    private static func text(of milliseconds: UInt64) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "UTC")
        formatter.dateFormat = "yyyyMMdd'T'HHmmss.SSS'Z'"
        return formatter.string(from: Date(timeIntervalSince1970: Double(milliseconds) / 1_000))
    }
}
