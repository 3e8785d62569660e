import AsyncHTTPClient
import WebSocket

/// The HTTP client of the SDK and the command line, one per process, never shut down.
package enum HTTPConnections {
    /// Fails at once when nothing listens: the caller decides when to retry.
    package static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.tlsConfiguration = .trusting()
        // Callers bound what they read. The library's default bounds the ratio, and a result with many equal
        // rows would be an error.
        configuration.decompression = .enabled(limit: .none)
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.connect = .seconds(Limits.connectTimeoutSeconds)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}
