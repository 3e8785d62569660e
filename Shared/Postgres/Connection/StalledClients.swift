import OperationLog

// Clients that were stopped without going away: a suspended machine, a process that was sent SIGSTOP. The
// server keeps their locks for as long as the network says that they are there.

extension Connection {
    /// Which clients are meant.
    struct StalledClients {
        /// A condition on `pg_stat_activity a`, with the parameters `$1` and so on.
        let condition: String
        let parameters: [Parameter]
        /// How long they have done nothing, in whole seconds.
        let seconds: Int
        /// Whether one counts that waits between two transactions.
        let includesIdle: Bool
    }

    /// Ends connections whose clients were stopped: the server waits for them to send, or to take what it
    /// sends. Looks twice, a second apart: behind a long statement the server's times are old for a moment
    /// although the client goes on.
    /// - Returns: whether there were any.
    func end(_ clients: StalledClients) throws(PostgresError) -> Bool {
        let idle = clients.includesIdle ? "a.state = 'idle' OR" : ""
        let found = """
            FROM pg_stat_activity a
            WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND (\(clients.condition))
                AND (\(idle) a.wait_event IN ('ClientRead', 'ClientWrite'))
                AND greatest(a.state_change, a.query_start)
                    < clock_timestamp() - interval '\(clients.seconds) seconds'
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

    /// Ends connections of ours that have written and do nothing in the midst of a transaction: others wait
    /// for their locks.
    /// - Returns: whether there were any.
    func endStalledWriters() throws(PostgresError) -> Bool {
        try end(
            StalledClients(
                condition: """
                    a.usename = current_user AND a.application_name = current_setting('application_name')
                        AND a.backend_xid IS NOT NULL
                    """, parameters: [], seconds: PostgresLimits.stalledWriterSeconds, includesIdle: false))
    }
}
