import CRDT

/// The parameters of synchronization and of the layers below it. Mimeo only stores and shows most of them.
extension ParameterTable {
    static let synchronization: [ParameterDefinition] = [
        ParameterDefinition(
            "user_collection_sync_scopes", .syncScopes, .object(ObjectValue()), works: true,
            "The peers that receive the documents of a collection. Each SET replaces the whole map; "
                + "collections that it does not name are sent to all peers. A change takes effect at once; "
                + "it is to be set anew at each start."),
        .count("doc_sync_initial_update_diff_limit", 500, "Documents in the first update of a session."),
        .count("doc_sync_resync_on_reconnect_mins", 360, "Minutes apart before a session starts again."),
        ParameterDefinition(
            "doc_sync_redundancy_backoff_threshold", .number(0...1), 0.6,
            "The share of known updates from which a peer sends more slowly."),
        .count("doc_sync_redundancy_backoff_delay_ms", 1_000, "How much more slowly, in milliseconds."),
        .count("doc_sync_session_activation_timeout_secs", 120, "How long a session may take to begin."),
        .count("replication_session_request_timeout_secs", 120, "How long a session waits for an answer."),
        .flag("replication_throttle_outbound_updates", false, "Sends updates at a lower rate."),
        .count(
            "replication_throttled_outbound_updates_delay_ms", 250, "The time between such updates (ms)."),
        .count("replication_gc_ttl_secs", 604_800, "How long sessions are remembered, in seconds."),
        .count("replication_gc_base_interval_secs", 2_700, "How often old sessions are sought, in seconds."),
        .count("doc_id_filter_max_capacity", 1_000_000, in: 1...Int64.max, "The ids in a filter of ids."),
        ParameterDefinition(
            "doc_id_filter_error_rate", .number(0...1), 0.01,
            "The share of ids that a filter may get wrong."),
        .flag("enable_doc_sync_protocol_trace", false, "Logs the messages of sync."),
    ]

    static let remoteQueries: [ParameterDefinition] = [
        .flag("enable_remote_query", true, "Allows a server to query this peer."),
        .count("remote_query_request_timeout_secs", 90, "How long such a query may take, in seconds."),
        .count("remote_query_response_size_limit_bytes", 10_485_760, "How long its answer may be, in bytes."),
        .count("max_open_remote_query_requests", 1_000, "How many such queries may wait."),
    ]

    static let attachments: [ParameterDefinition] = [
        .flag(
            "attachments_auto_fetch", false, works: true,
            "Fetches attachments as soon as documents name them."),
        .count(
            "attachments_gc_interval_secs", 600, in: 1...Int64.max, works: true,
            "Seconds between blob removals."),
        .count("attachments_availability_filter_enabled", 1, in: 0...1, "1 lets peers announce blobs."),
        .count("attachments_peer_max_concurrent_outbound", 20, "How many a peer sends at the same time."),
        .count("attachments_peer_max_outbound_attachment_readahead", 65_536, "Bytes read before sending."),
        .count("attachments_peer_inflight_timeout_ms", 6_000, "How long a part may be in flight."),
        .count("attachments_peer_inbound_buffer_flush_timeout_ms", 250, "How long parts are collected."),
        .count("attachments_peer_max_backoff_duration_ms", 30_000, "The longest time before a retry."),
        .count("attachments_peer_inbound_error_backoff_ms", 10_000, "The wait after an error."),
        .count("attachments_peer_inbound_incomplete_backoff_ms", 500, "The wait after an incomplete part."),
        .flag("enable_attachment_permission_checks", false, "Requires a grant to read for a fetch."),
    ]

    static let mesh: [ParameterDefinition] = [
        .count(
            "mesh_chooser_max_wlan_clients", 4, in: 0...32, works: true,
            "Connections that this peer makes with peers that it found on a network."),
        .count("mesh_chooser_max_active_ble_clients", 2, "Connections over Bluetooth."),
        .count(
            "mesh_chooser_churn_interval_ms", 120_000, in: 100...86_400_000, works: true,
            "How often a better choice of connections is looked for, in milliseconds."),
        .count(
            "mesh_chooser_churn_min_peer_age_ms", 60_000, in: 0...86_400_000, works: true,
            "The least age of a replaced connection, in milliseconds."),
        .count(
            "mesh_chooser_connection_retry_cooldown_ms", 5_000, in: 100...86_400_000, works: true,
            "The time before a found address that failed is tried again, in milliseconds; it doubles."),
        .count(
            "mesh_chooser_peer_block_time_ms", 1_800_000, in: 100...86_400_000, works: true,
            "How long a found address of another authority or database is left alone, in milliseconds."),
        .flag("mesh_chooser_avoid_redundant_bluetooth", false, "Lets a network replace Bluetooth."),
        .count(
            "virt_conn_idle_timeout_ms", 60_000, in: 100...86_400_000, works: true,
            "How long a connection to a server may be silent before it is given up, in milliseconds."),
        .count(
            "virt_conn_check_interval_ms", 15_000, in: 100...86_400_000, works: true,
            "How often a server is pinged, in milliseconds; applies to connections made later."),
        .count("established_physical_connection_setup_timeout", 60, "How long setting one up may take (s)."),
    ]

