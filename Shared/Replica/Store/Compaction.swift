import GRDB

extension DocumentStore {
    /// See `Replica.compact`.
    func compact() throws {
        try checkOpen()
        do {
            try writing { database in
                try database.execute(sql: "VACUUM")
                _ = try database.checkpoint(.truncate)
            }
        } catch {
            throw failed(error)
        }
    }
}
