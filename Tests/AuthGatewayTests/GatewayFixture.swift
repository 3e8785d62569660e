import AsyncHTTPClient
import AuthGateway
import Foundation
import Identity
import Logging
import NIOCore
import OperationLog
import ServiceKit
import Synchronization

/// A folder of a gateway and its log, which live as long as a test.
final class GatewayFixture: Sendable {
    static let now: Int64 = 1_800_000_000
    private let root = FileManager.default.temporaryDirectory.appendingPathComponent(
        "auth-\(UUID().uuidString)"
    ).path
    /// Attempts are all made at one moment, however long a test takes.
    private let started = ContinuousClock.now
    private let names = Mutex<[String]>([])
    private let logs = Mutex<[ObjectIdentifier: any OperationLog]>([:])

    deinit { try? FileManager.default.removeItem(atPath: root) }

    /// The gateway's own folder.
    var folder: String { "\(root)/auth" }
    var logPath: String { "\(root)/log.sqlite" }

    /// The databases that were registered, in order.
    var registered: [String] { names.withLock { $0 } }

    /// A gateway over the log of this fixture, to be served.
    /// - Parameters:
    ///   - providers: the text of the file of providers.
    ///   - wrap: puts something in front of the log.
    func gateway(
        providers: String? = nil, session: Duration = .seconds(3600), logger: Logger = GatewayFixture.quiet,
        now: @escaping @Sendable () -> Int64 = { GatewayFixture.now }, folder: String? = nil,
        wrap: (SQLiteOperationLog) -> any OperationLog = { $0 },
        choosing choose: (inout AuthGateway.Options) -> Void = { _ in }
    ) throws -> AuthGateway {
        try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
        var options = AuthGateway.Options()
        options.session = session
        let path = "\(root)/providers.json"
        defer { try? FileManager.default.removeItem(atPath: path) }
        if let providers {
            try Data(providers.utf8).write(to: URL(fileURLWithPath: path))
            options.providers = path
        }
        choose(&options)
        let log = wrap(try SQLiteOperationLog(path: logPath, logger: Self.quiet))
        let system = SystemDatabase(
            log: log, folder: "\(root)/system", pause: .milliseconds(1), trustsProxy: options.trustsProxy,
            logger: logger)
        logs.withLock { $0[ObjectIdentifier(system)] = log }
        return try AuthGateway(
            folder: folder ?? self.folder, system: system, options: options, nowSeconds: now,
            attemptClock: { [started] in started }, logger: logger
        ) { id in
            self.names.withLock { $0.append(id.text) }
            try await log.createDatabase(id)
        }
    }

    static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    /// Serves a gateway once, and closes its log.
    func serving<Result: Sendable>(
        _ gateway: AuthGateway, logger: Logger = GatewayFixture.quiet,
        _ body: @escaping @Sendable (ListenAddress) async throws -> Result
    ) async throws -> Result {
        let system = gateway.systemDatabase
        let parts: [any ServicePart] = [SystemDatabasePart(system), gateway]
        let host = ServiceHost(parts: parts, listen: .anyLoopbackPort, logger: logger)
        let log = logs.withLock { $0.removeValue(forKey: ObjectIdentifier(system)) }
        do {
            let result = try await host.run(while: body)
            await log?.close()
            return result
        } catch {
            await log?.close()
            throw error
        }
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

func login(_ address: ListenAddress, _ body: String, from origin: String? = nil) async throws -> Answer {
    var request = HTTPClientRequest(url: "\(address.origin)/_ditto/auth/login")
    request.method = .POST
    if let origin { request.headers.add(name: "X-Forwarded-For", value: origin) }
    request.body = .bytes(Array(body.utf8))
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
    return Answer(
        status: Int(response.status.code),
        body: Array(buffer: try await response.body.collect(upTo: 1_000_000)),
        retryAfter: response.headers.first(name: "Retry-After"))
}
