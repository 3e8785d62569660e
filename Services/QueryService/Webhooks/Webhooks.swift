import CRDT
import Logging
import OperationLog
import ServiceKit

/// Runs one delivery for each webhook of the system database.
struct Webhooks: Sendable {
    let shared: WebhookDelivery.Shared

    /// Follows the system database until the task is cancelled; then ends all deliveries.
    func run() async {
        var running: [String: Task<Void, Never>] = [:]
        for await _ in shared.system.changes {
            let directory = shared.system.directory
            var wanted: [String: WebhookRecord] = [:]
            for webhook in directory.webhooks.values where directory.database(webhook.databaseID) != nil {
                wanted[webhook.id] = webhook
            }
            for id in running.keys where wanted[id] == nil {
                running.removeValue(forKey: id)?.cancel()
            }
            for (id, webhook) in wanted where running[id] == nil {
                running[id] = Task { [shared] in
                    do {
                        try await WebhookDelivery(webhook, shared).run()
                    } catch {
                        // A condition that a later version has taken.
                        shared.states.change(id) { state in
                            (state.word, state.failure) = ("fails", "\(error)")
                        }
                    }
                }
            }
        }
        for task in running.values { task.cancel() }
        for task in running.values { await task.value }
    }
}
