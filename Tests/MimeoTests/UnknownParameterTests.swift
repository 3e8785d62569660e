import AsyncHTTPClient
import Foundation
import Logging
import ServiceKit
import TestSupport
import Testing

@testable import Mimeo

@Suite("Query parameters that a route does not have")
struct UnknownParameterTests {
    @Test("every route of every service refuses one by name, before it asks who is there")
    func everyRoute() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let configuration = try ServiceConfiguration(
                ServiceOptions.parse(["--data", folder.path]), port: AllServices.defaultPort, environment: [:]
            )
            let services = try AllServices(configuration, logger: logger)
            let routes = try ServiceMount.routes(of: services.parts)
            let host = ServiceHost(parts: services.parts, listen: .anyLoopbackPort, logger: logger)
            try await host.run { address async throws in
                #expect(routes.count > 40)
                // A WebSocket's path says 426 to whoever does not ask for the upgrade.
                for route in routes where !route.hasSuffix("/_ditto/sync") {
                    let parts = route.split(separator: " ")
                    let path = parts[1].split(separator: "/").map { $0.hasPrefix(":") ? "x" : $0 }
                    let url = "\(address.origin)/\(path.joined(separator: "/"))?nonesuch=3"
                    var request = HTTPClientRequest(url: url)
                    request.method = .RAW(value: String(parts[0]))
                    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
                    let body = String(buffer: try await response.body.collect(upTo: 10_000_000))
                    // Monitors add parameters of their own to these.
                    if path.contains("health") || path == ["metrics"] {
                        #expect(response.status == .ok, "\(route)")
                        continue
                    }
                    #expect(response.status == .badRequest, "\(route)")
                    if parts[0] != "HEAD" { #expect(body.contains("nonesuch"), "\(route): \(body)") }
                }
            }
            await services.close()
        }
    }
}
