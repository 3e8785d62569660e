import Attachments
import Foundation
import Replica
import Synchronization

/// Looks whether documents here still mention the attachments that downloads wait for.
///
/// A look reads all documents, so one answers for all downloads, and for as long as no commit has come. The
/// answer "mentioned" may come from an earlier look for `Limits.mentionMemory`: a deletion is then told a
/// little later. The answer "not mentioned" is told only as of now.
actor MentionLook {
    private struct Look {
        var commits: UInt64
        var at: ContinuousClock.Instant
        var asked: Set<UInt64>
        var unmentioned: Set<UInt64>
    }

    /// The documents, as a look reads them: takes out of a set all that they mention.
    private let unmentioned: @Sendable (Set<UInt64>) async -> Set<UInt64>?
    private nonisolated let commits = Atomic<UInt64>(0)
    private var latest: Look?
    private var running: Task<Look?, Never>?

    init(_ unmentioned: @escaping @Sendable (Set<UInt64>) async -> Set<UInt64>?) {
        self.unmentioned = unmentioned
    }

    /// A commit has come.
    nonisolated func documentsChanged() { commits.add(1, ordering: .relaxed) }

    /// Returns whether a document mentions an attachment; nil if that cannot be told.
    /// - Parameter others: attachments of which the same will be asked.
    func isMentioned(_ id: BlobID, others: Set<BlobID>) async -> Bool? {
        while true {
            let now = commits.load(ordering: .relaxed)
            if let latest, latest.asked.contains(id.prefix) {
                let isMentioned = !latest.unmentioned.contains(id.prefix)
                if latest.commits == now { return isMentioned }
                if isMentioned, latest.at.duration(to: .now) < Limits.mentionMemory { return true }
            }
            if let running {
                _ = await running.value
                continue
            }
            let asked = Set(others.map(\.prefix)).union([id.prefix])
            let task = Task { await look(for: asked, since: now) }
            running = task
            return await task.value.map { !$0.unmentioned.contains(id.prefix) }
        }
    }

    /// Looks once, and ends `running` itself: a waiter for a task that is over does not give up the actor, so
    /// nobody else could end it.
    private func look(for asked: Set<UInt64>, since commits: UInt64) async -> Look? {
        let left = await unmentioned(asked)
        running = nil
        guard let left else { return nil }
        let look = Look(commits: commits, at: .now, asked: asked, unmentioned: left)
        latest = look
        return look
    }
}
