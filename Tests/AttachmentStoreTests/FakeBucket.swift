import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Synchronization

/// A service that speaks the part of S3 that we use, in memory, and fails on demand. `state` guards it.
final class FakeBucket: Sendable {
    struct Stored: Sendable {
        var bytes: [UInt8]
        var time: Int64
        var tag: String
    }

    struct State {
        var objects: [String: Stored] = [:]
        var uploads: [String: (key: String, parts: [Int: [UInt8]])] = [:]
        var last = 0
        /// The seconds since 1970 of what is stored next.
        var now: Int64 = 1_800_000_000
        /// Answers with 503 for the next so many requests.
        var failures = 0
        /// Answers of objects that break off after so many bytes.
        var breaks: [Int] = []
        var accessKey = "key"
        var requests: [String] = []
        /// Called once, after the next listing.
        var afterListing: (@Sendable (FakeBucket) -> Void)?
    }

    let state = Mutex(State())

    func serving<Result: Sendable>(
        _ body: @escaping @Sendable (String) async throws -> Result
    ) async throws -> Result {
        let (ports, told) = AsyncStream.makeStream(of: Int.self)
        var logger = Logger(label: "bucket")
        logger.logLevel = .critical
        let application = Application(
            responder: CallbackResponder { (request: Request, _: BasicRequestContext) in
                try await self.answer(request)
            },
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { told.yield($0.localAddress?.port ?? 0) }, logger: logger)
        return try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask {
                try await application.run()
                return nil
            }
            group.addTask {
                for await port in ports { return try await body("http://127.0.0.1:\(port)") }
                return nil
            }
            while let result = try await group.next() {
                guard let result else { continue }
                group.cancelAll()
                return result
            }
            throw CancellationError()
        }
    }

    /// Stores an object, as somebody else would.
    func store(_ key: String, _ bytes: [UInt8]) {
        state.withLock { state in
            state.last += 1
            state.objects[key] = Stored(bytes: bytes, time: state.now, tag: "\"\(state.last)\"")
        }
    }

    var keys: [String] { state.withLock { $0.objects.keys.sorted() } }

    private func answer(_ request: Request) async throws -> Response {
        let query = Dictionary(
            request.uri.queryParameters.map { (String($0.key), String($0.value)) }, uniquingKeysWith: { $1 })
        let key = String(request.uri.path.dropFirst("/bucket".count).drop { $0 == "/" })
        let body = [UInt8](
            Array(buffer: try await request.body.collect(upTo: 64 * 1024 * 1024)))
        let authorization = request.headers[.authorization] ?? ""
        let refusal: Response? = state.withLock { state in
            state.requests.append("\(request.method.rawValue) \(key)")
            if state.failures > 0 {
                state.failures -= 1
                return Self.error(503, "SlowDown")
            }
            let isSigned = authorization.contains("Credential=\(state.accessKey)/")
            return isSigned ? nil : Self.error(403, "InvalidAccessKeyId")
        }
        if let refusal { return refusal }
        switch request.method {
        case .get where key.isEmpty && query["uploads"] != nil: return uploads()
        case .get where key.isEmpty: return list(query)
        case .get: return get(key, request.headers[.range])
        case .put where query["uploadId"] != nil:
            return part(query["uploadId"] ?? "", Int(query["partNumber"] ?? "") ?? 0, body)
        case .put: return put(key, body, copying: request.headers[HTTPField.Name("x-amz-copy-source")!])
        case .post where query["uploads"] != nil:
            let id = state.withLock { state in
                state.last += 1
                state.uploads["u\(state.last)"] = (key, [:])
                return "u\(state.last)"
            }
            return Self.xml("<R><UploadId>\(id)</UploadId></R>")
        case .post: return complete(query["uploadId"] ?? "")
        case .delete:
            state.withLock { state in
                if let id = query["uploadId"] {
                    state.uploads[id] = nil
                } else {
                    state.objects[key] = nil
                }
            }
            return Response(status: .noContent)
        default: return Self.error(405, "MethodNotAllowed")
        }
    }

    private func part(_ upload: String, _ number: Int, _ body: [UInt8]) -> Response {
        state.withLock { state in
            guard state.uploads[upload] != nil else { return Self.error(404, "NoSuchUpload") }
            state.uploads[upload]?.parts[number] = body
            return Response(status: .ok, headers: [.eTag: "\"p\(number)\""])
        }
    }

    private func complete(_ upload: String) -> Response {
        let done: (String, [UInt8])? = state.withLock { state in
            guard let found = state.uploads.removeValue(forKey: upload) else { return nil }
            return (found.key, found.parts.sorted { $0.key < $1.key }.flatMap(\.value))
        }
        guard let (key, bytes) = done else { return Self.error(404, "NoSuchUpload") }
        store(key, bytes)
        let tag = state.withLock { $0.objects[key]?.tag ?? "" }
        return Self.xml("<R><ETag>\(tag.replacingOccurrences(of: "\"", with: "&quot;"))</ETag></R>")
    }

    private func put(_ key: String, _ body: [UInt8], copying source: String?) -> Response {
        guard let source else {
            store(key, body)
            return Response(
                status: .ok, headers: [.eTag: state.withLock { $0.objects[key]?.tag ?? "" }])
        }
        let from = String(source.dropFirst("/bucket/".count))
        guard let bytes = state.withLock({ $0.objects[from]?.bytes }) else {
            return Self.error(404, "NoSuchKey")
        }
        store(key, bytes)
        return Self.xml("<CopyObjectResult></CopyObjectResult>")
    }

    private func get(_ key: String, _ range: String?) -> Response {
        let (found, cut) = state.withLock { state in
            (state.objects[key], range == nil || state.breaks.isEmpty ? nil : state.breaks.removeFirst())
        }
        guard let found else { return Self.error(404, "NoSuchKey") }
        guard let range else {
            return Response(status: .ok, body: .init(byteBuffer: ByteBuffer(bytes: found.bytes)))
        }
        let ends = range.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
        guard ends.count == 2, ends[0] < found.bytes.count else { return Self.error(416, "InvalidRange") }
        let bytes = Array(found.bytes[ends[0]...min(ends[1], found.bytes.count - 1)])
        let sent = cut.map { Array(bytes.prefix($0)) } ?? bytes
        return Response(
            status: .partialContent,
            body: ResponseBody(contentLength: bytes.count) { writer in
                try await writer.write(ByteBuffer(bytes: sent))
                if sent.count < bytes.count { throw CancellationError() }
                try await writer.finish(nil)
            })
    }

    private func uploads() -> Response {
        let all = state.withLock { $0.uploads.mapValues(\.key) }
        let rows = all.map { id, key in
            "<Upload><Key>\(key)</Key><UploadId>\(id)</UploadId>"
                + "<Initiated>2000-01-01T00:00:00.000Z</Initiated></Upload>"
        }
        return Self.xml("<R>\(rows.joined())</R>")
    }

    /// Pages of three keys at most, so that every listing has several.
    private func list(_ query: [String: String]) -> Response {
        let prefix = query["prefix"] ?? ""
        let after = query["continuation-token"] ?? query["start-after"] ?? ""
        let most = min(Int(query["max-keys"] ?? "") ?? 1_000, 3)
        let (found, hook) = state.withLock { state in
            defer { state.afterListing = nil }
            return (state.objects.filter { $0.key.hasPrefix(prefix) && $0.key > after }, state.afterListing)
        }
        var (rows, prefixes, last) = ("", Set<String>(), after)
        var isTruncated = false
        for key in found.keys.sorted() {
            guard let object = found[key] else { continue }
            if let delimiter = query["delimiter"],
                let end = key.dropFirst(prefix.count).firstRange(of: delimiter)
            {
                prefixes.insert(prefix + key.dropFirst(prefix.count)[..<end.upperBound])
                continue
            }
            guard rows.components(separatedBy: "<Contents>").count <= most else {
                isTruncated = true
                break
            }
            last = key
            let seconds = Date(timeIntervalSince1970: Double(object.time)).ISO8601Format()
            rows +=
                "<Contents><Key>\(key)</Key><Size>\(object.bytes.count)</Size>"
                + "<LastModified>\(seconds.dropLast()).000Z</LastModified>"
                + "<ETag>\(object.tag.replacingOccurrences(of: "\"", with: "&quot;"))</ETag></Contents>"
        }
        let common = prefixes.sorted().map { "<CommonPrefixes><Prefix>\($0)</Prefix></CommonPrefixes>" }
        hook?(self)
        return Self.xml(
            "<ListBucketResult>\(rows)\(common.joined())<IsTruncated>\(isTruncated)</IsTruncated>"
                + "<NextContinuationToken>\(last)</NextContinuationToken></ListBucketResult>")
    }

    private static func xml(_ text: String) -> Response {
        Response(
            status: .ok,
            body: .init(byteBuffer: ByteBuffer(string: "<?xml version=\"1.0\"?>\n" + text)))
    }

    private static func error(_ status: Int, _ code: String) -> Response {
        Response(
            status: .init(code: status),
            body: .init(byteBuffer: ByteBuffer(string: "<Error><Code>\(code)</Code></Error>")))
    }
}
