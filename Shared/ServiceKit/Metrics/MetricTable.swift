/// A metric that our processes serve: a row of `Docs/metrics.md`, which is made from this table.
///
/// Names follow Prometheus' rules: `mimeo_`, base units, `_total` for counters. No label has values without a
/// bound: never a user, a peer, a document or a statement. `database` has a value of its own for the first
/// `Limits.watchedDatabases` databases; the greatest of all others is `other`.
public struct MetricRow: Sendable {
    /// The kinds, in Prometheus' words.
    public enum Kind: String, Sendable {
        case counter
        case gauge
        case histogram
    }

    /// The name.
    public let name: String
    /// The kind.
    public let kind: Kind
    /// The labels' names.
    public let labels: [String]
    /// One sentence.
    public let help: String
    /// Parts that serve it; empty for every process.
    public let services: [String]

    init(
        _ name: String, _ kind: Kind, _ labels: [String], of services: [String] = [], _ help: String
    ) {
        (self.name, self.kind, self.labels) = (name, kind, labels)
        (self.help, self.services) = (help, services)
    }

    private init(_ name: String, _ kind: Kind, of services: [String] = [], _ help: String) {
        self.init(name, kind, [], of: services, help)
    }

    /// All metrics, by subject.
    public static let all: [MetricRow] =
        process + http + log + folds + sync + queries + logins + attachments + backups + canary + former

    /// The row of a name.
    static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

    private static let process: [MetricRow] = [
        MetricRow(
            "mimeo_build_info", .gauge, ["version", "commit", "swift"], "Is 1; the labels name the program."),
        MetricRow("mimeo_ready", .gauge, "Is 1 while the process is ready, as `/health/ready` says."),
        MetricRow(
            "mimeo_tls_certificate_expiry_timestamp_seconds", .gauge,
            "The end of the listener's certificate, in seconds since 1970; missing without TLS."),
        MetricRow("process_resident_memory_bytes", .gauge, "Memory of the process that is not on disk."),
        MetricRow(
            "mimeo_budget_held_bytes", .gauge, ["kind"],
            "Memory, or room on disk, that clients hold: bodies, rows, answers that wait."),
        MetricRow("mimeo_budget_bytes", .gauge, ["kind"], "How much of it they may hold."),
        MetricRow(
            "mimeo_budget_refused_total", .counter, ["kind"], "Requests that would have held more."),
        MetricRow(
            "mimeo_limit_used", .gauge, ["database", "of", "limit"],
            "Use of a limit of a database, or of the user nearest to it, in this process."),
        MetricRow("mimeo_limit_most", .gauge, ["database", "of", "limit"], "That limit."),
        MetricRow(
            "mimeo_limit_refused_total", .counter, ["of", "limit"],
            "Requests and sessions that a limit refused."),
        MetricRow("process_cpu_seconds_total", .counter, "Processor time of the process."),
        MetricRow("process_open_fds", .gauge, "Open files and sockets of the process."),
        MetricRow("process_max_fds", .gauge, "The limit of open files and sockets."),
        MetricRow("process_start_time_seconds", .gauge, "The start of the process, in seconds since 1970."),
        MetricRow("mimeo_disk_free_bytes", .gauge, ["volume"], "Room on the disk of a folder."),
        MetricRow("mimeo_disk_size_bytes", .gauge, ["volume"], "Size of the disk of a folder."),
        MetricRow(
            "mimeo_disk_nearly_full", .gauge, "Is 1 while only the reserve is left: writes are refused."),
        MetricRow(
            "mimeo_storage_copies_damaged_total", .counter,
            "Damages of copies of the log's documents, which are rebuilt."),
    ]

    private static let backups: [MetricRow] = [
        MetricRow(
            "mimeo_backup_last_success_timestamp_seconds", .gauge, ["kind"],
            "The beginning of the newest backup, in seconds since 1970; missing before the first."),
        MetricRow("mimeo_backup_last_duration_seconds", .gauge, ["kind"], "The time that it took."),
        MetricRow("mimeo_backup_last_size_bytes", .gauge, ["kind"], "The size of its files of the log."),
        MetricRow(
            "mimeo_backup_last_verified_timestamp_seconds", .gauge,
            "The last check that found everything right, in seconds since 1970."),
        MetricRow(
            "mimeo_backup_last_failure_timestamp_seconds", .gauge,
            "The last backup or check that failed, in seconds since 1970."),
    ]

