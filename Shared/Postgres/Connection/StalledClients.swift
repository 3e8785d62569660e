import OperationLog

// Clients that were stopped without disconnecting: a suspended machine, a process that received SIGSTOP.
// The server keeps their locks for as long as the network considers them connected.

extension Connection {
    /// Selects the clients to end.
    struct StalledClients {
        /// A condition on `pg_stat_activity a`, with the parameters `$1` and so on.
        let condition: String
        let parameters: [Parameter]
        /// How long they have been idle.
        let idle: Duration
        /// True to include clients that are idle between two transactions.
        let includesIdle: Bool
    }

    /// Ends connections whose clients were stopped: the server waits for them to send or to receive. Looks
    /// twice, a second apart: after a long statement the server's times are outdated for a moment although
    /// the client continues.
    /// - Returns: whether any were found.
    func end(_ clients: StalledClients) throws(PostgresError) -> Bool {
        let isIdle = clients.includesIdle ? "a.state = 'idle' OR" : ""
        let found = """
            FROM pg_stat_activity a
            WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND (\(clients.condition))
                AND (\(isIdle) a.wait_event IN ('ClientRead', 'ClientWrite'))
                AND greatest(a.state_change, a.query_start)
                    < clock_timestamp() - interval '\(clients.idle.wholeMicroseconds) microseconds'
            """
        let first = try query("SELECT a.pid::int8 \(found)", clients.parameters)
        guard first.count > 0 else { return false }
        try run("SELECT pg_sleep(1)")
        let known = (0..<first.count).map { first.int8($0, 0) }
        let place = clients.parameters.count + 1
        let ended = try query(
            "SELECT pg_terminate_backend(a.pid, 1000) \(found) AND a.pid = ANY ($\(place)::int8[])",
            clients.parameters + [.int8Array(known)])
        return ended.count > 0
    }

    /// Ends our connections that have written and have been idle inside a transaction for `timeout`, because
    /// others wait for their locks.
    /// - Returns: whether any were found.
    func endStalledWriters(after timeout: Duration) throws(PostgresError) -> Bool {
        try end(
            StalledClients(
                condition: """
                    a.usename = current_user AND a.application_name = current_setting('application_name')
                        AND a.backend_xid IS NOT NULL
                    """, parameters: [], idle: timeout, includesIdle: false))
    }
}
