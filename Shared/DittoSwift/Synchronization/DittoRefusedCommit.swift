import Replica

/// A local commit that the server did not take, for good: its documents show the server's state again.
public struct DittoRefusedCommit: Equatable, Sendable {
    /// The `commitID` of the transaction that wrote it.
    public let commitID: UInt64
    /// The server's code, `SYNC-0401` for a right that is missing.
    public let code: String
    /// For a person; empty for old ones.
    public let message: String
}

extension DittoSync {
    /// The local commits that the server refused, ascending.
    ///
    /// `synced_up_to_local_commit_id` of `system:data_sync_info` says up to which commit all is answered:
    /// what is not among these is durable on the server then. The last 65,536 are known.
    /// - Parameters:
    ///   - commitID: the first that is asked about.
    ///   - limit: at most so many.
    public func refusedCommits(
        from commitID: UInt64 = 0, limit: Int = 1_000
    ) throws -> [DittoRefusedCommit] {
        do {
            return try replica().refusedCommits(from: commitID, limit: max(0, limit)).map {
                DittoRefusedCommit(commitID: $0.commit, code: $0.code, message: $0.message)
            }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }
}
