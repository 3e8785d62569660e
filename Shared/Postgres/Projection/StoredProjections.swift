import OperationLog

extension PostgresProjections {
    /// The format of a server's projections, which stay as they are; nil for a server without any.
    /// - Throws: `PROJ-0101` to `PROJ-0103`.
    public static func storedFormat(url: String) throws -> StoredFormat? {
        do {
            return try ProjectionSchema.storedFormat(try Connection(url: url))
        } catch let error as PostgresError {
            throw ProjectionError(
                error.isConnectionLost ? .unreachable : .cannotOpen,
                error.isConnectionLost
                    ? "PostgreSQL cannot be reached: \(error.message)"
                    : "PostgreSQL refuses: \(error.message)")
        }
    }
}
