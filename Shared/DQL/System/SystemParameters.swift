import CRDT

/// The system parameters of one store, as a value: its owner keeps it, guards it and passes it to executions
/// of statements.
///
/// Values last until the owner drops this value (when the store closes); the owner stores those set with
/// PERSIST and returns them through `restore`. A value comes, in this order, from SET, from `restore`, from
/// the environment, from the table. DEFAULT and RESET return to the environment's value.
public struct SystemParameters: Sendable {
    /// Values from the environment, by the parameter's name.
    private var initial: [String: Value] = [:]
    /// Values that were set or restored.
    private var current: [String: Value] = [:]

    /// The defaults.
    public init() {}

    /// The defaults, overridden by `DITTO_<NAME>` variables. Variables that name no parameter are ignored.
    /// Throws `invalidArgument` with the name of a variable whose value the parameter cannot have.
    public init(environment: [String: String]) throws(DQLError) {
        for (variable, text) in environment.sorted(by: { $0.key < $1.key }) {
            guard variable.hasPrefix(Self.environmentPrefix),
                let parameter = ParameterTable.lookup(
                    String(variable.dropFirst(Self.environmentPrefix.count)))
            else { continue }
            guard let value = parameter.type.parsed(text) else {
                throw DQLError(
                    .invalidArgument,
                    "the environment variable \(variable) has to be \(parameter.type.description)",
                    token: text)
            }
            initial[parameter.name] = value
        }
    }

    /// The prefix of environment variables.
    public static let environmentPrefix = "DITTO_"

    /// The value of a parameter, in any case; nil for an unknown name.
    public subscript(name: String) -> Value? {
        guard let parameter = ParameterTable.lookup(name) else { return nil }
        return current[parameter.name] ?? initial[parameter.name] ?? parameter.defaultValue
    }

    /// Sets a parameter, or with nil returns it to its default. Returns the name and the new value. Throws
    /// `unknownParameter` and `invalidArgument`.
    @discardableResult
    public mutating func set(_ name: String, to value: Value?) throws(DQLError) -> ObjectValue.Entry {
        let parameter = try Self.parameter(name)
        if let value {
            guard let accepted = parameter.type.accepted(value) else {
                throw DQLError(
                    .invalidArgument,
                    "\(parameter.name) takes \(parameter.type.description), not \(Self.quoted(value))")
            }
            current[parameter.name] = accepted
        } else {
            current[parameter.name] = nil
        }
        return (key: parameter.name, value: self[parameter.name] ?? .null)
    }

    /// Restores persisted values. Unknown parameters and values of a wrong type are left out, so that a
    /// store written by another version still opens; returns their names.
    public mutating func restore(_ values: ObjectValue) -> [String] {
        values.entries.compactMap { entry in (try? set(entry.key, to: entry.value)) == nil ? entry.key : nil }
    }

    /// Resets all parameters.
    public mutating func resetAll() { current = [:] }

    /// All parameters that match a pattern, in the order of their names. Names ignore case: LIKE is tried on
    /// a name in lower and in upper case.
    func all(like pattern: LikePattern?) -> ObjectValue {
        let shown = ParameterTable.all.filter { parameter in
            pattern.map { $0.matches(parameter.name) || $0.matches(parameter.name.uppercased()) } ?? true
        }
        return ObjectValue(
            shown.sorted { $0.name < $1.name }.map { (key: $0.name, value: self[$0.name] ?? .null) })
    }

    static func parameter(_ name: String) throws(DQLError) -> ParameterDefinition {
        guard let parameter = ParameterTable.lookup(name) else {
            throw DQLError(
                .unknownParameter, "unknown parameter '\(name)'", token: name,
                suggestion: Suggestion.closest(to: name, among: ParameterTable.all.map(\.name)))
        }
        return parameter
    }

    private static func quoted(_ value: Value) -> String {
        switch value {
        case .array, .object, .binary: value.typeName
        default: JSONText.print(value)
        }
    }
}

