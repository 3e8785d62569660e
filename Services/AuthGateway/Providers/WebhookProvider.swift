import AsyncHTTPClient
import CRDT
import Foundation
import Logging
import Machine
import ServiceKit
import Synchronization

/// Asks an HTTP server to decide about a login.
///
/// A call is tried up to three times if the connection fails or the answer is a 5xx. Calls that time out or
/// get another answer are not retried. At most `Limits.webhookCalls` are in flight, each on a connection of
/// its own; further logins wait for their turn, in order (`BoundedTurns`). Neither the login's token nor a
/// signing secret appears in any log or error.
final class WebhookProvider: Sendable {
    /// The members of the body.
    enum Payload: String, Sendable, CaseIterable {
        /// `appID`, `provider`, `token`: for handlers of the first generation.
        case legacy
        /// `databaseID`, `version` ("1"), `provider`, `token`.
        case current
        /// All members, for handlers of either generation.
        case both
    }

    private struct State {
        /// Time of the last warning that all calls are in flight.
        var toldOfCalls: ContinuousClock.Instant?
        var breaker = CircuitBreaker()
    }

    private let name: String
    private let url: String
    let payload: Payload
    let secrets: [SigningSecret]
    private let logger: Logger
    private let timeout: Duration
    private let turns: BoundedTurns
    private let state = Mutex(State())

    /// - Parameters:
    ///   - name: the provider's name in login requests.
    ///   - timeout: the timeout of one attempt.
    ///   - turns: bounds the calls in flight.
    init(
        name: String, url: String, payload: Payload, secrets: [SigningSecret], logger: Logger,
        timeout: Duration = Limits.webhookTimeout,
        turns: BoundedTurns = BoundedTurns(
            Limits.webhookCalls, waiting: Limits.webhookWaiting, for: Limits.webhookTurn)
    ) {
        self.turns = turns
        self.name = name
        self.url = url
        self.payload = payload
        self.secrets = secrets
        self.logger = logger
        self.timeout = timeout
    }

    /// Scheme, host and port of the URL; the rest of it may be a secret.
    var publicURL: String { WebhookClient.server(of: url) }

    /// `publicURL`, and an ellipsis for a rest that may be a secret.
    var shownURL: String { WebhookClient.shown(url) }

    /// Asks the webhook about a login from an address.
    /// - Throws: `AUTH-0405`, `AUTH-0406`, `AUTH-0413`.
    func answer(
        _ login: LoginRequest, from source: String = "", nowSeconds: Int64
    ) async throws(AuthGatewayError) -> ProviderAnswer {
        guard await turns.begin() else {
            noteRefusal()
            throw AuthGatewayError(
                .providerBusy, "too many logins wait for the provider; try again shortly")
        }
        let outcome: Outcome
        if let ticket = state.withLock({ $0.breaker.admit(source, at: .now) }) {
            outcome = await ask(body(of: login), nowSeconds)
            state.withLock { state in
                switch outcome {
                case .answered: state.breaker.hasAnswered(ticket)
                case .failed: state.breaker.hasFailed(ticket, at: .now)
                case .left: state.breaker.hasLeft(ticket)
                }
            }
        } else {
            outcome = .failed(nil)
        }
        turns.end()
        return try result(of: outcome)
    }

    private func result(of outcome: Outcome) throws(AuthGatewayError) -> ProviderAnswer {
        switch outcome {
        case .answered(let status, let bytes):
            do {
                return try WebhookAnswer.read(bytes, status: status)
            } catch {
                warn("its answer is invalid: \(error.reason)")
                throw AuthGatewayError(
                    .providerAnswerInvalid,
                    "the provider's answer is invalid; see the server's log for the reason")
            }
        case .failed(let reason):
            if let reason { warn(reason) }
            throw AuthGatewayError(.providerUnavailable, "the provider does not answer; try again shortly")
        case .left:
            throw AuthGatewayError(.providerUnavailable, "the client gave up the login")
        }
    }

    /// Warns that logins are turned away because too many are in flight; at most once per
    /// `Limits.webhookRest`, since a flood of logins must not flood the log.
    private func noteRefusal() {
        let isDue = state.withLock { state in
            let now = ContinuousClock.now
            guard state.toldOfCalls.map({ now - $0 > Limits.webhookRest }) ?? true else { return false }
            state.toldOfCalls = now
            return true
        }
        if isDue { warn("\(Limits.webhookCalls) logins wait for it, so further ones are turned away") }
    }

    private func warn(_ reason: String) {
        logger.warning("a webhook fails", metadata: ["provider": "\(name)", "reason": "\(reason)"])
    }

    /// The body of the call, as JSON.
    func body(of login: LoginRequest) -> [UInt8] {
        var members: [(key: String, value: Value)] = []
        if payload != .current { members.append(("appID", .string(login.databaseID.text))) }
        if payload != .legacy {
            members.append(("databaseID", .string(login.databaseID.text)))
            members.append(("version", "1"))
        }
        members.append(("provider", .string(login.provider)))
        members.append(("token", .string(login.token)))
        return Array(JSONText.print(.object(ObjectValue(members))).utf8)
    }

    private enum Outcome: Sendable {
        case answered(status: UInt, [UInt8])
        /// No answer, and the reason for the log; nil if the webhook was not called.
        case failed(String?)
        /// The client gave up.
        case left
    }

    private func ask(_ body: [UInt8], _ nowSeconds: Int64) async -> Outcome {
        var outcome = Outcome.left
        for attempt in 0..<Limits.webhookAttempts {
            if attempt > 0 {
                guard (try? await Task.sleep(for: Limits.webhookPause * (1 << attempt))) != nil else { break }
            }
            let (result, mayTryAgain) = await attemptOnce(body, nowSeconds)
            outcome = result
            guard mayTryAgain else { break }
        }
        return Task.isCancelled ? .left : outcome
    }

    private func attemptOnce(_ body: [UInt8], _ nowSeconds: Int64) async -> (Outcome, mayTryAgain: Bool) {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "Accept", value: "application/json")
        if let signature = SigningSecret.header(body, secrets, nowSeconds: nowSeconds) {
            request.headers.add(name: SigningSecret.headerName, value: signature)
        } else if !secrets.isEmpty {
            warn("none of its signing secrets is valid now, so it is called without a signature")
        }
        request.body = .bytes(body)
        switch await WebhookClient.call(request, within: timeout) {
        case .answered(let status, _) where status >= 500:
            return (.failed("it answered with status \(status)"), true)
        case .answered(let status, let bytes): return (.answered(status: status, bytes), false)
        // The webhook is alive, so the breaker must not count this; the text makes the answer invalid.
        case .tooLarge(let status): return (.answered(status: status, Array("over the limit".utf8)), false)
        case .failed(let reason, let mayTryAgain): return (.failed(reason), mayTryAgain)
        case .left: return (.left, false)
        }
    }
}
