import CRDT

/// All system parameters (spec 1.11 and the table of the SDK's reference).
public enum ParameterTable {
    /// In the order of the reference.
    public static let groups: [(title: String, parameters: [ParameterDefinition])] = [
        ("Language", language), ("Requests", requests), ("Documents", documents),
        ("Deletion", deletion), ("Observers and transactions", observers),
        ("Synchronization", synchronization), ("Remote queries", remoteQueries),
        ("Attachments", attachments), ("Mesh", mesh), ("Presence", presence),
        ("Transports", transports), ("Information about the peer", peerInformation),
        ("Logs and metrics", logs), ("Storage", storage),
    ]

    /// All of them.
    public static let all: [ParameterDefinition] = groups.flatMap(\.parameters)

    private static let byName: [String: ParameterDefinition] = Dictionary(
        uniqueKeysWithValues: all.map { ($0.name, $0) })

    /// The parameter of a name, in any case.
    public static func lookup(_ name: String) -> ParameterDefinition? { byName[name.lowercased()] }

    private static let language: [ParameterDefinition] = [
        .flag(
            "dql_strict_mode", false, works: true,
            "What a statement does not declare is a REGISTER: an object is written as one unit, and MAP, "
                + "COUNTER and ATTACHMENT values are invisible to undeclared reads."),
        .flag(
            "dql_select_strict_mode", true, works: true,
            "Whether strict mode holds for reading. Without it, reads show the newest variant of a field in "
                + "strict mode too."),
        ParameterDefinition(
            "dql_object_default", .choice(["REGISTER", "MAP"]), "REGISTER", works: true,
            "What an undeclared object is written as when dql_strict_mode is on and dql_select_strict_mode "
                + "is off. With both on it is a REGISTER, in non-strict mode a MAP."),
        .flag(
            "dql_restrict_subscriptions", true, works: true,
            "Whether ORDER BY, LIMIT and OFFSET are a mistake in subscriptions. Without it they are refused "
                + "too, as not supported yet."),
        .flag("dql_use_legacy_projection", true, "How projections are worked out inside."),
        .flag("dql_enable_preview_mode", false, "Lets statements use what is not released."),
        ParameterDefinition(
            "dql_default_directives", .object, .object(ObjectValue()), works: true,
            "Directives of every statement."),
        .flag(
            "dql_index_default_include_missing", true, works: true,
            "Whether an index holds the documents that lack its key."),
    ]

    private static let requests: [ParameterDefinition] = [
        .count(
            "dql_request_timeout_seconds", 0, in: 0...86_400, works: true,
            "After how many seconds a statement is cancelled; 0 is never."),
        .count(
            "dql_statement_cache_size", 4_096, in: 0...1_048_576, works: true,
            "How many prepared statements are kept; 0 keeps none."),
        .count(
            "dql_slow_request_warn_seconds", 60, works: true,
            "From how many seconds on a statement is logged as slow; 0 is never."),
        .count(
            "dql_concurrent_request_limit", 0, in: 0...1_048_576, works: true,
            "How many statements may run at a time, transactions and statements about the system not "
                + "counted; 0 is no limit."),
        .count(
            "dql_concurrent_request_wait_timeout_ms", 60_000, in: 0...86_400_000, works: true,
            "How long a statement waits for its turn, in milliseconds."),
        .count(
            "dql_request_history_size", 4_096, in: 0...1_048_576, works: true,
            "How many requests system:request_history holds."),
        ParameterDefinition(
            "dql_request_history_qualifiers", .object, .object(ObjectValue()),
            "Which requests system:request_history holds."),
        .count(
            "dql_request_history_log_dump_limit", 0, "How many requests are logged when the store closes."),
        .count("max_keys_per_request", 1_024, "How many documents one request inside asks for."),
    ]

    private static let documents: [ParameterDefinition] = [
        .count(
            "document_size_soft_limit_bytes", 262_144, works: true,
            "From how many encoded bytes on a written document gets a warning."),
        .count(
            "document_size_hard_limit_bytes", 5_242_880, in: 1...Int64(Limits.documentHardLimitBytes),
            works: true,
            "Above how many encoded bytes a local write is refused; can be lowered, not raised, since every "
                + "peer has to be able to take the document."),
    ]

    private static let deletion: [ParameterDefinition] = [
        .flag("tombstone_ttl_enabled", true, "Whether tombstones are ever removed."),
        .count("tombstone_ttl_hours", 168, in: 1...Int64.max, "How long tombstones stay, in hours."),
        .count("days_between_reaping", 1, in: 1...Int64.max, "How often tombstones are removed, in days."),
        .count(
            "tombstone_reap_batch_size", 10_000, in: 1...Int64.max,
            "How many tombstones are removed in one transaction."),
        .flag("enable_reaper_preferred_hour_scheduling", false, "Whether reaper_preferred_hour holds."),
        .count(
            "reaper_preferred_hour", 0, in: 0...23, "The hour of the day at which tombstones are removed."),
        .count(
            "reaper_timing_random_variation_seconds", 600,
            "How far apart peers spread that work, in seconds."),
        .flag("disable_replication_gc_on_evict", false, "Whether EVICT leaves what sessions remember."),
        .flag("enable_selective_eviction_filters", true, "Whether EVICT tells other peers which ids went."),
        .flag("doc_sync_retain_sessions_post_eviction", true, "Whether sessions outlive an EVICT."),
    ]

    private static let observers: [ParameterDefinition] = [
        .count("store_observers_num_threads", 0, "How many observers run at the same time; 0 is one a core."),
        .count(
            "live_query_duplicate_warning_threshold", 5,
            "From how many equal observers on there is a warning."),
        .count("live_query_total_warning_threshold", 100, "From how many observers on there is a warning."),
        .count(
            "live_query_system_collection_refresh_interval", 500, in: 1...Int64.max,
            "How often observers of system: collections look, in milliseconds."),
        .count(
            "transaction_duration_before_logging_ms", 10_000, works: true,
            "From how many milliseconds on a transaction is logged."),
        .count(
            "transaction_trace_interval_ms", 5_000, works: true,
            "How often a long transaction is logged, in milliseconds."),
        .count(
            "write_txn_trace_interval_ms", 10_000,
            "How often waiting for the write lock is logged, in milliseconds."),
    ]
}
