import AsyncHTTPClient
import CRDT
import Crypto
import Foundation
import Logging
import NIOCore
import ServiceKit
import Synchronization

/// Asks an HTTP server whether a login is good.
///
/// A call is tried three times where no connection comes about or the answer is a 5xx; what has taken too
/// long is not asked again, nor what was answered with anything else. At most `Limits.webhookCalls` are under
/// way at once. Neither the login's token nor a signing secret stands in any log or error.
final class WebhookProvider: Sendable {
    /// The members of the body.
    enum Payload: String, Sendable, CaseIterable {
        /// `appID`, `provider`, `token`: what handlers of the first generation are sent.
        case legacy
        /// `databaseID`, `version` ("1"), `provider`, `token`.
        case current
        /// All of them, so that a handler of either generation finds what it reads.
        case both
    }

    private struct State {
        var calls = 0
        /// When it was said last that all calls are under way.
        var toldOfCalls: ContinuousClock.Instant?
        var breaker = CircuitBreaker()
    }

    private let name: String
    private let url: String
    private let payload: Payload
    private let secrets: [SigningSecret]
    private let logger: Logger
    private let timeout: Duration
    private let state = Mutex(State())

    /// - Parameters:
    ///   - name: the provider's, as logins name it.
    ///   - timeout: of one attempt.
    init(
        name: String, url: String, payload: Payload, secrets: [SigningSecret], logger: Logger,
        timeout: Duration = Limits.webhookTimeout
    ) {
        self.name = name
        self.url = url
        self.payload = payload
        self.secrets = secrets
        self.logger = logger
        self.timeout = timeout
    }

    /// On which server it is; the rest of its URL may be a secret.
    var publicURL: String {
        guard let parts = URLComponents(string: url), let scheme = parts.scheme, let host = parts.host
        else { return "" }
        return "\(scheme)://\(host)" + (parts.port.map { ":\($0)" } ?? "")
    }

    /// Asks.
    /// - Throws: `AUTH-0405`, `AUTH-0406`.
    func answer(_ login: LoginRequest, nowSeconds: Int64) async throws(AuthGatewayError) -> ProviderAnswer {
        guard enter() else {
            noteRefusal()
            throw AuthGatewayError(.providerUnavailable, "the provider does not answer at the moment")
        }
        let outcome = await ask(body(of: login), nowSeconds)
        state.withLock { state in
            state.calls -= 1
            switch outcome {
            case .answered: state.breaker.hasAnswered()
            case .failed: state.breaker.hasFailed(at: .now)
            case .left: state.breaker.hasLeft()
            }
        }
        switch outcome {
        case .answered(let status, let bytes):
            do {
                return try WebhookAnswer.read(bytes, status: status)
            } catch {
                warn("its answer cannot be used: \(error.reason)")
                throw AuthGatewayError(
                    .providerAnswerInvalid, "the provider's answer cannot be used; the server's log says why")
            }
        case .failed(let reason):
            warn(reason)
            throw AuthGatewayError(.providerUnavailable, "the provider does not answer at the moment")
        case .left:
            throw AuthGatewayError(.providerUnavailable, "the login was given up")
        }
    }

    private func enter() -> Bool {
        state.withLock { state in
            guard state.calls < Limits.webhookCalls, state.breaker.isOpen(at: .now) else { return false }
            state.calls += 1
            return true
        }
    }

    /// Says that logins are turned away because too many are under way; once in a while, since whoever fills
    /// the calls would fill the log.
    private func noteRefusal() {
        let isDue = state.withLock { state in
            let now = ContinuousClock.now
            guard state.calls >= Limits.webhookCalls,
                state.toldOfCalls.map({ now - $0 > Limits.webhookRest }) ?? true
            else { return false }
            state.toldOfCalls = now
            return true
        }
        if isDue { warn("\(Limits.webhookCalls) logins wait for it: more are turned away") }
    }

    private func warn(_ reason: String) {
        logger.warning("a webhook fails", metadata: ["provider": "\(name)", "reason": "\(reason)"])
    }

    /// What is sent, as JSON.
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
        case failed(String)
        /// The one who asked is gone.
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
            warn("none of its signing secrets is valid at this time: it is asked without a signature")
        }
        request.body = .bytes(body)
        let asked = request
        let timeout = timeout
        // The library's own limit ends with the head of an answer: this one is of all of it.
        return await withTaskGroup { group in
            group.addTask { await Self.exchange(asked, timeout) }
            group.addTask {
                try? await Task.sleep(for: timeout)
                return (.failed("it has not answered whole within \(timeout)"), false)
            }
            defer { group.cancelAll() }
            return await group.next() ?? (.left, false)
        }
    }

    /// One request and its whole answer.
    private static func exchange(
        _ request: HTTPClientRequest, _ timeout: Duration
    ) async -> (Outcome, mayTryAgain: Bool) {
        let response: HTTPClientResponse
        do {
            response = try await client.execute(request, timeout: TimeAmount(timeout))
        } catch {
            return (.failed("it cannot be asked: \(error)"), isOfConnection(error))
        }
        let status = response.status.code
        do {
            let bytes = Array(
                try await response.body.collect(upTo: Limits.webhookAnswerBytes).readableBytesView)
            guard status < 500 else { return (.failed("it answered with status \(status)"), true) }
            return (.answered(status: status, bytes), false)
        } catch is NIOTooManyBytesError {
            // It is alive; the answer is of no use.
            return (.answered(status: status, Array("over the limit".utf8)), false)
        } catch {
            return (.failed("its answer broke off: \(error)"), false)
        }
    }

    /// Whether the connection was at fault: not the time that the webhook took, nor whoever waited for it.
    private static func isOfConnection(_ error: any Error) -> Bool {
        if error is CancellationError { return false }
        guard let error = error as? HTTPClientError else { return true }
        return [.connectTimeout, .remoteConnectionClosed].contains(error)
    }

    /// One for the process, never shut down. A redirect would send the token somewhere that nobody has
    /// configured.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.redirectConfiguration = .disallow
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.connect = TimeAmount(Limits.webhookConnectTimeout)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}

/// A secret that signs what is sent to a webhook, so that it knows who asks.
struct SigningSecret: Sendable, Equatable {
    /// `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`, one for each secret that is valid at the time.
    static let headerName = "ditto-signature"

    let key: [UInt8]
    /// Seconds since 1970 from which on it signs.
    var notBefore: Int64 = .min
    /// Seconds since 1970 from which on it signs no more.
    var notAfter: Int64 = .max

    /// HMAC-SHA256 over `<t>.<body>`; nil where no secret is valid.
    static func header(_ body: [UInt8], _ secrets: [SigningSecret], nowSeconds: Int64) -> String? {
        let signed = Data("\(nowSeconds).".utf8) + Data(body)
        let parts = secrets.filter { $0.notBefore <= nowSeconds && nowSeconds < $0.notAfter }.map { secret in
            let code = HMAC<SHA256>.authenticationCode(for: signed, using: SymmetricKey(data: secret.key))
            return "v1=" + code.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined()
        }
        return parts.isEmpty ? nil : (["t=\(nowSeconds)"] + parts).joined(separator: ",")
    }
}
