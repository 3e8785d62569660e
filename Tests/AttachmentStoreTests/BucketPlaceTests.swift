import Foundation
import NIOCore
import Synchronization
import Testing

@testable import AttachmentStore
@testable import Attachments

/// A place in a fake bucket, with a folder of its own for what arrives.
final class BucketFixture: Sendable {
    let bucket: FakeBucket
    let folder: String
    let place: BucketPlace
    private let damaged: Damaged

    private final class Damaged: Sendable {
        let keys = Mutex<[String]>([])
    }

    init(_ bucket: FakeBucket, _ origin: String, clock: Int64 = 1_800_000_000) throws {
        self.bucket = bucket
        folder =
            FileManager.default.temporaryDirectory.appendingPathComponent("bucket-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data("key\nsecret\n".utf8).write(to: URL(fileURLWithPath: "\(folder)/credentials"))
        let address = try BucketAddress(
            url: "\(origin)/bucket/some", region: nil, credentialsFile: "\(folder)/credentials")
        damaged = Damaged()
        let damaged = damaged
        place = BucketPlace(
            BucketClient(address), "cars", arrivals: try BlobStore(folder: "\(folder)/arrivals"),
            nowSeconds: { clock }
        ) { _, key in damaged.keys.withLock { $0.append(key) } }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    var damagedKeys: [String] { damaged.keys.withLock { $0 } }

    /// Stores bytes as an upload does.
    func put(_ bytes: [UInt8]) async throws -> BlobID {
        let upload = try await Upload.begin(in: place)
        try await upload.write(bytes)
        return try await upload.finish().id
    }

    func get(_ id: BlobID, _ range: Range<Int64>? = nil) async throws -> [UInt8] {
        let blob = try await place.open(id)
        let bytes = Mutex<[UInt8]>([])
        try await blob.stream(range ?? 0..<blob.info.length) { buffer in
            bytes.withLock { $0 += buffer.readableBytesView }
        }
        return bytes.withLock { $0 }
    }

    /// Names of files that are arriving.
    var arriving: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/arrivals/incoming")) ?? []
    }

    func pass(at seconds: Int64, mentioned: [BlobID] = []) async throws -> CollectionPass.Report {
        let blobs = BucketShelves(place: place)
        return try await BlobStore.onDisk {
            let pass = try CollectionPass(blobs, nowSeconds: seconds, graceSeconds: 100)
            while let prefixes = try pass.nextSlice() {
                let due = try pass.settle(unmentioned: prefixes.subtracting(mentioned.map(\.prefix)))
                _ = try pass.remove(unmentioned: due)
            }
            return pass.report
        }
    }
}

@Suite("Attachments in a bucket")
struct BucketPlaceTests {
    private static func bytes(_ count: Int, _ seed: UInt8 = 1) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) &+ seed }
    }

    private func code(_ body: () async throws -> Void) async -> String? {
        do {
            try await body()
            return nil
        } catch let error as BlobFailure {
            return error.error.code.rawValue
        } catch {
            return (error as? AttachmentStoreError)?.code.rawValue ?? "\(error)"
        }
    }

    @Test("bytes of any length come back whole and in ranges, and nothing is left on the way")
    func roundTrip() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            // One request up to a part's bytes, several parts beyond.
            for count in [0, 1, 70_000, Limits.bucketPartBytes, 2 * Limits.bucketPartBytes + 12] {
                let bytes = Self.bytes(count)
                let id = try await fixture.put(bytes)
                #expect(try await fixture.get(id) == bytes)
                let middle = Int64(count / 3)..<Int64(count / 2)
                #expect(
                    try await fixture.get(id, middle)
                        == Array(bytes[Int(middle.lowerBound)..<Int(middle.upperBound)]))
            }
            #expect(bucket.state.withLock { $0.uploads.isEmpty } && fixture.arriving.isEmpty)
            #expect(bucket.keys.count == 5 && bucket.keys.allSatisfy { $0.hasPrefix("some/cars/blobs/") })
            let usage = try await fixture.place.usage()
            #expect(usage.count == 5 && usage.bytes == Int64(3 * Limits.bucketPartBytes + 70_013))
        }
    }

    @Test("a bucket that fails now and then costs time, one that always fails is told, and nothing is left")
    func failures() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            bucket.state.withLock { $0.failures = 3 }
            let id = try await fixture.put([1, 2, 3])
            #expect(try await fixture.get(id) == [1, 2, 3])
            bucket.state.withLock { $0.failures = 1_000 }
            #expect(await code { _ = try await fixture.put([4]) } == "ATT-0401")
            bucket.state.withLock { $0.failures = 0 }
            #expect(bucket.keys.count == 1 && fixture.arriving.isEmpty)
        }
    }

    @Test("an upload in parts that breaks off is given up in the bucket too, and an old one is cleaned up")
    func brokenParts() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let path = "\(fixture.folder)/short"
            try Data(Self.bytes(Limits.bucketPartBytes + 5)).write(to: URL(fileURLWithPath: path))
            let upload = BucketUpload(client: fixture.place.client, key: "cars/blobs/xx/short.1")
            // The file is shorter than it was when it was announced.
            #expect(await code { _ = try await upload.store(path, length: 20_000_000) } == "BLOB-0201")
            #expect(bucket.state.withLock { $0.uploads.isEmpty } && bucket.keys.isEmpty)
            bucket.state.withLock { $0.uploads["old"] = ("some/cars/blobs/xx/old.1", [:]) }
            try await fixture.place.removeLeftOvers(since: 900_000_000)
            #expect(bucket.state.withLock { $0.uploads.count } == 1)
            try await fixture.place.removeLeftOvers(since: 1_000_000_000)
            #expect(bucket.state.withLock { $0.uploads.isEmpty })
        }
    }

    @Test("an answer that breaks off is gone on with at the byte")
    func brokenAnswers() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let bytes = Self.bytes(300_000)
            let id = try await fixture.put(bytes)
            bucket.state.withLock { $0.breaks = [0, 100_000, 1, 0, 99_999] }
            #expect(try await fixture.get(id) == bytes)
            #expect(bucket.state.withLock { $0.breaks.isEmpty })
        }
    }

    @Test("a damaged object is set aside and refused, and healed by the right bytes")
    func damage() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let id = try await fixture.put(Self.bytes(5_000))
            let key = try #require(bucket.keys.first)
            bucket.store(key, Self.bytes(5_000, 9))
            #expect(await code { _ = try await fixture.get(id) } == "BLOB-0202")
            let aside = "some/cars/damaged/" + key.split(separator: "/")[4]
            #expect(
                bucket.keys == [aside]
                    && fixture.damagedKeys == ["cars/damaged/" + key.split(separator: "/")[4]])
            #expect(await code { _ = try await fixture.get(id) } == "BLOB-0202")
            #expect(try await fixture.place.damagedIDs() == [id])
            #expect(try await fixture.put(Self.bytes(5_000)) == id)
            #expect(try await fixture.get(id) == Self.bytes(5_000))
            #expect(try await fixture.place.damagedIDs().isEmpty)
        }
    }

    @Test("two processes share a bucket: the one serves what the other stores, and one at a time collects")
    func shared() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let (one, two) = (try BucketFixture(bucket, origin), try BucketFixture(bucket, origin))
            let id = try await one.put([5, 6])
            #expect(try await two.get(id) == [5, 6])
            // Stored by both, it is there once.
            #expect(try await two.put([5, 6]) == id)
            #expect(try await one.place.usage().count == 1)
            let turn = try await one.place.collectionTurn()
            #expect(try await two.place.collectionTurn().map { _ in 1 } == nil)
            await turn?.end()
            #expect(try await two.place.collectionTurn().map { _ in 1 } != nil)
            // The process of a turn was killed: its time ends.
            let later = try BucketFixture(bucket, origin, clock: 1_800_000_000 + Limits.bucketTurnSeconds)
            #expect(try await later.place.collectionTurn().map { _ in 1 } != nil)
        }
    }

    @Test("an attachment goes when nothing has mentioned it for the grace period, and is known to be gone")
    func collection() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let (kept, lost) = (try await fixture.put([1]), try await fixture.put([2]))
            let now: Int64 = 1_800_000_000
            #expect(try await fixture.pass(at: now + 10, mentioned: [kept]).waiting == 1)
            let report = try await fixture.pass(at: now + 111, mentioned: [kept])
            #expect(report.removed == 1 && report.mentioned == 1 && report.keptBytes == 1)
            #expect(await code { _ = try await fixture.get(lost) } == "BLOB-0102")
            #expect(try await fixture.place.wasCollected(lost))
            #expect(try await !fixture.place.wasCollected(kept))
            #expect(try await fixture.put([2]) == lost)
            #expect(try await !fixture.place.wasCollected(lost))
            #expect(try await fixture.get(lost) == [2])
        }
    }

    @Test("what is stored again while a collection removes it stays")
    func storedMeanwhile() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let id = try await fixture.put([1, 2])
            let entry = try #require(try await fixture.place.list(after: "", most: 5).first)
            // After the look at the names, before the removal: the worst moment.
            let key = "some/cars/blobs/\(id.text.prefix(2))/\(id.text).ffffffffff"
            bucket.state.withLock { $0.afterListing = { $0.store(key, [1, 2]) } }
            let isGone = try await BlobStore.onDisk {
                try BucketShelves(place: fixture.place).collect(entry)
            }
            #expect(!isGone && bucket.keys == [key])
            #expect(try await fixture.get(id) == [1, 2])
        }
    }

    @Test("credentials that were changed in their file are used without a restart")
    func credentials() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let id = try await fixture.put([7])
            bucket.state.withLock { $0.accessKey = "next" }
            #expect(await code { _ = try await fixture.get(id) } == "ATT-0402")
            try Data("next\nother\n".utf8).write(to: URL(fileURLWithPath: "\(fixture.folder)/credentials"))
            #expect(try await fixture.get(id) == [7])
            try FileManager.default.removeItem(atPath: "\(fixture.folder)/credentials")
            bucket.state.withLock { $0.accessKey = "third" }
            #expect(await code { _ = try await fixture.get(id) } == "ATT-0402")
        }
    }

    @Test("listings go through all pages, in the order of the ids")
    func listings() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            var ids: [String] = []
            for number in 0..<8 { ids.append(try await fixture.put([UInt8(number), 0]).text) }
            ids.sort()
            #expect(try await fixture.place.list(after: "", most: 100).map(\.id.text) == ids)
            #expect(try await fixture.place.list(after: ids[2], most: 2).map(\.id.text) == Array(ids[3...4]))
            #expect(try await fixture.place.usage().count == 8)
            let shelves = try await BlobStore.onDisk { try BucketShelves(place: fixture.place).shelves() }
            #expect(shelves == Set(ids.map { String($0.prefix(2)) }).sorted())
        }
    }

    @Test("a database's objects are all removed with it, and no other's")
    func erasure() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            for number in 0..<5 { _ = try await fixture.put([UInt8(number)]) }
            bucket.store("some/boats/blobs/xx/other", [1])
            #expect(try await !fixture.place.isEmpty())
            try await fixture.place.removeAll()
            #expect(try await fixture.place.isEmpty() && bucket.keys == ["some/boats/blobs/xx/other"])
        }
    }

    @Test("the chunk hashes are made once, and kept in the bucket")
    func chunks() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let bytes = Self.bytes(2_500_000)
            let id = try await fixture.put(bytes)
            var hasher = ChunkHasher()
            hasher.update(bytes)
            #expect(try await fixture.place.chunks(id) == hasher.list())
            #expect(bucket.keys.contains("some/cars/chunks/\(id)"))
            #expect(try await fixture.place.chunks(id) == hasher.list())
        }
    }
}
