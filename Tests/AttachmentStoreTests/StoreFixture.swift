import AsyncHTTPClient
import AttachmentStore
import Attachments
import CRDT
import Foundation
import Identity
import Logging
import NIOCore
import OperationLog
import ServiceKit

/// A store with a folder of its own and keys of two databases.
final class StoreFixture: Sendable {
    static let now: Int64 = 1_800_000_000
    static let adminToken = "0123456789abcdef0123456789abcdef0123456789abcdef"
    let folder: String
    let key: DatabaseSigningKey
    let otherKey: DatabaseSigningKey
    let part: AttachmentStore
    let log: SQLiteOperationLog
    /// False for one whose folder is another fixture's.
    private let ownsFolder: Bool

    /// Another store on the folder of one that has stopped, with the same keys.
    convenience init(at other: StoreFixture) throws {
        try self.init(5_000_000, 0, other.folder, other.key, other.otherKey, ownsFolder: false)
    }

    convenience init(maximumBytes: Int64 = 5_000_000, quotaBytes: Int64 = 0) throws {
        try self.init(
            maximumBytes, quotaBytes,
            FileManager.default.temporaryDirectory.appendingPathComponent("store-\(UUID().uuidString)").path,
            try DatabaseSigningKey(databaseID: "cars", number: 1),
            try DatabaseSigningKey(databaseID: "boats", number: 1), ownsFolder: true)
    }

    private init(
        _ maximumBytes: Int64, _ quotaBytes: Int64, _ folder: String, _ key: DatabaseSigningKey,
        _ otherKey: DatabaseSigningKey,
        ownsFolder: Bool
    ) throws {
        (self.folder, self.key, self.otherKey, self.ownsFolder) = (folder, key, otherKey, ownsFolder)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        log = try SQLiteOperationLog(path: "\(folder)/log.sqlite")
        let source = InMemoryKeySource(KeySet([key.publicKey, otherKey.publicKey]))
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        var options = AttachmentOptions()
        (options.maximumBytes, options.quotaBytes) = (maximumBytes, quotaBytes)
        try Data(Self.adminToken.utf8).write(to: URL(fileURLWithPath: "\(folder)/admin.token"))
        part = AttachmentStore(
            folder: "\(folder)/blobs", log: log,
            documents: Materializations(of: log, folder: "\(folder)/documents", logger: logger),
            authenticator: Authenticator(source: source, nowSeconds: { Self.now }),
            options: options, admin: AdminCredential(path: "\(folder)/admin.token"), logger: logger)
    }

    deinit { if ownsFolder { try? FileManager.default.removeItem(atPath: folder) } }

    func token(
        _ grant: Grant = .everything, key: DatabaseSigningKey? = nil, user: String = "ada"
    ) -> String {
        let key = key ?? self.key
        let identity = Identity(
            userID: user, databaseID: key.keyID.databaseID, peerKey: nil, grant: grant,
            expiresAtSeconds: Self.now + 100)
        return AccessToken.issue(identity, with: key, nowSeconds: Self.now)
    }

    /// Files that are stored or arriving.
    var files: [String] {
        let blobs = "\(folder)/blobs"
        let all = FileManager.default.enumerator(atPath: blobs)?.compactMap { $0 as? String } ?? []
        return all.filter { FileManager.default.contents(atPath: "\(blobs)/\($0)") != nil }
    }

    /// The bytes of the greatest of them.
    var greatestFile: Int {
        files.compactMap { name in
            let facts = try? FileManager.default.attributesOfItem(atPath: "\(folder)/blobs/\(name)")
            return facts?[.size] as? Int
        }.max() ?? 0
    }

    func serving<Result: Sendable>(
        _ body: @escaping @Sendable (StoreClient) async throws -> Result
    ) async throws -> Result {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let token = token()
        for key in [key, otherKey] { _ = try await log.createDatabase(key.keyID.databaseID) }
        return try await ServiceHost(parts: [part], listen: .anyLoopbackPort, logger: logger).run { address in
            try await body(StoreClient(address: address, token: token))
        }
    }
}

struct Answer: Sendable {
    var status: Int
    var headers: [String: String]
    var body: [UInt8]

    var code: String? {
        struct Body: Decodable {
            struct Failure: Decodable { var code: String, message: String }
            var error: Failure
        }
        return try? JSONDecoder().decode(Body.self, from: Data(body)).error.code
    }

    /// The body as the answer to an upload; nil if it is none.
    var stored: Stored? { try? JSONDecoder().decode(Stored.self, from: Data(body)) }

    struct Stored: Decodable, Sendable, Equatable {
        var id: String
        var len: Int64
    }
}

struct StoreClient: Sendable {
    var address: ListenAddress
    var token: String?

    func with(token: String?) -> StoreClient { StoreClient(address: address, token: token) }

    func upload(
        _ body: HTTPClientRequest.Body, type: String = "application/octet-stream", version: String = "v5"
    ) async throws -> Answer {
        try await send("POST", "/api/\(version)/attachments/upload", ["Content-Type": type], body)
    }

    func get(_ id: String, _ headers: [String: String] = [:], method: String = "GET") async throws -> Answer {
        try await send(method, "/api/v4/attachments/\(id)", headers, nil)
    }

    func send(
        _ method: String, _ path: String, _ headers: [String: String] = [:],
        _ body: HTTPClientRequest.Body? = nil
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: "\(address.origin)\(path)")
        request.method = .RAW(value: method)
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        request.body = body
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let pairs = response.headers.map { ($0.name.lowercased(), $0.value) }
        return Answer(
            status: Int(response.status.code), headers: Dictionary(pairs) { first, _ in first },
            body: Array(buffer: try await response.body.collect(upTo: 50_000_000)))
    }
}

/// A form of the given parts, with the boundary `b`.
func form(_ parts: (headers: String, body: [UInt8])...) -> [UInt8] {
    var bytes: [UInt8] = []
    for part in parts {
        bytes += Array("--b\r\n\(part.headers)\r\n\r\n".utf8) + part.body + Array("\r\n".utf8)
    }
    return bytes + Array("--b--\r\n".utf8)
}
