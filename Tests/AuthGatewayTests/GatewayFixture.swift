import AsyncHTTPClient
import AuthGateway
import Foundation
import Identity
import Logging
import NIOCore
import ServiceKit
import Synchronization

/// A state folder that lives as long as a test.
final class GatewayFixture: Sendable {
    static let now: Int64 = 1_800_000_000
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("auth-\(UUID().uuidString)")
        .path
    private let names = Mutex<[String]>([])

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// The databases that were registered, in order.
    var registered: [String] { names.withLock { $0 } }

    /// - Parameter providers: the text of the file of providers.
    func gateway(
        providers: String? = nil, session: Duration = .seconds(3600), logger: Logger = GatewayFixture.quiet
    ) throws -> AuthGateway {
        let path = "\(folder).providers.json"
        defer { try? FileManager.default.removeItem(atPath: path) }
        if let providers { try Data(providers.utf8).write(to: URL(fileURLWithPath: path)) }
        return try AuthGateway(
            folder: folder, providers: providers == nil ? nil : path, session: session,
            nowSeconds: { Self.now }, logger: logger
        ) { id in
            self.names.withLock { $0.append(id) }
        }
    }

    static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    func serving<Result: Sendable>(
        _ gateway: AuthGateway, _ body: @escaping @Sendable (ListenAddress) async throws -> Result
    ) async throws -> Result {
        try await ServiceHost(parts: [gateway], listen: .anyLoopbackPort, logger: Self.quiet).run(while: body)
    }
}

struct Answer: Sendable {
    var status: Int
    var body: [UInt8]
    var retryAfter: String?

    var object: [String: String] {
        let object = (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any]
        return object?.mapValues { "\($0)" } ?? [:]
    }

    var code: String? {
        struct Body: Decodable {
            struct Failure: Decodable { var code: String, message: String }
            var error: Failure
        }
        return try? JSONDecoder().decode(Body.self, from: Data(body)).error.code
    }
}

extension DevelopmentDatabase {
    /// The login of an honest client.
    func loginBody(provider: String = "development", member: String = "databaseID", more: String = "")
        -> String
    {
        #"{"\#(member)":"\#(id)","provider":"\#(provider)","token":"\#(token)"\#(more)}"#
    }
}

func login(_ address: ListenAddress, _ body: String) async throws -> Answer {
    var request = HTTPClientRequest(url: "\(address.origin)/_ditto/auth/login")
    request.method = .POST
    request.body = .bytes(Array(body.utf8))
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(10))
    return Answer(
        status: Int(response.status.code),
        body: Array(buffer: try await response.body.collect(upTo: 1_000_000)),
        retryAfter: response.headers.first(name: "Retry-After"))
}
