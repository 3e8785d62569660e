import Foundation

/// The rule by which old backups are removed: the newest of each of some days and weeks stay, and whatever
/// they continue.
public struct Pruning: Sendable {
    /// The newest backups that stay whatever their days.
    public var keptLast = 1
    /// Days of which the newest backup stays, counted back from the newest one with a backup.
    public var keptDays = 0
    /// Weeks, from Monday, likewise.
    public var keptWeeks = 0

    /// The newest backup stays.
    public init() {}

    /// The names of backups to remove.
    func removed(from backups: [Manifest]) -> [String] {
        let newestFirst = backups.sorted { $0.name > $1.name }
        var kept = Set(newestFirst.prefix(max(1, keptLast)).map(\.name))
        kept.formUnion(newest(newestFirst, keptDays) { $0 / 86_400_000 })
        // 1970 began on a Thursday.
        kept.formUnion(newest(newestFirst, keptWeeks) { ($0 + 3 * 86_400_000) / (7 * 86_400_000) })
        // A parent is older than its child, so one pass from the newest finds all ancestors.
        for backup in newestFirst where kept.contains(backup.name) {
            if let parent = backup.parent { kept.insert(parent.name) }
        }
        return backups.map(\.name).filter { !kept.contains($0) }
    }

    private func newest(_ backups: [Manifest], _ count: Int, _ period: (UInt64) -> UInt64) -> [String] {
        var seen: Set<UInt64> = []
        var names: [String] = []
        for backup in backups where seen.count < count {
            if seen.insert(period(backup.createdAt)).inserted { names.append(backup.name) }
        }
        return names
    }

    /// Removes old backups, newest first: an interrupted removal leaves no backup without its parent.
    /// - Parameter isDry: only tell what would be removed.
    /// - Returns: the names of those removed.
    /// - Throws: `BAK-0101`, `BAK-0102`. Backups that cannot be read are left alone.
    public func run(in folder: BackupFolder, isDry: Bool) throws(BackupError) -> [String] {
        let lock = try folder.lock()
        defer { withExtendedLifetime(lock) {} }
        let readable = try folder.list().compactMap { try? $0.content.get() }
        let names = removed(from: readable).sorted().reversed()
        guard !isDry else { return Array(names) }
        for name in names { try folder.remove(name) }
        return Array(names)
    }
}
