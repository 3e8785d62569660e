import AsyncHTTPClient
import WebSocket

/// The HTTP client of the SDK and the command line, one per process, never shut down.
package enum HTTPConnections {
    /// Fails at once where nothing listens: whoever wants to try again decides when.
    package static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.tlsConfiguration = .trusting()
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.connect = .seconds(Limits.connectTimeoutSeconds)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}
