import Logging
import ServiceKit

/// A whole server within another program, on a loopback port that the system chooses; for tests and
/// experiments.
public struct EmbeddedServer: Sendable {
    /// `http://127.0.0.1:PORT`.
    public let url: String
    /// The database of the folder's first start.
    public let databaseID: String
    /// The development provider's secret for it.
    public let token: String

    /// Serves for as long as `body` runs, and stops in order afterwards.
    /// - Parameter data: the data folder; created if necessary.
    public static func run<Result: Sendable>(
        data: String, listen: String = "127.0.0.1:0", logger: Logger = Logger(label: "mimeo"),
        while body: @escaping @Sendable (EmbeddedServer) async throws -> Result
    ) async throws -> Result {
        let options = try ServiceOptions.parse(["--data", data, "--listen", listen])
        // The environment is that of the other program.
        let configuration = try ServiceConfiguration(
            options, port: AllServices.defaultPort, environment: [:])
        let services = try AllServices(configuration, logger: logger)
        let host = ServiceHost(
            parts: services.parts, listen: configuration.listen, cors: configuration.cors, logger: logger)
        do {
            let result = try await host.run { address in
                let development = services.development
                return try await body(
                    EmbeddedServer(
                        url: address.origin, databaseID: development.id, token: development.token))
            }
            await services.close()
            return result
        } catch {
            await services.close()
            throw error
        }
    }
}