    private static let canary: [MetricRow] = [
        MetricRow(
            "mimeo_canary_seconds", .gauge, of: ["canary"],
            "Time of a peer's write to the server and back: the last round, or the longer one that runs."
        ),
        MetricRow(
            "mimeo_canary_failures_total", .counter, ["stage"], of: ["canary"],
            "Rounds that took too long or failed; `stage` is `login`, `sync`, `write` or `echo`."),
    ]

    private static let http: [MetricRow] = [
        MetricRow(
            "mimeo_http_requests_total", .counter, ["service", "route", "method", "status"],
            "Answered requests; `status` is a class such as `2xx`."),
        MetricRow(
            "mimeo_http_request_duration_seconds", .histogram, ["service", "route", "method"],
            "Time until the head of the answer."),
        MetricRow("mimeo_http_streams", .gauge, of: ["query-service"], "Open streams of rows and changes."),
        MetricRow("mimeo_websocket_connections", .gauge, "Open WebSockets."),
        MetricRow(
            "mimeo_trace_spans_total", .counter, ["outcome"],
            "Spans of `--traces`; `outcome` is `sent`, `refused` by the collector, or `dropped` without one."
        ),
    ]

    private static let log: [MetricRow] = [
        MetricRow(
            "mimeo_log_contact_age_seconds", .gauge,
            "Time since the log last answered; small while it does."),
        MetricRow("mimeo_log_head_offset", .gauge, ["database"], "The last operation."),
        MetricRow(
            "mimeo_log_oldest_offset", .gauge, ["database"], "The offset up to which the log is truncated."),
        MetricRow("mimeo_log_snapshot_offset", .gauge, ["database"], "The offset of the snapshot."),
        MetricRow(
            "mimeo_log_size_bytes", .gauge,
            "Size of the log's file, or of the PostgreSQL database that has the log."),
        MetricRow(
            "mimeo_postgres_timeline", .gauge,
            "The timeline of the log's PostgreSQL, which grows with each fail-over."),
        MetricRow(
            "mimeo_postgres_wal_bytes", .gauge,
            "Size of PostgreSQL's write-ahead log; missing without the role pg_monitor."),
        MetricRow(
            "mimeo_postgres_standbys", .gauge,
            "Standbys that follow PostgreSQL; missing without the role pg_monitor."),
        MetricRow(
            "mimeo_postgres_standby_lag_bytes", .gauge,
            "What the slowest standby has not replayed; missing without the role pg_monitor."),
        MetricRow(
            "mimeo_log_append_age_seconds", .gauge,
            "Age of the oldest change that waits for its commit; 0 while none does."),
        MetricRow(
            "mimeo_log_refusing", .gauge,
            "1 while the log refuses appends: a commit failed, one waits for long, or its storage is full."
        ),
        MetricRow(
            "mimeo_log_recoveries_total", .counter,
            "Recoveries of the SQLite log from a failed commit."),
        MetricRow("mimeo_log_queued_operations", .gauge, "Operations that wait for their commit."),
        MetricRow("mimeo_log_queued_bytes", .gauge, "Their bytes."),
        MetricRow("mimeo_log_waiting_appends", .gauge, "Appends that wait for room in that queue."),
        MetricRow(
            "mimeo_log_append_duration_seconds", .histogram, "Time of an append, with its sync to disk."),
        MetricRow("mimeo_log_group_operations", .histogram, "Operations of one append."),
        MetricRow("mimeo_log_errors_total", .counter, ["code"], "Calls of the log that failed."),
        MetricRow("mimeo_log_damage_met_total", .counter, "Reads that found the log damaged."),
    ]

    private static let folds: [MetricRow] = [
        MetricRow(
            "mimeo_fold_lag_operations", .gauge, ["database"], of: ["replicator"],
            "Operations that the replicator has not folded yet."),
        MetricRow(
            "mimeo_fold_lag_seconds", .gauge, ["database"], of: ["replicator"],
            "Age of the oldest of them; 0 if there is none."),
        MetricRow(
            "mimeo_projection_lag_operations", .gauge, ["database"], of: ["query-service"],
            "Operations that the projection lacks."),
        MetricRow(
            "mimeo_projection_lag_seconds", .gauge, ["database"], of: ["query-service"],
            "Age of the oldest of them; 0 if there is none."),
    ]

