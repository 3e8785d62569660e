extension PeerReplica {
    /// The bytes in the store that are there for sync: operations that wait to be sent or are withheld, pages
    /// that were fetched and are not applied yet, refused writes. Lengths only: their content is not read.
    public func replicationBytes() throws -> Int {
        let tables = ["operation", "withheld_operation", "staged_page", "refused"]
        return try read { transaction in
            try transaction.withDatabase { database in
                var bytes = 0
                for table in tables {
                    let statement = try RawStatement(
                        cached: "SELECT COALESCE(SUM(LENGTH(bytes)), 0) FROM \(table)", database)
                    if try statement.step() { bytes += Int(statement.int(0)) }
                }
                return bytes
            }
        }
    }
}
