import AsyncHTTPClient
import Attachments
import CRDT
import Foundation
import NIOCore
import ServiceKit
import Synchronization

/// Blobs of one database in a bucket.
///
/// Layout, after the address's prefix and the database: `blobs/<two characters>/<id>.<stamp>` holds a blob,
/// `damaged/<id>.<stamp>` one that was set aside, `chunks/<id>` a list of chunk hashes, `unmentioned/<shelf>`
/// and `collected/<shelf>` the ledgers of the collection.
///
/// A bucket has no lock, so nothing depends on one. Each storing has a stamp of its own, so no object is ever
/// overwritten, and whoever removes a blob names the objects that it has seen: bytes that are stored
/// meanwhile have another name and stay. The object with the greatest stamp counts among those of one id, and
/// whoever stores removes smaller ones than its own.
///
/// `known` guards the entity tags of the objects that were compared with their ids, or were stored by this
/// process.
final class BucketPlace: BlobPlace {
    let arrivals: BlobStore
    let client: BucketClient
    /// The beginning of this database's keys.
    let base: String
    private let whenDamaged: @Sendable (BlobID, String) -> Void
    let nowSeconds: @Sendable () -> Int64
    private let known = Mutex<[String: String]>([:])

    /// - Parameters:
    ///   - arrivals: a store whose folder takes arriving bytes.
    ///   - whenDamaged: called for each blob that is set aside, with its new key.
    init(
        _ client: BucketClient, _ database: DatabaseID, arrivals: BlobStore,
        nowSeconds: @escaping @Sendable () -> Int64,
        whenDamaged: @escaping @Sendable (BlobID, String) -> Void
    ) {
        (self.client, self.arrivals, self.whenDamaged) = (client, arrivals, whenDamaged)
        (base, self.nowSeconds) = ("\(database)/", nowSeconds)
    }

    // MARK: Names

    /// The beginning of all keys of a blob.
    private func stem(_ id: BlobID) -> String { "\(base)blobs/\(id.text.prefix(2))/\(id.text)." }