/// Parameters that modules of Mimeo read.
extension SystemParameters {
    /// `dql_strict_mode`.
    public var strictMode: Bool { flag("dql_strict_mode") }
    /// `dql_restrict_subscriptions`.
    public var restrictsSubscriptions: Bool { flag("dql_restrict_subscriptions") }
    /// `dql_request_timeout_seconds`; nil means no limit.
    public var requestTimeout: Duration? {
        let seconds = number("dql_request_timeout_seconds")
        return seconds > 0 ? .seconds(seconds) : nil
    }
    /// `dql_statement_cache_size`.
    public var statementCacheSize: Int { Int(number("dql_statement_cache_size")) }
    /// `document_size_soft_limit_bytes`.
    public var documentSoftLimitBytes: Int { Int(number("document_size_soft_limit_bytes")) }
    /// `document_size_hard_limit_bytes`.
    public var documentHardLimitBytes: Int { Int(number("document_size_hard_limit_bytes")) }
    /// `sqlite3_begin_txn_timeout_secs`; zero means no limit.
    public var transactionBeginTimeout: Duration { .seconds(number("sqlite3_begin_txn_timeout_secs")) }
    /// `transaction_duration_before_logging_ms`.
    public var transactionLogDelay: Duration {
        .milliseconds(number("transaction_duration_before_logging_ms"))
    }
    /// `transaction_trace_interval_ms`; zero means once.
    public var transactionLogInterval: Duration { .milliseconds(number("transaction_trace_interval_ms")) }
    /// `live_query_system_collection_refresh_interval`.
    public var systemRefreshInterval: Duration {
        .milliseconds(number("live_query_system_collection_refresh_interval"))
    }

    /// `store_observers_num_threads`; 0 means one per core.
    public var observerThreads: Int { Int(clamping: number("store_observers_num_threads")) }
    /// `live_query_duplicate_warning_threshold`.
    public var duplicateObserversWarning: Int {
        Int(clamping: number("live_query_duplicate_warning_threshold"))
    }
    /// `live_query_total_warning_threshold`.
    public var totalObserversWarning: Int { Int(clamping: number("live_query_total_warning_threshold")) }
    /// `disk_usage_monitor_interval`; nil means as needed.
    public var diskUsageInterval: Duration? {
        let seconds = number("disk_usage_monitor_interval")
        return seconds > 0 ? .seconds(seconds) : nil
    }
    /// `rotating_log_file_max_size_mb`, in bytes.
    public var logFileBytes: Int { Int(clamping: number("rotating_log_file_max_size_mb")) * 1_048_576 }
    /// `rotating_log_file_max_age_h`.
    public var logFileAge: Duration {
        .seconds(min(number("rotating_log_file_max_age_h"), 1_000_000) * 3_600)
    }
    /// `rotating_log_file_max_files_on_disk`.
    public var logFiles: Int { Int(clamping: number("rotating_log_file_max_files_on_disk")) }
    /// `virt_conn_check_interval_ms`.
    public var connectionCheckInterval: Duration { .milliseconds(number("virt_conn_check_interval_ms")) }
    /// `virt_conn_idle_timeout_ms`.
    public var connectionIdleTimeout: Duration { .milliseconds(number("virt_conn_idle_timeout_ms")) }
    /// `presence_debounce_interval`.
    public var presenceDebounce: Duration { .milliseconds(number("presence_debounce_interval")) }
    /// `presence_use_multihop`.
    public var announcesOthers: Bool { flag("presence_use_multihop") }
    /// `presence_keep_alive_interval`, one second at least.
    public var presenceKeepAlive: Duration {
        .seconds(min(max(number("presence_keep_alive_interval"), 1), 86_400))
    }
    /// `presence_multihop_update_ttl`. Twice the keep-alive at least: otherwise peers would come and go.
    public var presenceLife: Duration {
        max(.seconds(min(number("presence_multihop_update_ttl"), 172_800)), presenceKeepAlive * 2)
    }

    /// `small_peer_info_publish_interval_secs`; zero means never without a request.
    public var smallPeerInfoInterval: Duration {
        .seconds(min(number("small_peer_info_publish_interval_secs"), 86_400))
    }

    /// `small_peer_info_local_subscriptions_limit`.
    public var smallPeerInfoSubscriptions: Int {
        Int(clamping: number("small_peer_info_local_subscriptions_limit"))
    }

    /// `small_peer_info_collection_stats_limit`.
    public var smallPeerInfoCollections: Int {
        Int(clamping: number("small_peer_info_collection_stats_limit"))
    }

    /// `small_peer_info_is_enabled`.
    public var smallPeerInfoIsEnabled: Bool { flag("small_peer_info_is_enabled") }

    /// `user_collection_sync_scopes`: the collections that it names.
    public var syncScopes: [(collection: CollectionName, scope: SyncScope)] {
        (self["user_collection_sync_scopes"]?.objectValue?.entries ?? []).compactMap { entry in
            entry.value.stringValue.flatMap(SyncScope.init(rawValue:)).map {
                (collection: CollectionName(entry.key), scope: $0)
            }
        }
    }

    /// The collections that are never sent to a server.
    public var withheldFromServers: [CollectionName] {
        syncScopes.filter { [.smallPeersOnly, .localPeerOnly].contains($0.scope) }.map(\.collection)
    }

    /// The collections that are never served to a small peer.
    public var withheldFromPeers: [CollectionName] {
        syncScopes.filter { [.bigPeerOnly, .localPeerOnly].contains($0.scope) }.map(\.collection)
    }

