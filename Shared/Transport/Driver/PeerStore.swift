import CRDT
import Replica
import Sync

/// A peer's replica as a session sees it.
struct PeerStore: SessionStore {
    let replica: Replica
    let executor: BlockingExecutor
    let report: @Sendable (Report) -> Void
    /// Called after the server has acknowledged something new.
    let acknowledged: @Sendable () -> Void

    func perform(_ action: Action) async throws -> Event? {
        let replica = replica
        switch action {
        case .readOwnActors:
            return .ownActors(
                try await executor.run {
                    try replica.ownActors().map {
                        Frame.ActorHead(actor: $0.actor, sequence: $0.sequence, hash: $0.hash)
                    }
                })
        case .compareHistory(let heads):
            return .historyCompared(
                forked: try await executor.run {
                    try heads.filter { try !replica.holds($0.actor, sequence: $0.sequence, hash: $0.hash) }
                        .map(\.actor)
                })
        case .readOwnOperations(let actor, let sequence, let maxBytes):
            let found = try await executor.run {
                try replica.ownOperations(of: actor, after: sequence, maxBytes: maxBytes)
            }
            return .ownOperations(actor: actor, found.map { (sequence: $0.sequence, bytes: $0.bytes) })
        case .store(let batch):
            return try await store(batch)
        case .stage(let updates, let key):
            try await executor.run { try replica.stage(updates, for: key) }
            return .stored
        case .unstage(let key):
            try await executor.run { try replica.discardStaged(for: key) }
            return .stored
        case .findOutdated(let candidates):
            return .outdated(
                try await executor.run {
                    try replica.outdated(
                        candidates.map { ($0.key, try VersionVector(decoding: $0.vector)) })
                })
        case .acknowledge(let actor, let sequence):
            try await executor.run { try replica.acknowledge(actor, through: sequence) }
            acknowledged()
            return nil
        case .renewActor(let actor):
            try await executor.run { try replica.renewActor(actor) }
            return nil
        case .settle(let keys):
            try await executor.run { try replica.settle(keys) }
            return nil
        case .report(let report):
            return try await told(report)
        default:
            preconditionFailure("a peer's session asks for nothing else")
        }
    }

    private func store(_ batch: Batch) async throws -> Event {
        let replica = replica
        let outcome = try await executor.run {
            try replica.receive(
                Reception(
                    updates: batch.updates, cursors: batch.cursors, publishes: batch.publishes,
                    settles: batch.settles))
        }
        return switch outcome {
        case .stored: .stored
        case .wanting(let keys): .wanting(keys)
        }
    }

    /// Passes a report on; once connected, what is wanted from earlier is asked for.
    private func told(_ report: Report) async throws -> Event? {
        self.report(report)
        guard case .connected = report else { return nil }
        let replica = replica
        let wanted = try await executor.run { try replica.wanted(limit: Limits.wantedDocuments) }
        return wanted.isEmpty ? nil : .wanted(wanted)
    }
}
