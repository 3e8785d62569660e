import AsyncHTTPClient
import Foundation
import Hummingbird
import Logging
import NIOCore
import ServiceKit
import Synchronization

/// A service made of closures.
struct TestPart: ServicePart {
    var name = "test"
    var mounting: @Sendable (inout ServiceMount) throws -> Void = { _ in }
    var starting: @Sendable () async throws -> Void = {}
    var stopping: @Sendable () async -> Void = {}
    var draining: @Sendable () async -> Void = {}
    var check: HealthCheck = .ok

    func mount(on mount: inout ServiceMount) throws { try mounting(&mount) }
    func start() async throws { try await starting() }
    func stop() async { await stopping() }
    func drain() async { await draining() }
    func health() async -> HealthCheck { check }
}

/// A host of the given parts on a port of the system's choice, for as long as `body` runs.
func serving<Result: Sendable>(
    _ parts: [any ServicePart], cors: CORSPolicy = .none,
    _ body: @escaping @Sendable (ListenAddress) async throws -> Result
) async throws -> Result {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return try await ServiceHost(parts: parts, listen: .anyLoopbackPort, cors: cors, logger: logger)
        .run(while: body)
}

func serving<Result: Sendable>(
    _ mounting: @escaping @Sendable (inout ServiceMount) throws -> Void,
    _ body: @escaping @Sendable (ListenAddress) async throws -> Result
) async throws -> Result {
    try await serving([TestPart(mounting: mounting)], body)
}

/// The answer to a request.
struct Answer: Sendable {
    var status: Int
    var headers: [String: String]
    var body: String

    /// The code of an error answer.
    var code: String? {
        struct Body: Decodable {
            struct Failure: Decodable { var code: String, message: String }
            var error: Failure
        }
        return try? JSONDecoder().decode(Body.self, from: Data(body.utf8)).error.code
    }
}

func ask(
    _ address: ListenAddress, _ path: String, method: String = "GET", headers: [String: String] = [:],
    body: [UInt8]? = nil
) async throws -> Answer {
    var request = HTTPClientRequest(url: "\(address.origin)\(path)")
    request.method = .RAW(value: method)
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    if let body { request.body = .bytes(body) }
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
    let bytes = try await response.body.collect(upTo: 10_000_000)
    let pairs = response.headers.map { ($0.name.lowercased(), $0.value) }
    return Answer(
        status: Int(response.status.code), headers: Dictionary(pairs) { first, _ in first },
        body: String(buffer: bytes))
}

/// Something tests in several tasks write to.
final class Box<Value: Sendable>: Sendable {
    private let content: Mutex<Value>

    init(_ value: Value) { content = Mutex(value) }

    var value: Value { content.withLock { $0 } }

    func change(_ body: @Sendable (inout Value) -> Void) { content.withLock { body(&$0) } }
}
