import Replica

/// A local commit that the server refused for good: its documents show the server's state again.
public struct DittoRefusedCommit: Equatable, Sendable {
    /// The `commitID` of the transaction that wrote it.
    public let commitID: UInt64
    /// The server's code, `SYNC-0401` for a missing permission.
    public let code: String
    /// A message for a person; empty for old commits.
    public let message: String
}

extension DittoSync {
    /// The local commits that the server refused, ascending. The last 65,536 are known.
    ///
    /// `synced_up_to_local_commit_id` of `system:data_sync_info` is the last commit up to which all are
    /// answered: those of them that are not listed here are durable on the server.
    /// - Parameters:
    ///   - commitID: the first commit to list.
    ///   - limit: the most commits to list.
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
