import Foundation
import NIOCore

/// A bucket for whole files: `mimeo backup` stores into one. Keys count from the address's prefix.
public struct BucketFiles: Sendable {
    private let client: BucketClient

    /// An object in a listing.
    public struct Object: Sendable {
        /// Without the address's prefix.
        public let key: String
        /// Its size.
        public let length: Int64
        /// The bucket's time of its storing, in seconds since 1970.
        public let storedAtSeconds: Int64
    }

    /// No request is made yet.
    public init(_ address: BucketAddress) { client = BucketClient(address) }

    /// Stores a file as an object, which appears whole.
    /// - Throws: `ATT-0401`, `ATT-0402`.
    public func store(_ path: String, as key: String) async throws {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        let length = (attributes?[.size] as? NSNumber)?.int64Value ?? 0
        _ = try await BucketUpload(client: client, key: key).store(path, length: length)
    }

    /// Reads an object, and goes on after an answer that breaks off.
    /// - Returns: false if there is none.
    /// - Throws: `ATT-0401`, `ATT-0402`, and what `body` throws.
    public func read(_ key: String, _ body: (_ part: [UInt8]) throws -> Void) async throws -> Bool {
        var (offset, failures) = (Int64(0), 0)
        while true {
            let fields = offset == 0 ? [] : [(name: "range", value: "bytes=\(offset)-")]
            let response = try await client.send("GET", key, fields: fields)
            guard response.status.code == (offset == 0 ? 200 : 206) else {
                _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
                if response.status.code == 404, offset == 0 { return false }
                throw AttachmentStoreError(
                    .bucketUnavailable, "the bucket answers \(response.status.code) to a read")
            }
            let length = response.headers.first(name: "content-length").flatMap { Int64($0) }
            let before = offset
            var buffers = response.body.makeAsyncIterator()
            var isBroken = false
            while true {
                let next: ByteBuffer?
                do { next = try await buffers.next() } catch {
                    try Task.checkCancellation()
                    isBroken = true
                    break
                }
                guard let next else { break }
                try body(Array(next.readableBytesView))
                offset += Int64(next.readableBytes)
            }
            if !isBroken, length.map({ offset - before == $0 }) ?? true { return true }
            failures = offset > before ? 0 : failures + 1
            guard failures < Limits.bucketAttempts else {
                throw AttachmentStoreError(.bucketUnavailable, "the bucket's answers break off")
            }
        }
    }

    /// Removes an object; one that is not there counts as removed.
    /// - Throws: `ATT-0401`, `ATT-0402`.
    public func remove(_ key: String) async throws { try await client.delete(key) }

    /// Visits the objects of a prefix in the order of their keys, page by page.
    /// - Throws: `ATT-0401`, `ATT-0402`, and what `body` throws.
    public func forEach(_ prefix: String, _ body: (Object) async throws -> Void) async throws {
        try await client.forEach(prefix) { page in
            for object in page.objects {
                try await body(
                    Object(
                        key: object.key, length: object.length, storedAtSeconds: object.storedAtSeconds))
            }
            return true
        }
    }
}