    static let presence: [ParameterDefinition] = [
        .flag("presence_use_multihop", true, works: true, "Lets peers announce peers they see."),
        .count(
            "presence_debounce_interval", 500, works: true, "How long changes are collected, in milliseconds."
        ),
        .count(
            "presence_keep_alive_interval", 30, works: true, "How often a peer is announced, in seconds."),
        .count("presence_multihop_update_ttl", 60, works: true, "How long such news is valid, in seconds."),
        .count("presence_query_recreation_interval", 3_600, "How often the query is repeated, in seconds."),
    ]

    static let transports: [ParameterDefinition] = [
        ParameterDefinition(
            "transports_discovered_peers", .peerAddresses, .array([]), works: true,
            "Peers to connect with, beside those of the transport configuration. Of type candidate: like one "
                + "that was found on a network; else always."),
        .count(
            "tcp_server_bind_mdns_server_port", 0, in: 0...65_535, works: true,
            "The TCP port at which peers of a network connect; 0 is any free one."),
        .count(
            "multicast_discovery_port", 5_000, in: 1...65_535, works: true,
            "The UDP port of multicast discovery."),
        .count(
            "multicast_discovery_interval_secs", 3_000, in: 100...3_600_000, works: true,
            "How often multicast discovery announces this peer, in milliseconds."),
        .flag(
            "transports_dns_sd_browse_enabled", true, works: true,
            "Looks for peers of a network by DNS-SD, where avahi runs."),
        .flag(
            "transports_dns_sd_registration_enabled", true, works: true,
            "Announces this peer on its networks by DNS-SD, where avahi runs."),
        .flag(
            "transports_tcp_so_nodelay", true, works: true,
            "Sends small packets at once, on connections of peers made later."),
        .count("transports_udp_port", 4_040, in: 0...65_535, "The port for datagrams."),
        .flag("udp_server_enabled", true, "Accepts datagrams."),
        .count("transport_tcp_client_forced_connection_min_delay", 1_000, "The first retry delay (ms)."),
        .count("transport_tcp_client_forced_connection_max_delay", 30_000, "The longest retry delay (ms)."),
        .count("transports_connection_failure_threshold", 3, "Failures before a transport is left alone."),
        .count(
            "transports_connection_failure_window_secs", 60, in: 1...86_400, works: true,
            "Seconds without success after which connecting with peers counts as failed."),
        .flag("transports_websocket_include_jwt_in_header", false, "Sends the token in a header."),
        ParameterDefinition(
            "additional_p2p_trusted_ca_certs", .strings, .array([]), works: true,
            "Certificates (PEM) of authorities whose peers are accepted too."),
    ]

    static let peerInformation: [ParameterDefinition] = [
        .flag("small_peer_info_is_enabled", true, works: true, "Publishes facts about this peer."),
        .count("small_peer_info_publish_interval_secs", 300, works: true, "How often, in seconds."),
        .count(
            "small_peer_info_local_subscriptions_limit", 16, works: true, "How many subscriptions it names."),
        .count("small_peer_info_collection_stats_limit", 32, works: true, "How many collections it counts."),
        .flag("device_disk_observer_is_enabled", true, "Watches free disk space."),
        .count("disk_usage_monitor_interval", 0, "How often, in seconds; 0 means as needed."),
    ]

    static let logs: [ParameterDefinition] = [
        .count("rotating_log_file_max_size_mb", 1, in: 1...10, "The size of a log file, in MiB."),
        .count("rotating_log_file_max_age_h", 24, in: 1...Int64.max, "The age of a log file, in hours."),
        .count("rotating_log_file_max_files_on_disk", 15, in: 3...30, "How many files are kept."),
        .flag("metrics_exporter_virtual_collection_enabled", false, "Fills system:metrics."),
        .flag("metrics_exporter_prometheus_enabled", false, "Lets Prometheus read the metrics."),
        .text("metrics_exporter_prometheus_http_listener_addr", "0.0.0.0:9000", "Where Prometheus reads."),
        ParameterDefinition(
            "metrics_exporter_prometheus_mode", .choice(["http-listener", "handle"]), "http-listener",
            "The way Prometheus reads metrics."),
        .flag("metrics_exporter_onfile_enabled", false, "Writes metrics to a file."),
    ]

    static let storage: [ParameterDefinition] = [
        .count("sqlite3_max_connections", 60, in: 1...Int64.max, "How many connections a store opens."),
        .count("sqlite3_busy_timeout_secs", 60, "How long a connection waits, in seconds."),
        .count(
            "sqlite3_begin_txn_timeout_secs", 60, in: 0...86_400, works: true,
            "How long a transaction waits for those before it, in seconds; 0 means forever."),
        .count("filelock_retry_maximum", 5, "How often a locked directory is tried again."),
        .count("filelock_retry_delay", 200, "The time between retries, in milliseconds."),
        .flag("filelock_developer_mode", false, "Ignores the lock of a crashed process."),
        .count("encrypted_blob_store_default_block_size", 4_064, in: 1...Int64.max, "Bytes of a block."),
    ]
}
