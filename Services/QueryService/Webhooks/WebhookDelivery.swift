import CRDT
import DQL
import Foundation
import Identity
import Logging
import OperationLog
import ServiceKit

/// Delivers the changes of a database to one webhook, for as long as it exists.
///
/// One process delivers: it holds a lease of the log. The position is a record on the log, so another process
/// goes on where this one ended. A change is delivered at least once, in the log's order. While the webhook
/// fails, its changes wait in the log, and nothing of it is held in memory.
///
/// Used by one task.
final class WebhookDelivery {
    /// The things that all deliveries of a process share.
    struct Shared: Sendable {
        let system: SystemDatabase
        let log: any OperationLog
        let past: Past
        let states: WebhookStates
        let secretsKey: String
        let bounds: QueryServicePart.Bounds
        let pool: EvaluationPool
        let logger: Logger
        let projection: @Sendable (DatabaseID) async throws -> Projection
    }

    /// A call that the webhook did not take.
    private struct Failure: Error {
        let reason: String
    }

    private let webhook: WebhookRecord
    private let shared: Shared
    private let filter: ChangeFilter
    private let turns: StreamTurns
    private let lease: LeasedActor
    private var secret: SigningSecret?
    private var position: Offset = 0
    private var saved: (offset: Offset, at: ContinuousClock.Instant)?
    private var deliveredAt: Int64?
    private var failures = 0

    init(_ webhook: WebhookRecord, _ shared: Shared) throws {
        self.webhook = webhook
        self.shared = shared
        filter = try Self.filter(
            collections: webhook.collections, condition: webhook.condition, values: webhook.values)
        turns = StreamTurns(
            shared.pool, "changes for a webhook", of: "webhook:\(webhook.id)", in: webhook.databaseID)
        lease = LeasedActor(
            log: shared.log, database: webhook.databaseID, purpose: "webhook-\(webhook.id)", slots: 1)
    }

    /// The filter of a webhook, which sees everything but the server's own documents.
    /// - Throws: DQL's errors of the condition.
    static func filter(
        collections: [String]?, condition: String?, values: String
    ) throws -> ChangeFilter {
        var filter = ChangeFilter(rules: try CompiledGrant(.everything).read)
        filter.collections = collections?.map { CollectionName($0) }
        filter.condition = try condition.map { try DocumentCondition($0) }
        filter.values = ChangeFilter.Values(rawValue: values) ?? .new
        return filter
    }

