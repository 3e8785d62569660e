import CRDT

/// The latest backups in one place, as `mimeo backup` notes them: for metrics, and so that the log keeps what
/// the next incremental backup needs.
public struct BackupRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.backups
    /// The place: a folder's path, or `s3://BUCKET/PREFIX`.
    public var id: String
    /// The newest full backup.
    public var full: Made?
    /// The newest incremental one.
    public var incremental: Made?
    /// Seconds since 1970, of the last check that found everything right.
    public var verifiedAtSeconds: Int64?
    /// Seconds since 1970, of the last backup or check that failed.
    public var failedAtSeconds: Int64?
    /// The code of that failure.
    public var failure: String?
    /// Seconds since 1970, until which the backup that runs has said that it does; 0 or nil while none runs.
    public var runsUntilSeconds: Int64?
    /// The ends of the newest backup, by database.
    public var holds: [Hold] = []
    /// Seconds since 1970; until then operations after those ends stay in the log.
    public var holdEndsAtSeconds: Int64?

    /// A backup that was made.
    public struct Made: Codable, Sendable, Equatable {
        /// Seconds since 1970, at its beginning.
        public var atSeconds: Int64
        /// The time that it took.
        public var milliseconds: Int64
        /// The size of its files of the log.
        public var bytes: Int64

        /// A backup of these facts.
        public init(atSeconds: Int64, milliseconds: Int64, bytes: Int64) {
            (self.atSeconds, self.milliseconds, self.bytes) = (atSeconds, milliseconds, bytes)
        }
    }

    /// The end of one database's part.
    public struct Hold: Codable, Sendable, Equatable {
        /// The database.
        public var database: String
        /// The offset of its last operation in the backup.
        public var offset: Int64

        /// An end.
        public init(database: DatabaseID, offset: Offset) {
            (self.database, self.offset) = (database.text, Int64(clamping: offset.rawValue))
        }
    }

    /// A place without backups.
    public init(id: String) { self.id = id }
}

extension SystemDirectory {
    /// The offset after which operations of a database stay for the next incremental backup; nil if none is
    /// expected in time.
    public func hold(of database: DatabaseID, nowSeconds: Int64) -> Offset? {
        backups.values.filter { $0.holdEndsAtSeconds ?? 0 > nowSeconds }
            .flatMap(\.holds).filter { $0.database == database.text }
            .map { Offset(UInt64(clamping: $0.offset)) }.min()
    }

    /// Seconds since 1970, of the last backup or check that failed. A backup that was killed says nothing: it
    /// has failed when it has not said for a while that it runs.
    func lastFailedBackup(nowSeconds: Int64) -> Int64? {
        let crashed = backups.values.compactMap(\.runsUntilSeconds).filter { 0 < $0 && $0 < nowSeconds }
        return (backups.values.compactMap(\.failedAtSeconds) + crashed).max()
    }

    /// Sets the metric of failed backups, which time alone may change.
    func measureFailedBackups(nowSeconds: Int64) {
        Measured.replace(
            "mimeo_backup_last_failure_timestamp_seconds",
            lastFailedBackup(nowSeconds: nowSeconds).map { [(labels: [], value: Double($0))] } ?? [])
    }

    /// Sets the other metrics of backups, over all places.
    func measureBackups() {
        let kinds = [
            ("full", backups.values.compactMap(\.full)),
            ("incremental", backups.values.compactMap(\.incremental)),
        ]
        let newest = kinds.compactMap { kind, made in
            made.max { $0.atSeconds < $1.atSeconds }.map { (labels: [("kind", kind)], made: $0) }
        }
        Measured.replace(
            "mimeo_backup_last_success_timestamp_seconds",
            newest.map { ($0.labels, Double($0.made.atSeconds)) })
        Measured.replace(
            "mimeo_backup_last_duration_seconds",
            newest.map { ($0.labels, Double($0.made.milliseconds) / 1_000) })
        Measured.replace("mimeo_backup_last_size_bytes", newest.map { ($0.labels, Double($0.made.bytes)) })
        Measured.replace(
            "mimeo_backup_last_verified_timestamp_seconds",
            backups.values.compactMap(\.verifiedAtSeconds).max().map { [(labels: [], value: Double($0))] }
                ?? [])
    }
}
