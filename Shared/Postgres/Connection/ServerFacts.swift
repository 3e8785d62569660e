import Glibc
import OperationLog

/// Facts about a PostgreSQL server that a check of its settings needs. Reads only.
public struct ServerFacts: Sendable {
    /// A replication slot that nobody reads.
    public struct Slot: Sendable {
        /// Its name.
        public let name: String
        /// The write-ahead log that it holds back.
        public let bytes: Int64

        /// A slot of these facts.
        public init(name: String, bytes: Int64) { (self.name, self.bytes) = (name, bytes) }
    }

    /// As 150004 for 15.4.
    public var version = 0
    /// True if it accepts no writes.
    public var isStandby = false
    /// Client connections now.
    public var connections: Int64 = 0
    /// The setting `max_connections`.
    public var connectionLimit: Int64 = 0
    /// Slots that nobody reads.
    public var inactiveSlots: [Slot] = []
    /// Transactions since the oldest one that is not frozen.
    public var transactionAge: Int64 = 0
    /// The server's clock, less this machine's.
    public var clockDifferenceMilliseconds: Int64 = 0
    /// Settings by name.
    public var settings: [String: String] = [:]

    /// No facts.
    public init() {}

    /// Asks the server.
    /// - Throws: `LOG-0309` if it cannot be reached; no message holds the URL.
    public init(url: String) throws {
        self.init()
        do {
            let connection = try Connection(url: url)
            version = connection.serverVersion
            let before = ContinuousClock.now
            let numbers = try connection.query(
                """
                SELECT pg_is_in_recovery(),
                    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
                    current_setting('max_connections')::int8,
                    (SELECT max(age(datfrozenxid))::int8 FROM pg_database),
                    (extract(epoch FROM clock_timestamp()) * 1000)::int8
                """)
            let answered = before.duration(to: .now)
            isStandby = numbers.bool(0, 0)
            connections = numbers.int8(0, 1)
            connectionLimit = numbers.int8(0, 2)
            transactionAge = numbers.int8(0, 3)
            // Half of the round trip is of no account beside seconds.
            clockDifferenceMilliseconds =
                numbers.int8(0, 4) - Self.nowMilliseconds() + answered.wholeMilliseconds / 2
            let named = try connection.query(
                """
                SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes',
                    'synchronous_commit', 'server_encoding', 'data_checksums', 'autovacuum', 'wal_level')
                """)
            for row in 0..<named.count { settings[named.text(row, 0)] = named.text(row, 1) }
            guard !isStandby else { return }
            let slots = try connection.query(
                """
                SELECT slot_name::text,
                    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::int8
                FROM pg_replication_slots WHERE NOT active
                """)
            inactiveSlots = (0..<slots.count).map {
                Slot(name: slots.text($0, 0), bytes: slots.int8($0, 1))
            }
        } catch {
            throw OperationLogError(.unreachable, "PostgreSQL cannot be asked: \(error.message)")
        }
    }

    private static func nowMilliseconds() -> Int64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
    }

    /// A setting's text; nil if it was not asked for.
    public subscript(name: String) -> String? { settings[name] }
}