    private static let sync: [MetricRow] = [
        MetricRow(
            "mimeo_sync_sessions", .gauge, ["state"], of: ["replicator"],
            "Open sessions; `state` is `catching_up` or `live`."),
        MetricRow("mimeo_sync_session_starts_total", .counter, of: ["replicator"], "Sessions that began."),
        MetricRow(
            "mimeo_sync_session_ends_total", .counter, ["reason"], of: ["replicator"],
            "Sessions that ended; `reason` is a code, or `closed`."),
        MetricRow(
            "mimeo_sync_queue_bytes", .gauge, of: ["replicator"], "Frames that wait for slow peers."),
        MetricRow(
            "mimeo_sync_lag_operations", .gauge, ["database"], of: ["replicator"],
            "Operations that the slowest session has not taken."),
        MetricRow(
            "mimeo_sync_lag_seconds", .gauge, ["database"], of: ["replicator"],
            "Age of the oldest of them; 0 if there is none."),
        MetricRow(
            "mimeo_sync_refused_writes_total", .counter, ["code"], of: ["replicator"],
            "Operations of peers that were refused."),
    ]

    private static let queries: [MetricRow] = [
        MetricRow(
            "mimeo_query_duration_seconds", .histogram, ["kind"], of: ["query-service"],
            "Time of a statement; `kind` is its first word, or `error`."),
        MetricRow("mimeo_query_rows_total", .counter, of: ["query-service"], "Rows of the answers."),
        MetricRow(
            "mimeo_query_slow_total", .counter, of: ["query-service"], "Statements that took half a second."),
        MetricRow(
            "mimeo_webhook_deliveries_total", .counter, ["result"], of: ["query-service"],
            "Calls of webhooks for changes; `result` is `ok` or `failed`."),
    ]

    private static let logins: [MetricRow] = [
        MetricRow(
            "mimeo_auth_logins_total", .counter, ["result"], of: ["auth-gateway"],
            "Logins; `result` is `ok`, `refused` or `failed`."),
        MetricRow(
            "mimeo_admin_requests_total", .counter, ["role", "result"],
            "Admin requests; `role` is that of the credential, or `none`."),
    ]

    private static let attachments: [MetricRow] = [
        MetricRow(
            "mimeo_attachment_bytes_total", .counter, ["direction"], of: ["attachment-store"],
            "Bytes of attachments; `direction` is `in` or `out`."),
        MetricRow(
            "mimeo_attachments_damaged_total", .counter, of: ["attachment-store"],
            "Attachments that were damaged and set aside."),
        MetricRow(
            "mimeo_attachments_collected_total", .counter, of: ["attachment-store"],
            "Attachments that were removed because no document mentions them."),
        MetricRow(
            "mimeo_attachment_bucket_requests_total", .counter, ["method", "outcome"],
            of: ["attachment-store"],
            "Requests to the bucket of attachments; `outcome` is `answered`, `refused` or `failed`."),
    ]

    /// Names of earlier versions, served for one more release.
    private static let former: [MetricRow] = [
        MetricRow(
            "http_requests_total", .counter, ["method", "route", "status"],
            "Former name of `mimeo_http_requests_total`, with the whole status."),
        MetricRow(
            "http_request_duration_seconds", .histogram, ["method", "route"],
            "Former name of `mimeo_http_request_duration_seconds`."),
        MetricRow("websocket_connections", .gauge, "Former name of `mimeo_websocket_connections`."),
        MetricRow("disk_free_bytes", .gauge, ["folder"], "Former name of `mimeo_disk_free_bytes`."),
        MetricRow("disk_size_bytes", .gauge, ["folder"], "Former name of `mimeo_disk_size_bytes`."),
        MetricRow("disk_nearly_full", .gauge, "Former name of `mimeo_disk_nearly_full`."),
        MetricRow(
            "storage_copies_damaged_total", .counter, "Former name of `mimeo_storage_copies_damaged_total`."),
        MetricRow("log_damage_met_total", .counter, "Former name of `mimeo_log_damage_met_total`."),
        MetricRow(
            "attachments_damaged_total", .counter, of: ["attachment-store"],
            "Former name of `mimeo_attachments_damaged_total`."),
    ]
}
