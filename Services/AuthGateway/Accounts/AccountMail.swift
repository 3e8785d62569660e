import CRDT
import Foundation
import Logging
import ServiceKit
import Synchronization

/// Has mail sent by the webhook of a provider: `{"kind", "database", "provider", "to", "name", "link",
/// "expiresAt"}`, signed as a login webhook's request is. Without a webhook nothing is sent.
final class AccountMail: Sendable {
    private struct State {
        var underWay = 0
        /// When mail that a stranger asked for last went to an account: seconds since 1970.
        var lastAsked: [String: Int64] = [:]
    }

    private let logger: Logger
    private let nowSeconds: @Sendable () -> Int64
    private let state = Mutex(State())

    init(nowSeconds: @escaping @Sendable () -> Int64, logger: Logger) {
        (self.nowSeconds, self.logger) = (nowSeconds, logger)
    }

    /// Sends in the background; a failure is in the log of the service. Returns whether it was begun.
    func send(_ link: AccountLinkRecord, _ address: String, by provider: AccountsProvider) -> Bool {
        guard let url = provider.mailURL, let to = link.mail else { return false }
        let isAdmitted = state.withLock { state in
            guard state.underWay < Limits.mailsUnderWay else { return false }
            state.underWay += 1
            return true
        }
        guard isAdmitted else {
            logger.warning("too much mail is under way", metadata: ["provider": "\(provider.name)"])
            return false
        }
        let body: Value = [
            "kind": .string(link.account == nil ? "invitation" : "reset"),
            "database": .string(link.databaseID.text), "provider": .string(link.provider),
            "to": .string(to), "name": link.name.map { .string($0) } ?? .null,
            "link": .string(address), "expiresAt": .int(link.expiresAtSeconds),
        ]
        let (now, secrets) = (nowSeconds(), provider.secrets)
        Task { [self] in
            let outcome = await WebhookClient.post(
                Array(JSONText.print(body).utf8), to: url, signedWith: secrets, nowSeconds: now,
                within: Limits.webhookTimeout)
            state.withLock { $0.underWay -= 1 }
            if case .answered(200..<300, _) = outcome { return }
            logger.warning("mail was not sent", metadata: ["provider": "\(provider.name)"])
        }
        return true
    }

    /// Returns whether a stranger may have mail sent to an account now.
    func mayAsk(for account: String) -> Bool {
        let now = nowSeconds()
        return state.withLock { state in
            if state.lastAsked.count >= Limits.countedAccounts {
                state.lastAsked = state.lastAsked.filter { now - $0.value < Limits.mailPauseSeconds }
            }
            if let last = state.lastAsked[account], 0..<Limits.mailPauseSeconds ~= now - last { return false }
            state.lastAsked[account] = now
            return true
        }
    }
}