    /// Delivers until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                try await begin()
                try await deliver()
                // The projection was closed; the next one is opened.
                try await Task.sleep(for: shared.bounds.webhookPause)
            } catch is CancellationError {
                break
            } catch let error as OperationLogError where error.code == .busy {
                shared.states.change(webhook.id) { $0.word = "elsewhere" }
                try? await Task.sleep(for: Limits.webhookLook)
            } catch {
                await rest(after: error)
            }
        }
        await save()
        await lease.close()
        shared.states.forget(webhook.id)
    }

    /// Takes the lease, and the position that its last holder has left.
    private func begin() async throws {
        if try await lease.lease().isFresh || saved == nil {
            try await shared.system.refresh()
            let known = shared.system.directory.webhookPositions[webhook.id]
            let offset = known?.offset ?? webhook.since
            position = Offset(UInt64(clamping: offset))
            deliveredAt = known?.deliveredAtSeconds
            saved = (position, .now)
        }
        if secret == nil {
            let place = SecretBox.place(webhook.id)
            guard
                let text = SecretBox.read(shared.secretsKey)?.opened(webhook.sealedSecret, at: place),
                let key = Data(base64Encoded: text)
            else { throw QueryError(.noSecretsKey, shared.secretsKey) }
            secret = SigningSecret(key: Array(key))
        }
    }

    private func deliver() async throws {
        let projection = try await shared.projection(webhook.databaseID)
        try await projection.beginFollowing()
        let cursor = ChangeCursor(
            webhook.databaseID, after: position, projection.recent, shared.past, turns)
        note()
        do {
            try await follow(cursor, projection.recent)
        } catch {
            await cursor.end()
            throw error
        }
        await cursor.end()
    }

    private func follow(_ cursor: ChangeCursor, _ recent: RecentChanges) async throws {
        var batch = WebhookBatch(after: position)
        while !cursor.isOver {
            guard try await !lease.lease().isFresh else {
                // It had expired: another process may have delivered meanwhile.
                saved = nil
                return
            }
            let operations = try await cursor.next(through: .max)
            for operation in operations {
                let author = try await cursor.author(of: operation.stamp.actor)
                let filter = filter
                let lines = try await turns.run { evaluation in
                    try filter.lines(of: operation, author: author, in: evaluation)
                }
                for text in lines {
                    if batch.isFull(for: text) { try await send(&batch) }
                    batch.add(text)
                }
                batch.complete(operation.position.offset)
            }
            guard operations.isEmpty else { continue }
            if !batch.isEmpty { try await send(&batch) }
            // Operations without a line for it are behind it too.
            position = cursor.position
            batch = WebhookBatch(after: position)
            note()
            if let saved, saved.offset != position, ContinuousClock.now - saved.at > Limits.webhookSaving {
                await save()
            }
            await recent.wait(beyond: cursor.position)
            try Task.checkCancellation()
        }
    }

    /// Calls the webhook; returns when it has taken the batch.
    private func send(_ batch: inout WebhookBatch) async throws {
        let body = batch.body(of: webhook)
        let outcome = await WebhookClient.post(
            body, to: webhook.url, signedWith: secret.map { [$0] } ?? [],
            nowSeconds: shared.bounds.nowSeconds(), within: shared.bounds.webhookTimeout)
        switch outcome {
        case .answered(200...299, _), .tooLarge(200...299): break
        case .answered(let status, _), .tooLarge(let status):
            throw Failure(reason: "it answered with status \(status)")
        case .failed(let reason, _): throw Failure(reason: reason)
        case .left: throw CancellationError()
        }
        try Task.checkCancellation()
        position = batch.completed
        deliveredAt = shared.bounds.nowSeconds()
        failures = 0
        Measured.count("mimeo_webhook_deliveries_total", [("result", "ok")])
        note()
        batch = WebhookBatch(after: position)
        if let saved, ContinuousClock.now - saved.at > Limits.webhookSaving { await save() }
    }

    /// Notes a failure, and waits longer and longer.
    private func rest(after error: any Error) async {
        await save()
        failures += 1
        Measured.count("mimeo_webhook_deliveries_total", [("result", "failed")])
        let pause = Self.pause(after: failures, first: shared.bounds.webhookPause)
        let reason =
            (error as? Failure)?.reason ?? ErrorAnswer.reportable(QueryError.translated(error)).publicMessage
        if failures == 1 {
            shared.logger.warning(
                "a webhook for changes fails",
                metadata: [
                    "database": "\(webhook.databaseID)", "webhook": "\(webhook.id)", "reason": "\(reason)",
                ])
        }
        let (count, at) = (failures, shared.bounds.nowSeconds() + pause.components.seconds)
        shared.states.change(webhook.id) { state in
            state.word = "fails"
            state.failure = String(reason.prefix(Limits.shownFailureCharacters))
            state.failures = count
            state.nextAttemptSeconds = at
        }
        try? await Task.sleep(for: pause)
    }

    /// The pause after so many failures in a row: twice the one before, at last `webhookLongestPause`.
    static func pause(after failures: Int, first: Duration) -> Duration {
        min(first * (1 << min(failures - 1, 16)), Limits.webhookLongestPause)
    }

    private func note() {
        let (offset, time) = (position, deliveredAt)
        let isFailing = failures > 0
        shared.states.change(webhook.id) { state in
            state.offset = offset
            state.deliveredAtSeconds = time
            guard !isFailing else { return }
            (state.word, state.failure, state.failures, state.nextAttemptSeconds) = ("delivers", nil, 0, nil)
        }
    }

    /// Records the position. If that fails, some changes are delivered again after a crash.
    private func save() async {
        guard let last = saved, last.offset != position else { return }
        let record = WebhookPosition(
            id: webhook.id, offset: Int64(clamping: position.rawValue), deliveredAtSeconds: deliveredAt)
        let id = webhook.id
        do {
            try await shared.system.write { writer in
                guard try writer.get(id, as: WebhookRecord.self) != nil else { return }
                try writer.put(record)
            }
            saved = (position, .now)
        } catch {
            saved = (last.offset, .now)
        }
    }
}
