import CRDT
import Foundation
import ServiceKit
import Synchronization

/// How the webhooks fare in this process, for administrators.
final class WebhookStates: Sendable {
    /// The state of one webhook.
    struct State: Sendable {
        /// `delivers`, `fails`, or `elsewhere` while another process delivers.
        var word = "elsewhere"
        var offset: Offset?
        var deliveredAtSeconds: Int64?
        var failure: String?
        /// Calls that failed since the last one that was taken.
        var failures = 0
        var nextAttemptSeconds: Int64?
    }

    private let states = Mutex<[String: State]>([:])

    func state(of id: String) -> State { states.withLock { $0[id] ?? State() } }
    func change(_ id: String, _ body: (inout State) -> Void) {
        states.withLock { body(&$0[id, default: State()]) }
    }
    func forget(_ id: String) { states.withLock { $0[id] = nil } }
}
