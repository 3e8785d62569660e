import Foundation

/// The right to change the backups of a bucket, for one process at a time.
///
/// A bucket has no lock. Whoever wants the turn stores a mark, then lists all marks: of two that want it at
/// once, each sees the other's, and at least one gives up. A holder stores its mark again and again; one that
/// is older than `Limits.turnSeconds` by the bucket's own clock is a killed process's.
struct BucketTurn {
    let bucket: any BackupBucket
    /// A folder for the mark's content.
    let scratch: String
    var renewal = Limits.turnRenewal

    static let prefix = "turn/"

    /// Runs a body in the turn.
    /// - Throws: `BAK-0102` at once if somebody has it.
    func hold<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result
    {
        let id = hexadecimal(UInt64.random(in: .min ... .max))
        let (key, file) = (Self.prefix + id, "\(scratch)/\(id).turn")
        try Folder.write(Array("\(id)\n".utf8), to: file)
        defer { try? Folder.remove(file) }
        try await bucket.store(file, as: key)
        do {
            try await refuseOthers(than: key)
            let result = try await withThrowingTaskGroup(of: Result?.self) { group in
                group.addTask { try await body() }
                group.addTask {
                    while true {
                        try await Task.sleep(for: renewal)
                        try await bucket.store(file, as: key)
                    }
                }
                defer { group.cancelAll() }
                while let done = try await group.next() {
                    if let done { return done }
                }
                throw CancellationError()
            }
            try? await bucket.remove(key)
            return result
        } catch {
            // Also for a task that was cancelled.
            await Task { [bucket] in try? await bucket.remove(key) }.value
            throw error
        }
    }

    private func refuseOthers(than key: String) async throws {
        var marks: [BackupObject] = []
        try await bucket.forEach(Self.prefix) { marks.append($0) }
        guard let own = marks.first(where: { $0.key == key }) else {
            throw BackupError(.bucketUnusable, "the bucket does not list what was stored in it just now")
        }
        for mark in marks where mark.key != key {
            guard mark.storedAtSeconds < own.storedAtSeconds - Limits.turnSeconds else {
                throw BackupError(
                    .folderBusy,
                    "another process works on these backups; try again when it has ended. A killed one "
                        + "counts for \(Limits.turnSeconds / 60) minutes")
            }
            try await bucket.remove(mark.key)
        }
    }
}
