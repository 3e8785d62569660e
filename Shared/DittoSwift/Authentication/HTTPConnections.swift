import AsyncHTTPClient
import Foundation
import WebSocket

/// The HTTP client of the SDK and the command line, one per process, never shut down.
package enum HTTPConnections {
    /// Fails at once when nothing listens: the caller decides when to retry.
    package static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.tlsConfiguration = .trusting()
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.connect = .seconds(Limits.connectTimeoutSeconds)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    /// Sends a request; `seconds` is the timeout of the whole exchange.
    /// - Throws: `SDK-0307` for https to a server that speaks plain http; the client's errors.
    package static func execute(
        _ request: HTTPClientRequest, seconds: Int64
    ) async throws -> HTTPClientResponse {
        do {
            return try await client.execute(request, timeout: .seconds(seconds))
        } catch where PlainServer.isMeant(by: error) {
            // Without user and password, which a URL may hold.
            let address = URLComponents(string: request.url).flatMap { parts in
                parts.host.map { $0 + (parts.port.map { ":\($0)" } ?? "") }
            }
            throw SDKError(.serverSpeaksPlainHTTP, PlainServer.message(address ?? "the server"))
        }
    }
}
