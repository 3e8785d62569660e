import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import Logging
import OperationLog
import QueryService
import ServiceKit

/// A folder with a log, the keys of two databases of which the log has one, and a service on a free port.
final class QueryBench: Sendable {
    static let database = "cars"
    static let now: Int64 = 1_800_000_000
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("query-\(UUID().uuidString)")
        .path
    let key: DatabaseSigningKey
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
        bounds: QueryServicePart.Bounds = QueryServicePart.Bounds(),
        evaluation: EvaluationOptions = EvaluationOptions(),
        _ body: @escaping @Sendable (QueryClient) async throws -> Result
    ) async throws -> Result {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let part = QueryServicePart(
            log: log, authenticator: Authenticator(source: source, nowSeconds: { Self.now }),
            projection: postgres.map { .postgres(url: $0) } ?? .folder("\(folder)/\(projection)"),
            bounds: bounds, pool: EvaluationPool(evaluation), admin: AdminCredential(path: adminFile),
            logger: logger)
        let token = token()
        return try await ServiceHost(parts: [part], listen: .anyLoopbackPort, logger: logger).run { address in
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
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        let body = Array(buffer: try await response.body.collect(upTo: 50_000_000))
        return QueryAnswer(
            status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after"),
            body: try JSONText.parse(body))
    }
}

/// An answer's status and envelope.
struct QueryAnswer: Sendable {
    let status: Int
    let retryAfter: String?
    let body: Value

    var code: String? { body["error"]?["code"]?.stringValue }
    var transactionID: Int64? { body["transactionId"]?.intValue }
    var items: [Value] { body["items"]?.arrayValue ?? [] }
    /// The items as sorted JSON texts.
    var rows: [String] { items.map { JSONText.print($0, sortedKeys: true) }.sorted() }
}
