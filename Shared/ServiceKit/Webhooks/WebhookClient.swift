import AsyncHTTPClient
import Foundation
import NIOCore
import Tracing

/// Calls webhooks of operators, within bounds: no redirect is followed, no answer is unpacked, and a call
/// ends after a time whatever its server does.
public enum WebhookClient {
    /// How a call ended.
    public enum Outcome: Sendable {
        /// With a whole answer.
        case answered(status: UInt, [UInt8])
        /// With an answer of more than `Limits.webhookAnswerBytes`.
        case tooLarge(status: UInt)
        /// Without a whole answer; the reason for a person. A failed connection may be tried again at once.
        case failed(String, mayTryAgain: Bool)
        /// The task was cancelled.
        case left
    }

    /// Sends a request and reads its whole answer.
    public static func call(_ request: HTTPClientRequest, within timeout: Duration) async -> Outcome {
        await withSpan("webhook", ofKind: .client) { span in
            span.attributes["server.address"] = server(of: request.url)
            return await callInSpan(request, within: timeout)
        }
    }

    private static func callInSpan(_ request: HTTPClientRequest, within timeout: Duration) async -> Outcome {
        var request = request
        if let trace = InstrumentationContext.current?.span?.text ?? RequestTrace.current?.text {
            request.headers.replaceOrAdd(name: RequestTrace.name, value: trace)
        }
        let traced = request
        // The library's own timeout covers only the head of an answer; this one covers all of it.
        return await withTaskGroup { group in
            group.addTask { await exchange(traced, timeout) }
            group.addTask {
                try? await Task.sleep(for: timeout)
                return .failed("its answer was not complete within \(timeout)", mayTryAgain: false)
            }
            defer { group.cancelAll() }
            return await group.next() ?? .left
        }
    }

    /// Posts JSON, signed.
    public static func post(
        _ body: [UInt8], to url: String, signedWith secrets: [SigningSecret], nowSeconds: Int64,
        within timeout: Duration
    ) async -> Outcome {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        if let signature = SigningSecret.header(body, secrets, nowSeconds: nowSeconds) {
            request.headers.add(name: SigningSecret.headerName, value: signature)
        }
        request.body = .bytes(body)
        return await call(request, within: timeout)
    }

    /// Scheme, host and port of a URL; the rest of it may be a secret.
    public static func server(of url: String) -> String {
        guard let parts = URLComponents(string: url), let scheme = parts.scheme, let host = parts.host
        else { return "" }
        return "\(scheme)://\(host)" + (parts.port.map { ":\($0)" } ?? "")
    }

    /// `server(of:)`, and an ellipsis for a rest that may be a secret.
    public static func shown(_ url: String) -> String {
        let server = server(of: url)
        let rest = url.dropFirst(server.count)
        return rest.isEmpty || rest == "/" ? url : "\(server)/…"
    }

    private static func exchange(_ request: HTTPClientRequest, _ timeout: Duration) async -> Outcome {
        let response: HTTPClientResponse
        do {
            response = try await client.execute(request, timeout: TimeAmount(timeout))
        } catch {
            return .failed("it cannot be called: \(error)", mayTryAgain: isOfConnection(error))
        }
        let status = response.status.code
        do {
            let bytes = Array(
                try await response.body.collect(upTo: Limits.webhookAnswerBytes).readableBytesView)
            return .answered(status: status, bytes)
        } catch is NIOTooManyBytesError {
            return .tooLarge(status: status)
        } catch {
            return .failed("its answer broke off: \(error)", mayTryAgain: false)
        }
    }

    /// Returns whether the connection failed, rather than a timeout or a cancellation ending the call.
    private static func isOfConnection(_ error: any Error) -> Bool {
        if error is CancellationError { return false }
        guard let error = error as? HTTPClientError else { return true }
        return [.connectTimeout, .remoteConnectionClosed].contains(error)
    }

    /// One client for the process, never shut down. Redirects are not followed: they would send tokens and
    /// documents to a server that nobody has configured.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.redirectConfiguration = .disallow
        // The span is ours: the library's would tell the URL, whose path may be a secret.
        configuration.tracing.tracer = nil
        // An answer is small; unpacking would only be another way for it to be too large.
        configuration.decompression = .disabled
        configuration.connectionPool.retryConnectionEstablishment = false
        // Each call has a connection at once: waiting for one would look like a webhook that is silent. The
        // library's defaults are 8 connections for a host, and with HTTP/2 one with as many calls as the
        // host likes.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Limits.webhookConnections
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = TimeAmount(Limits.webhookConnectTimeout)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}