    /// `transports_discovered_peers`: the addresses to connect with always, `tcp://host:port` or `ws://` and
    /// `wss://` URLs.
    public var peerAddresses: [String] { peers(areCandidates: false) }
    /// `transports_discovered_peers`: the addresses to choose from, of type `candidate`.
    public var peerCandidates: [String] { peers(areCandidates: true) }

    private func peers(areCandidates: Bool) -> [String] {
        (self["transports_discovered_peers"]?.arrayValue ?? []).compactMap { entry in
            guard (entry["type"]?.stringValue == "candidate") == areCandidates else { return nil }
            return entry.stringValue ?? entry["address"]?.stringValue
        }
    }

    /// `mesh_chooser_max_wlan_clients`.
    public var chosenLinks: Int { Int(number("mesh_chooser_max_wlan_clients")) }
    /// `mesh_chooser_churn_interval_ms`.
    public var churnInterval: Duration { .milliseconds(number("mesh_chooser_churn_interval_ms")) }
    /// `mesh_chooser_churn_min_peer_age_ms`.
    public var churnAge: Duration { .milliseconds(number("mesh_chooser_churn_min_peer_age_ms")) }
    /// `mesh_chooser_connection_retry_cooldown_ms`.
    public var chooserCooldown: Duration {
        .milliseconds(number("mesh_chooser_connection_retry_cooldown_ms"))
    }
    /// `mesh_chooser_peer_block_time_ms`.
    public var peerBlockTime: Duration { .milliseconds(number("mesh_chooser_peer_block_time_ms")) }
    /// `tcp_server_bind_mdns_server_port`.
    public var networkPort: Int { Int(number("tcp_server_bind_mdns_server_port")) }
    /// `multicast_discovery_port`.
    public var multicastPort: Int { Int(number("multicast_discovery_port")) }
    /// `multicast_discovery_interval_secs`, which is in milliseconds.
    public var multicastInterval: Duration { .milliseconds(number("multicast_discovery_interval_secs")) }
    /// `transports_dns_sd_browse_enabled`.
    public var looksForServices: Bool { flag("transports_dns_sd_browse_enabled") }
    /// `transports_dns_sd_registration_enabled`.
    public var announcesService: Bool { flag("transports_dns_sd_registration_enabled") }
    /// `transports_tcp_so_nodelay`.
    public var sendsSmallPacketsAtOnce: Bool { flag("transports_tcp_so_nodelay") }
    /// `transports_connection_failure_window_secs`.
    public var connectionFailureWindow: Duration {
        .seconds(number("transports_connection_failure_window_secs"))
    }
    /// `additional_p2p_trusted_ca_certs`, in PEM.
    public var trustedAuthorities: [String] {
        (self["additional_p2p_trusted_ca_certs"]?.arrayValue ?? []).compactMap(\.stringValue)
    }

    /// `dql_request_history_size`.
    public var requestHistorySize: Int { Int(number("dql_request_history_size")) }
    /// `dql_slow_request_warn_seconds`; nil means never.
    public var slowRequest: Duration? {
        let seconds = number("dql_slow_request_warn_seconds")
        return seconds > 0 ? .seconds(seconds) : nil
    }
    /// `dql_concurrent_request_limit`; 0 means no limit.
    public var concurrentRequests: Int { Int(number("dql_concurrent_request_limit")) }
    /// `dql_concurrent_request_wait_timeout_ms`.
    public var concurrentRequestWait: Duration {
        .milliseconds(number("dql_concurrent_request_wait_timeout_ms"))
    }
    /// `dql_index_default_include_missing`.
    public var indexesIncludeMissing: Bool { flag("dql_index_default_include_missing") }
    /// `dql_default_directives`.
    var defaultDirectives: ObjectValue {
        guard hasDefaultDirectives else { return ObjectValue() }
        return self["dql_default_directives"]?.objectValue ?? ObjectValue()
    }
    /// False if certainly nobody set them. Read for every plan, so it avoids searching the table for a
    /// parameter that hardly anybody sets.
    var hasDefaultDirectives: Bool {
        (!current.isEmpty && current["dql_default_directives"] != nil)
            || (!initial.isEmpty && initial["dql_default_directives"] != nil)
    }

    /// True if reading is strict too.
    var strictReads: Bool { strictMode && flag("dql_select_strict_mode") }

    /// True if an undeclared object is written as one unit.
    var objectsAreRegisters: Bool {
        guard strictMode, !flag("dql_select_strict_mode") else { return strictMode }
        return self["dql_object_default"]?.stringValue == "REGISTER"
    }

    private func flag(_ name: String) -> Bool { self[name]?.boolValue ?? false }
    private func number(_ name: String) -> Int64 { self[name]?.intValue ?? 0 }
}
