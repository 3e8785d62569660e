import AsyncHTTPClient
import Attachments
import Crypto
import Foundation
import Logging
import Machine
import NIOCore
import ServiceKit
import Synchronization

/// Requests to one bucket. A request that fails without an answer, or with one that says "later", is repeated
/// within bounds: every request of ours may be sent twice, since no object is ever overwritten by another
/// content.
///
/// `credentials` are read from their file at first use, and again when the service refuses them: an operator
/// changes the file, and nothing is restarted.
final class BucketClient: Sendable {
    /// An object in a listing.
    struct Listed: Sendable, Equatable {
        var key: String
        var length: Int64
        var storedAtSeconds: Int64
        /// With its quotation marks.
        var tag: String
    }

    /// A page of a listing.
    struct Page: Sendable {
        var objects: [Listed] = []
        /// The parts of keys up to the delimiter.
        var prefixes: [String] = []
        /// The token of the next page; nil at the end.
        var next: String?
    }

    let address: BucketAddress
    private let credentials = Mutex<BucketCredentials?>(nil)
    private let nowSeconds: @Sendable () -> Int64
    /// Bounds the memory of uploads: a turn for each part that is held.
    let parts = BucketTurns(Limits.bucketPartsAtOnce)

    init(
        _ address: BucketAddress, nowSeconds: @escaping @Sendable () -> Int64 = { SystemClock.seconds() }
    ) {
        (self.address, self.nowSeconds) = (address, nowSeconds)
    }

    // MARK: Requests

    /// One request, repeated where that helps. Statuses up to 499 are the caller's, but for refused
    /// credentials.
    /// - Parameter key: without the address's prefix; nil for the bucket itself.
    /// - Throws: `ATT-0401` without a usable answer, `ATT-0402` when the bucket refuses.
    func send(
        _ method: String, _ key: String? = nil, query: [(name: String, value: String)] = [],
        fields: [(name: String, value: String)] = [], body: ByteBuffer? = nil
    ) async throws -> HTTPClientResponse {
        let digest = RequestSigner.hexadecimal(
            SHA256.hash(data: body.map { Data($0.readableBytesView) } ?? Data()))
        var pause = Limits.bucketPause
        var reason = ""
        var hasReread = false
        for attempt in 1...Limits.bucketAttempts {
            if attempt > 1 {
                try await Task.sleep(for: pause)
                pause *= 4
            }
            let used = try usedCredentials()
            let request = request(method, key, query, fields, body, digest, used)
            let response: HTTPClientResponse
            do {
                response = try await Self.http.execute(request, timeout: TimeAmount(Limits.bucketTimeout))
            } catch {
                try Task.checkCancellation()
                Self.count(method, "failed")
                reason = "\(error)"
                continue
            }
            switch response.status.code {
            case 429, 500...:
                Self.count(method, "failed")
                reason = "status \(response.status.code)"
                _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
            case 400, 401, 403:
                let code = await Self.code(response)
                // Clocks that differ, and requests that were long on their way, are met again by themselves.
                if !hasReread, try reread(after: used) || code == "RequestTimeout" {
                    hasReread = true
                    continue
                }
                Self.count(method, "refused")
                throw AttachmentStoreError(
                    .bucketRefused, "the bucket refuses \(method): \(code ?? "\(response.status.code)")")
            default:
                Self.count(method, "answered")
                return response
            }
        }
        throw AttachmentStoreError(
            .bucketUnavailable, "the bucket does not answer \(method): \(reason)",
            headers: [.retryAfter: "5"])
    }

    private func request(
        _ method: String, _ key: String?, _ query: [(name: String, value: String)],
        _ fields: [(name: String, value: String)], _ body: ByteBuffer?, _ digest: String,
        _ credentials: BucketCredentials
    ) -> HTTPClientRequest {
        let path = "/\(address.bucket)" + (key.map { "/\(address.prefix)\($0)" } ?? "")
        let signed = RequestSigner(region: address.region, credentials: credentials).fields(
            of: RequestSigner.Parts(
                method: method, path: path, query: query, fields: fields, bodyDigest: digest),
            host: address.host, atSeconds: nowSeconds())
        let text = RequestSigner.query(query)
        var request = HTTPClientRequest(url: address.origin + path + (text.isEmpty ? "" : "?\(text)"))
        request.method = .RAW(value: method)
        for field in signed { request.headers.add(name: field.name, value: field.value) }
        if let body { request.body = .bytes(body) }
        return request
    }

    private func usedCredentials() throws -> BucketCredentials {
        if let known = credentials.withLock({ $0 }) { return known }
        let read = try BucketCredentials(file: address.credentialsFile)
        credentials.withLock { $0 = read }
        return read
    }

    /// Reads the file again. Returns whether it has others than those that were refused.
    private func reread(after refused: BucketCredentials) throws -> Bool {
        let read = try BucketCredentials(file: address.credentialsFile)
        credentials.withLock { $0 = read }
        return read != refused
    }

