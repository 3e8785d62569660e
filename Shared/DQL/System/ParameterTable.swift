import CRDT

/// All system parameters (spec 1.11 and the table of the SDK's reference).
public enum ParameterTable {
    /// The groups in the order of the reference.
    public static let groups: [(title: String, parameters: [ParameterDefinition])] = [
        ("Language", language), ("Requests", requests), ("Documents", documents),
        ("Deletion", deletion), ("Observers and transactions", observers),
        ("Synchronization", synchronization), ("Remote queries", remoteQueries),
        ("Attachments", attachments), ("Mesh", mesh), ("Presence", presence),
        ("Transports", transports), ("Information about the peer", peerInformation),
        ("Logs and metrics", logs), ("Storage", storage),
    ]

    /// All parameters.
    public static let all: [ParameterDefinition] = groups.flatMap(\.parameters)

    private static let byName: [String: ParameterDefinition] = Dictionary(
        uniqueKeysWithValues: all.map { ($0.name, $0) })

    /// The parameter with a name, in any case.
    public static func lookup(_ name: String) -> ParameterDefinition? { byName[name.lowercased()] }

    private static let language: [ParameterDefinition] = [
        .flag(
            "dql_strict_mode", false, works: true,
            "Undeclared fields are REGISTERs: an object is written as one unit, and MAP, "
                + "COUNTER and ATTACHMENT values are invisible to undeclared reads."),
        .flag(
            "dql_select_strict_mode", true, works: true,
            "Applies strict mode to reads. If false, reads show the newest variant of a field in "
                + "strict mode too."),
        ParameterDefinition(
            "dql_object_default", .choice(["REGISTER", "MAP"]), "REGISTER", works: true,
            "The type of an undeclared object when dql_strict_mode is on and dql_select_strict_mode "
                + "is off. With both on it is a REGISTER, in non-strict mode a MAP."),
        .flag(
            "dql_restrict_subscriptions", true, works: true,
            "Refuses ORDER BY, LIMIT and OFFSET in subscriptions. If false, they choose the documents that "
                + "a subscription begins with."),
        .flag("dql_use_legacy_projection", true, "Selects how projections are computed."),
        .flag("dql_enable_preview_mode", false, "Allows unreleased features."),
        ParameterDefinition(
            "dql_default_directives", .object, .object(ObjectValue()), works: true,
            "Directives that apply to every statement."),
        .flag(
            "dql_index_default_include_missing", true, works: true,
            "Keeps documents without the key in an index."),
    ]

    private static let requests: [ParameterDefinition] = [
        .count(
            "dql_request_timeout_seconds", 0, in: 0...86_400, works: true,
            "Seconds after which a statement is cancelled; 0 means never."),
        .count(
            "dql_statement_cache_size", 4_096, in: 0...1_048_576, works: true,
            "How many prepared statements are kept; 0 keeps none."),
        .count(
            "dql_slow_request_warn_seconds", 60, works: true,
            "Seconds after which a statement is logged as slow; 0 means never."),
        .count(
            "dql_concurrent_request_limit", 0, in: 0...1_048_576, works: true,
            "How many statements may run at a time, transactions and statements about the system not "
                + "counted; 0 means no limit."),
        .count(
            "dql_concurrent_request_wait_timeout_ms", 60_000, in: 0...86_400_000, works: true,
            "How long a statement waits for its turn, in milliseconds."),
        .count(
            "dql_request_history_size", 4_096, in: 0...1_048_576, works: true,
            "How many requests system:request_history holds."),
        ParameterDefinition(
            "dql_request_history_qualifiers", .object, .object(ObjectValue()),
            "The requests that system:request_history holds."),
        .count(
            "dql_request_history_log_dump_limit", 0, "How many requests are logged when the store closes."),
        .count("max_keys_per_request", 1_024, "How many documents an internal request reads."),
    ]

    private static let documents: [ParameterDefinition] = [
        .count(
            "document_size_soft_limit_bytes", 262_144, works: true,
            "The encoded size from which a written document gets a warning, in bytes."),
        .count(
            "document_size_hard_limit_bytes", 5_242_880, in: 1...Int64(Limits.documentHardLimitBytes),
            works: true,
            "The encoded size above which a local write is refused, in bytes; cannot be raised, since every "
                + "peer has to be able to store the document."),
    ]

    private static let deletion: [ParameterDefinition] = [
        .flag("tombstone_ttl_enabled", true, "Removes old tombstones."),
        .count("tombstone_ttl_hours", 168, in: 1...Int64.max, "How long tombstones stay, in hours."),
        .count("days_between_reaping", 1, in: 1...Int64.max, "How often tombstones are removed, in days."),
        .count(
            "tombstone_reap_batch_size", 10_000, in: 1...Int64.max,
            "How many tombstones are removed in one transaction."),
        .flag("enable_reaper_preferred_hour_scheduling", false, "Applies reaper_preferred_hour."),
        .count(
            "reaper_preferred_hour", 0, in: 0...23, "The hour of the day at which tombstones are removed."),
        .count(
            "reaper_timing_random_variation_seconds", 600,
            "How far apart peers spread the removal, in seconds."),
        .flag("disable_replication_gc_on_evict", false, "Keeps session state after an EVICT."),
        .flag("enable_selective_eviction_filters", true, "Lets EVICT tell other peers the ids."),
        .flag("doc_sync_retain_sessions_post_eviction", true, "Keeps sessions after an EVICT."),
    ]

    private static let observers: [ParameterDefinition] = [
        .count("store_observers_num_threads", 0, "How many observers run at the same time; 0: one per core."),
        .count(
            "live_query_duplicate_warning_threshold", 5,
            "The number of equal observers that gives a warning."),
        .count("live_query_total_warning_threshold", 100, "The number of observers that gives a warning."),
        .count(
            "live_query_system_collection_refresh_interval", 500, in: 1...Int64.max,
            "How often observers of system: collections look for changes, in milliseconds."),
        .count(
            "transaction_duration_before_logging_ms", 10_000, works: true,
            "Milliseconds after which a transaction is logged."),
        .count(
            "transaction_trace_interval_ms", 5_000, works: true,
            "How often a long transaction is logged, in milliseconds."),
        .count(
            "write_txn_trace_interval_ms", 10_000,
            "How often waiting for the write lock is logged, in milliseconds."),
    ]
}
