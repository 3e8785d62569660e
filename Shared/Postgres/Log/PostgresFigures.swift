/// Figures that a PostgreSQL server tells of itself, for metrics.
public struct PostgresFigures: Sendable {
    /// The size of the database that has the log.
    public var databaseBytes: Int64
    /// The server's timeline; nil where nothing keeps away from replaced ones.
    public var timeline: Int64?
    /// The size of the write-ahead log; nil if the role may not read it.
    public var writeAheadBytes: Int64?
    /// How many standbys follow; nil if the role may not read it.
    public var standbys: Int64?
    /// Bytes that the slowest standby has not replayed yet; nil if the role may not read it.
    public var standbyLagBytes: Int64?
}