    private static func code(_ response: HTTPClientResponse) async -> String? {
        guard let body = try? await response.body.collect(upTo: Limits.bucketAnswerBytes) else { return nil }
        return BucketDocument(Array(body.readableBytesView))?.first("Code")
    }

    private static func count(_ method: String, _ outcome: String) {
        Measured.count(
            "mimeo_attachment_bucket_requests_total", [("method", method), ("outcome", outcome)])
    }

    /// The whole of a small answer.
    /// - Throws: `ATT-0401` when it breaks off or is none of the protocol's.
    static func document(_ response: HTTPClientResponse) async throws -> BucketDocument {
        let body: ByteBuffer
        do {
            body = try await response.body.collect(upTo: Limits.bucketAnswerBytes)
        } catch {
            throw AttachmentStoreError(.bucketUnavailable, "an answer of the bucket broke off: \(error)")
        }
        guard (200...299).contains(response.status.code),
            let document = BucketDocument(Array(body.readableBytesView)), document.name != "Error"
        else {
            throw AttachmentStoreError(
                .bucketUnavailable,
                "the bucket answers \(response.status.code) "
                    + (BucketDocument(Array(body.readableBytesView))?.first("Code") ?? "without a reason"))
        }
        return document
    }

    // MARK: Objects

    /// Removes an object; one that is not there counts as removed.
    func delete(_ key: String) async throws {
        let response = try await send("DELETE", key)
        guard response.status.code < 300 || response.status.code == 404 else {
            throw AttachmentStoreError(
                .bucketUnavailable, "the bucket answers \(response.status.code) to a removal")
        }
        _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
    }

    /// Stores a small object.
    /// - Returns: its entity tag, if the bucket tells it.
    func put(_ key: String, _ bytes: ByteBuffer) async throws -> String? {
        let response = try await send("PUT", key, body: bytes)
        // It throws for every other status.
        guard response.status.code == 200 else { return try await Self.document(response).first("ETag") }
        _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
        return response.headers.first(name: "etag")
    }

    /// A small object; nil if it is not there.
    func small(_ key: String) async throws -> [UInt8]? {
        let response = try await send("GET", key)
        guard response.status.code == 200 else {
            _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
            return nil
        }
        return Array(try await response.body.collect(upTo: Limits.bucketSmallBytes).readableBytesView)
    }

    /// One page of keys.
    /// - Parameters:
    ///   - prefix: without the address's prefix; so are the keys in the answer.
    ///   - after: begin after this key.
    func page(
        _ prefix: String, delimiter: String? = nil, after: String? = nil, most: Int = 1_000,
        token: String? = nil
    ) async throws -> Page {
        var query = [
            (name: "list-type", value: "2"), (name: "prefix", value: address.prefix + prefix),
            (name: "max-keys", value: "\(most)"),
        ]
        if let delimiter { query.append(("delimiter", delimiter)) }
        if let token {
            query.append(("continuation-token", token))
        } else if let after {
            query.append(("start-after", address.prefix + after))
        }
        let answer = try await Self.document(try await send("GET", query: query))
        let prefixed = { [address] (text: String?) -> String? in
            text.flatMap { $0.hasPrefix(address.prefix) ? String($0.dropFirst(address.prefix.count)) : nil }
        }
        return Page(
            objects: answer.all("Contents").compactMap { element in
                guard let key = prefixed(element.first("Key")),
                    let length = element.first("Size").flatMap({ Int64($0) }),
                    let time = element.first("LastModified").flatMap({ RequestSigner.seconds($0) })
                else { return nil }
                return Listed(
                    key: key, length: length, storedAtSeconds: time, tag: element.first("ETag") ?? "")
            },
            prefixes: answer.all("CommonPrefixes").compactMap { prefixed($0.first("Prefix")) },
            next: answer.first("IsTruncated") == "true" ? answer.first("NextContinuationToken") : nil)
    }

    /// All keys of a prefix, page by page, until `body` returns false.
    func forEach(
        _ prefix: String, delimiter: String? = nil, after: String? = nil,
        _ body: (Page) async throws -> Bool
    ) async throws {
        var token: String?
        repeat {
            let page = try await page(prefix, delimiter: delimiter, after: after, token: token)
            guard try await body(page) else { return }
            token = page.next
        } while token != nil
    }

    /// Looks whether the bucket can be read; quickly, for health.
    func check() async throws { _ = try await page("", most: 1) }

    /// One client for the process, never shut down.
    private static let http: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.redirectConfiguration = .disallow
        configuration.decompression = .disabled
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Limits.bucketConnections
        configuration.timeout.connect = .seconds(5)
        // A body that stands still is one that broke off.
        configuration.timeout.read = TimeAmount(Limits.bucketSilence)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}

/// A number of turns; a task that finds none waits for one, in the order of asking.
final class BucketTurns: Sendable {
    private let free: Monitor<Int>

    init(_ count: Int) { free = Monitor(count) }

    func take() async {
        await free.take { free -> Void? in
            guard free > 0 else { return nil }
            free -= 1
            return ()
        }
    }

    func giveBack() { free.change { $0 += 1 } }
}
