import Attachments
import Foundation
import NIOCore
import ServiceKit

/// Stores a file as an object: in one request, or in parts that become an object only when all are there.
struct BucketUpload {
    let client: BucketClient
    let key: String

    /// - Returns: the object's entity tag, if the bucket tells it.
    func store(_ path: String, length: Int64) async throws -> String? {
        let file = try await BlobStore.onDisk { try PlainFile(path) }
        guard length > Int64(Limits.bucketPartBytes) else {
            return try await withTurn {
                try await client.put(key, try await read(file, 0, length))
            }
        }
        let begun = try await BucketClient.document(
            try await client.send("POST", key, query: [("uploads", "")]))
        guard let upload = begun.first("UploadId") else {
            throw AttachmentStoreError(.bucketUnavailable, "the bucket begins no upload")
        }
        do {
            return try await send(file, length, upload)
        } catch {
            // Also for a client that is gone, whose task is cancelled.
            await Task { await abort(upload) }.value
            throw error
        }
    }

    private func send(_ file: PlainFile, _ length: Int64, _ upload: String) async throws -> String? {
        // A service takes 10,000 parts.
        let size = max(Int64(Limits.bucketPartBytes), length / 9_999 + 1)
        var tags: [String] = []
        var offset: Int64 = 0
        while offset < length {
            let (place, number) = (offset, tags.count + 1)
            let count = min(size, length - place)
            let tag: String? = try await withTurn {
                let response = try await client.send(
                    "PUT", key, query: [("partNumber", "\(number)"), ("uploadId", upload)],
                    body: try await read(file, place, count))
                _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
                return response.status.code == 200 ? response.headers.first(name: "etag") : nil
            }
            guard let tag else {
                throw AttachmentStoreError(.bucketUnavailable, "the bucket did not take part \(number)")
            }
            tags.append(tag)
            offset += count
        }
        let list = tags.enumerated().map { number, tag in
            let escaped = tag.replacingOccurrences(of: "\"", with: "&quot;")
            return "<Part><PartNumber>\(number + 1)</PartNumber><ETag>\(escaped)</ETag></Part>"
        }
        let body = "<CompleteMultipartUpload>\(list.joined())</CompleteMultipartUpload>"
        let done = try await BucketClient.document(
            try await client.send(
                "POST", key, query: [("uploadId", upload)], body: ByteBuffer(string: body)))
        return done.first("ETag")
    }

    private func withTurn<Result>(_ body: () async throws -> Result) async throws -> Result {
        await client.parts.take()
        defer { client.parts.giveBack() }
        return try await body()
    }

    private func read(_ file: PlainFile, _ offset: Int64, _ count: Int64) async throws -> ByteBuffer {
        try await BlobStore.onDisk {
            let bytes = try file.read(at: offset, count: Int(count))
            guard bytes.count == count else {
                throw AttachmentError(.storageFailed, "a file became shorter while it was stored")
            }
            return ByteBuffer(bytes: bytes)
        }
    }

    func abort(_ upload: String) async {
        let response = try? await client.send("DELETE", key, query: [("uploadId", upload)])
        _ = try? await response?.body.collect(upTo: Limits.bucketAnswerBytes)
    }
}

/// A file to read from.
private final class PlainFile: Sendable {
    private let descriptor: Int32

    init(_ path: String) throws(AttachmentError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw AttachmentError(.storageFailed, "the file \(path) cannot be opened")
        }
    }

    deinit { _ = close(descriptor) }

    func read(at offset: Int64, count: Int) throws(AttachmentError) -> [UInt8] {
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let got = pread(
                    descriptor, buffer.baseAddress.map { $0 + filled }, count - filled,
                    off_t(offset) + off_t(filled))
                if got < 0, errno == EINTR { continue }
                if got < 0 { failed = true }
                guard got > 0 else { break }
                filled += got
            }
        }
        if failed { throw AttachmentError(.storageFailed, "a file cannot be read") }
        return bytes
    }
}
