import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import Logging
import OperationLog
import QueryService
import ServiceKit
import Synchronization

/// A folder with a log, the keys of two databases of which the log has one, and a service on a free port.
final class QueryBench: Sendable {
    static let database = "cars"
    static let now: Int64 = 1_800_000_000
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("query-\(UUID().uuidString)")
        .path
    let key: DatabaseSigningKey
    /// Seconds since 1970, as the service sees them.
    let clock = SharedClock()
    /// The key of a database that the log does not have.
    let otherKey: DatabaseSigningKey
    private let source: InMemoryKeySource
    /// The PostgreSQL database of the projections; nil keeps them in folders.
    private let postgres: String?

    init(postgres: String? = nil) throws {
        self.postgres = postgres
        key = try DatabaseSigningKey(databaseID: DatabaseID(Self.database), number: 1)
        otherKey = try DatabaseSigningKey(databaseID: "boats", number: 1)
        source = InMemoryKeySource(KeySet([key.publicKey, otherKey.publicKey]))
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// The file of the admin credential; there is none unless a test writes it.
    var adminFile: String { "\(folder)/admin.token" }

    /// The file of the key that seals secrets; there is none unless a test writes it.
    var secretsKey: String { "\(folder)/secrets.key" }

    func token(
        _ grant: Grant = .everything, key: DatabaseSigningKey? = nil, age: Int64 = 0, user: String = "ada"
    ) -> String {
        let key = key ?? self.key
        let identity = Identity(
            userID: user, databaseID: key.keyID.databaseID, peerKey: nil, grant: grant,
            expiresAtSeconds: Self.now + 100 - age)
        return AccessToken.issue(identity, with: key, nowSeconds: Self.now - age)
    }

    /// Opens the log in the folder, its database created.
    func openLog() async throws -> SQLiteOperationLog {
        let log = try SQLiteOperationLog(path: "\(folder)/log.sqlite")
        try await log.createDatabase(DatabaseID(Self.database))
        return log
    }

    /// Serves a log with a projection of the given name while `body` runs. In PostgreSQL all services share
    /// one.
    func serving<Result: Sendable>(
        _ log: any OperationLog, projection: String = "query",
        bounds: QueryServicePart.Bounds = QueryServicePart.Bounds(), system: SystemDatabase? = nil,
        evaluation: EvaluationOptions = EvaluationOptions(), pool: EvaluationPool? = nil,
        _ body: @escaping @Sendable (QueryClient) async throws -> Result
    ) async throws -> Result {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let part = QueryServicePart(
            log: log,
            authenticator: Authenticator(
                source: source, system: system, nowSeconds: { [clock] in clock.seconds }),
            projection: postgres.map { .postgres(url: $0) } ?? .folder("\(folder)/\(projection)"),
            past: "\(folder)/past", bounds: bounds, pool: pool ?? EvaluationPool(evaluation),
            admin: AdminCredential(path: adminFile), secretsKey: secretsKey, logger: logger)
        let token = token()
        let parts = (system.map { [SystemDatabasePart($0)] as [any ServicePart] } ?? []) + [part]
        return try await ServiceHost(parts: parts, listen: .anyLoopbackPort, logger: logger).run { address in
            try await body(QueryClient(origin: address.origin, token: token))
        }
    }

    /// A service of its own log for the length of `body`, once for each kind of projection.
    static func run(
        bounds: QueryServicePart.Bounds = QueryServicePart.Bounds(),
        evaluation: EvaluationOptions = EvaluationOptions(),
        _ body: @escaping @Sendable (QueryBench, QueryClient) async throws -> Void
    ) async throws {
        try await each { bench in
            let log = try await bench.openLog()
            try await bench.serving(log, bounds: bounds, evaluation: evaluation) { try await body(bench, $0) }
            await log.close()
        }
    }

    /// Runs `body` with projections in folders, and beside a PostgreSQL with projections in it too.
    static func each(_ body: (QueryBench) async throws -> Void) async throws {
        try await body(try QueryBench())
        guard PostgresDatabase.serverURL != nil else { return }
        try await PostgresDatabase.use { try await body(try QueryBench(postgres: $0)) }
    }
}

/// A clock that a test moves.
final class SharedClock: Sendable {
    private let now = Mutex(QueryBench.now)
    var seconds: Int64 { now.withLock { $0 } }
    func advance(by seconds: Int64) { now.withLock { $0 += seconds } }
}

/// Posts statements.
struct QueryClient: Sendable {
    let origin: String
    let token: String?

    func with(token: String?) -> QueryClient { QueryClient(origin: origin, token: token) }