    /// A stamp that no other storing has: the time, so that later ones are greater, and a drawn number.
    static func stamp(_ seconds: Int64) -> String {
        func digits(_ number: UInt64, _ count: Int) -> String {
            let text = String(number, radix: 16)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        return digits(UInt64(max(0, seconds)), 10) + digits(.random(in: .min ... .max), 16)
    }

    /// The id in the name of an object.
    static func id(_ name: some StringProtocol) -> BlobID? { try? BlobID(name.prefix { $0 != "." }) }

    /// A blob's objects, the one that counts last.
    private func objects(_ id: BlobID) async throws -> [BucketClient.Listed] {
        try await client.page(stem(id)).objects.sorted { $0.key < $1.key }
    }

    // MARK: Storing

    func adopt(_ info: BlobInfo, _ path: String) async throws {
        let key = stem(info.id) + Self.stamp(nowSeconds())
        let tag = try await BucketUpload(client: client, key: key).store(path, length: info.length)
        if let tag { remember(key, tag) }
        // Also objects of an id that were damaged: the newest one counts.
        for older in try await objects(info.id) where older.key < key { try? await client.delete(older.key) }
    }

    private func remember(_ key: String, _ tag: String) {
        known.withLock { known in
            if known.count >= Limits.knownObjects { known = [:] }
            known[key] = tag
        }
    }

    // MARK: Reading

    /// The object that counts, compared.
    private func compared(_ id: BlobID) async throws -> BucketClient.Listed {
        while true {
            guard let newest = try await objects(id).last else {
                guard try await client.page("\(base)damaged/\(id.text).", most: 1).objects.isEmpty else {
                    throw BlobFailure(error: .damaged(id))
                }
                throw BlobFailure(error: .unknown)
            }
            if known.withLock({ $0[newest.key] }) == newest.tag { return newest }
            if try await isRight(newest, id, { _ in }) { return newest }
        }
    }

    /// Reads an object and compares it.
    /// - Returns: false if it is gone meanwhile.
    /// - Throws: `BLOB-0202` when it differs, and was set aside.
    private func isRight(
        _ object: BucketClient.Listed, _ id: BlobID, _ pace: @Sendable (Int) -> Void
    ) async throws -> Bool {
        var digest = BlobDigest()
        do {
            try await stream(object.key, object.length, 0..<object.length) { buffer in
                buffer.withUnsafeReadableBytes { digest.update($0) }
                pace(buffer.readableBytes)
            }
        } catch is ObjectIsGone {
            return false
        }
        guard digest.id != id else {
            remember(object.key, object.tag)
            return true
        }
        let target = "\(base)damaged/" + object.key.split(separator: "/").suffix(1).joined()
        try await copy(object, to: target)
        whenDamaged(id, target)
        try await client.delete(object.key)
        throw BlobFailure(error: .damaged(id))
    }

    /// Copies within the bucket.
    private func copy(_ object: BucketClient.Listed, to target: String) async throws {
        let source = "/\(client.address.bucket)/\(client.address.prefix)\(object.key)"
        // A copy may fail after the status has said 200.
        _ = try await BucketClient.document(
            try await client.send("PUT", target, fields: [("x-amz-copy-source", source)]))
    }

    func open(_ id: BlobID) async throws -> any OpenBlob {
        let object = try await compared(id)
        return OpenObject(place: self, object: object, info: BlobInfo(id: id, length: object.length))
    }

    /// An object was removed, by a collection or for a newer one.
    private struct ObjectIsGone: Error {}

    /// Reads a range, and goes on after an answer that breaks off.
    private func stream(
        _ key: String, _ length: Int64, _ range: Range<Int64>,
        _ body: (ByteBuffer) async throws -> Void
    ) async throws {
        var offset = range.lowerBound
        var failures = 0
        while offset < range.upperBound {
            let before = offset
            let response = try await client.send(
                "GET", key, fields: [("range", "bytes=\(offset)-\(range.upperBound - 1)")])
            guard
                response.status.code == 206
                    || response.status.code == 200 && range == 0..<length
                        && offset == 0
            else {
                _ = try? await response.body.collect(upTo: Limits.bucketAnswerBytes)
                guard response.status.code != 404 else { throw ObjectIsGone() }
                throw AttachmentStoreError(
                    .bucketUnavailable, "the bucket answers \(response.status.code) for a range")
            }
            var buffers = response.body.makeAsyncIterator()
            while true {
                let next: ByteBuffer?
                do { next = try await buffers.next() } catch {
                    try Task.checkCancellation()
                    break
                }
                guard let next else { break }
                guard Int64(next.readableBytes) <= range.upperBound - offset else {
                    throw AttachmentStoreError(.bucketUnavailable, "the bucket sends more than was asked for")
                }
                try await body(next)
                offset += Int64(next.readableBytes)
            }
            failures = offset > before ? 0 : failures + 1
            guard failures < Limits.bucketAttempts else {
                throw AttachmentStoreError(.bucketUnavailable, "the bucket's answers break off")
            }
        }
    }

    private struct OpenObject: OpenBlob {
        let place: BucketPlace
        let object: BucketClient.Listed
        let info: BlobInfo

        func stream(_ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws {
            var (offset, key) = (range.lowerBound, object.key)
            while offset < range.upperBound {
                do {
                    try await place.stream(key, object.length, offset..<range.upperBound) { buffer in
                        try await body(buffer)
                        offset += Int64(buffer.readableBytes)
                    }
                } catch is ObjectIsGone {
                    // The same bytes may have been stored again.
                    key = try await place.compared(info.id).key
                }
            }
        }
    }

    func chunks(_ id: BlobID) async throws -> ChunkList {
        let object = try await compared(id)
        let key = "\(base)chunks/\(id.text)"
        if let bytes = try await client.small(key), let list = ChunkList(stored: bytes, length: object.length)
        {
            return list
        }
        var hasher = ChunkHasher()
        do {
            try await stream(object.key, object.length, 0..<object.length) {
                hasher.update(Array($0.readableBytesView))
            }
        } catch is ObjectIsGone {
            throw BlobFailure(error: .unknown)
        }
        let list = hasher.list()
        // A list that cannot be kept is made again.
        if list.digests.count > 1 { _ = try? await client.put(key, ByteBuffer(bytes: list.bytes)) }
        return list
    }

    func verify(_ id: BlobID, pace: @escaping @Sendable (Int) -> Void) async throws {
        while true {
            guard let newest = try await objects(id).last else { throw BlobFailure(error: .unknown) }
            if try await isRight(newest, id, pace) { return }
        }
    }

    // MARK: Listing

    func list(after: String, most: Int) async throws -> [BlobStore.Entry] {
        var found: [BlobStore.Entry] = []
        let start = after.isEmpty ? nil : "\(base)blobs/\(after.prefix(2))/\(after)/"
        try await forEachEntry("\(base)blobs/", after: start) { entry in
            guard found.count < most else { return false }
            found.append(entry)
            return true
        }
        return found
    }

    func usage() async throws -> (count: Int, bytes: Int64) {
        var (count, bytes) = (0, Int64(0))
        try await forEachEntry("\(base)blobs/") { entry in
            count += 1
            bytes += entry.length
            return true
        }
        return (count, bytes)
    }

    /// The blobs of a prefix, each with the names of its objects.
    func forEachEntry(
        _ prefix: String, after: String? = nil, _ body: (BlobStore.Entry) throws -> Bool
    ) async throws {
        var last: BlobStore.Entry?
        var goesOn = true
        try await client.forEach(prefix, after: after) { page in
            for object in page.objects {
                guard let name = object.key.split(separator: "/").last, let id = Self.id(name) else {
                    continue
                }
                let isSame = last?.id == id
                if let last, !isSame {
                    goesOn = try body(last)
                    guard goesOn else { return false }
                }
                last = BlobStore.Entry(
                    id: id, length: object.length,
                    storedAtSeconds: max(object.storedAtSeconds, isSame ? last?.storedAtSeconds ?? 0 : 0),
                    names: (isSame ? last?.names ?? [] : []) + [object.key])
            }
            return true
        }
        if goesOn, let last { _ = try body(last) }
    }

    func damagedIDs() async throws -> [BlobID] {
        var ids: Set<BlobID> = []
        try await client.forEach("\(base)damaged/") { page in
            for object in page.objects {
                if let name = object.key.split(separator: "/").last, let id = Self.id(name) { ids.insert(id) }
            }
            return ids.count < Limits.listedRows
        }
        var damaged: [BlobID] = []
        for id in ids where try await objects(id).isEmpty { damaged.append(id) }
        return damaged
    }

    func wasCollected(_ id: BlobID) async throws -> Bool {
        guard try await objects(id).isEmpty else { return false }
        let ledger = try await client.small("\(base)collected/\(id.text.prefix(2))") ?? []
        return BlobLedger.times(ledger)[id] != nil
    }

    // MARK: Removing

    func remove(_ id: BlobID) async throws {
        try await client.delete("\(base)chunks/\(id.text)")
        for object in try await objects(id) { try await client.delete(object.key) }
        for object in try await client.page("\(base)damaged/\(id.text).").objects {
            try await client.delete(object.key)
        }
    }

    func removeAll() async throws {
        try await removeUploads(since: .max)
        while true {
            let page = try await client.page(base)
            guard !page.objects.isEmpty else { break }
            for object in page.objects { try await client.delete(object.key) }
        }
        known.withLock { $0 = [:] }
    }

    func removeLeftOvers(since seconds: Int64) async throws { try await removeUploads(since: seconds) }

    /// Gives up uploads in parts that a killed process has left.
    private func removeUploads(since seconds: Int64) async throws {
        let answer = try await BucketClient.document(
            try await client.send(
                "GET", query: [("uploads", ""), ("prefix", client.address.prefix + base)]))
        for upload in answer.all("Upload") {
            guard let key = upload.first("Key"), let id = upload.first("UploadId"),
                key.hasPrefix(client.address.prefix + base),
                let begun = upload.first("Initiated").flatMap({ RequestSigner.seconds($0) }), begun <= seconds
            else { continue }
            let own = String(key.dropFirst(client.address.prefix.count))
            await BucketUpload(client: client, key: own).abort(id)
        }
    }
}