    func execute(
        _ statement: String, _ arguments: Value = .object(ObjectValue()), version: String = "v5",
        headers: [String: String] = [:]
    ) async throws -> QueryAnswer {
        let body: Value = ["statement": .string(statement), "args": arguments]
        return try await post(Array(JSONText.print(body).utf8), version: version, headers: headers)
    }

    func post(
        _ body: [UInt8], version: String = "v5", headers: [String: String] = [:]
    ) async throws -> QueryAnswer {
        var request = HTTPClientRequest(url: "\(origin)/api/\(version)/store/execute")
        request.method = .POST
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        request.body = .bytes(body)
        return try await send(request)
    }

    /// Asks for a path, and reads the whole answer.
    func get(_ path: String, headers: [String: String] = [:], method: String = "GET") async throws
        -> TextAnswer
    {
        let response = try await open(path, headers: headers, method: method)
        return TextAnswer(
            status: Int(response.status.code),
            headers: Dictionary(response.headers.map { ($0.name.lowercased(), $0.value) }) { $1 },
            text: String(buffer: try await response.body.collect(upTo: 50_000_000)))
    }

    /// Begins to read an answer.
    func open(
        _ path: String, headers: [String: String] = [:], method: String = "GET", body: Value? = nil
    ) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: "\(origin)\(path)")
        request.method = .RAW(value: method)
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        if let body { request.body = .bytes(Array(JSONText.print(body).utf8)) }
        return try await Self.streams.execute(request, timeout: .seconds(120))
    }

    /// Never shut down. The shared client opens eight connections to a host, and a stream keeps its own.
    private static let streams: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    /// Reads lines of an open answer until `isEnough`, or to its end.
    static func lines(
        of response: HTTPClientResponse, until isEnough: ([Value]) -> Bool
    ) async throws -> [Value] {
        var (lines, rest) = ([Value](), [UInt8]())
        for try await buffer in response.body {
            rest += Array(buffer: buffer)
            while let end = rest.firstIndex(of: 10) {
                let line = Array(rest[..<end])
                rest.removeFirst(end + 1)
                if !line.isEmpty { lines.append(try JSONText.parse(line)) }
            }
            if isEnough(lines) { return lines }
        }
        return lines
    }

    /// Any request; the whole answer is the body.
    func send(
        _ path: String, method: String = "GET", bearer: String? = nil
    ) async throws -> QueryAnswer {
        var request = HTTPClientRequest(url: "\(origin)\(path)")
        request.method = .RAW(value: method)
        let bearer = bearer ?? token
        if let bearer { request.headers.add(name: "Authorization", value: "Bearer \(bearer)") }
        return try await send(request)
    }

    func health() async throws -> Int { try await send(HTTPClientRequest(url: "\(origin)/health")).status }

    private func send(_ request: HTTPClientRequest) async throws -> QueryAnswer {
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(120))
        let body = Array(buffer: try await response.body.collect(upTo: 50_000_000))
        return QueryAnswer(
            status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after"),
            isRepeated: response.headers.first(name: "idempotency-replayed") == "true",
            body: try JSONText.parse(body))
    }
}

/// An answer as text.
struct TextAnswer: Sendable {
    let status: Int
    let headers: [String: String]
    let text: String

    /// Its JSON values, one a line.
    var lines: [Value] {
        get throws {
            try text.split(separator: "\n").map { try JSONText.parse(Array($0.utf8)) }
        }
    }
    /// The error, if it is one.
    var error: Value? { (try? JSONText.parse(Array(text.utf8)))?["error"] }
    var code: String? { error?["code"]?.stringValue }
}

/// An answer's status and envelope.
struct QueryAnswer: Sendable {
    let status: Int
    let retryAfter: String?
    /// True if the service says that it has given the answer before.
    let isRepeated: Bool
    let body: Value

    var code: String? { body["error"]?["code"]?.stringValue }
    var transactionID: Int64? { body["transactionId"]?.intValue }
    var items: [Value] { body["items"]?.arrayValue ?? [] }
    /// The items as sorted JSON texts.
    var rows: [String] { items.map { JSONText.print($0, sortedKeys: true) }.sorted() }
}

/// Reads an open answer of JSON lines, one after the other.
struct LineReader {
    private var body: HTTPClientResponse.Body.AsyncIterator
    private var rest: [UInt8] = []

    init(_ response: HTTPClientResponse) { body = response.body.makeAsyncIterator() }

    /// The next line; nil at the end.
    mutating func next() async throws -> Value? {
        while true {
            while let end = rest.firstIndex(of: 10) {
                let line = Array(rest[..<end])
                rest.removeFirst(end + 1)
                if !line.isEmpty { return try JSONText.parse(line) }
            }
            guard let buffer = try await body.next() else { return nil }
            rest += Array(buffer: buffer)
        }
    }
}
