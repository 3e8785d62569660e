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

    func put(_ bytes: [UInt8]) async throws -> BlobID { try await place.put(bytes) }
    func get(_ id: BlobID) async throws -> [UInt8] { try await place.bytes(of: id) }

    /// Names of files that are arriving.
    var arriving: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/arrivals/incoming")) ?? []
    }
}

@Suite("Attachments in a bucket")
struct BucketPlaceTests {
    @Test("one request up to a part's bytes, several parts beyond; nothing is left on the way")
    func parts() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            for count in [Limits.bucketPartBytes, 2 * Limits.bucketPartBytes + 12] {
                let bytes = PlaceFixture.bytes(count)
                #expect(try await fixture.get(try await fixture.put(bytes)) == bytes)
            }
            #expect(bucket.state.withLock { $0.uploads.isEmpty } && fixture.arriving.isEmpty)
            #expect(bucket.keys.count == 2 && bucket.keys.allSatisfy { $0.hasPrefix("some/cars/blobs/") })
        }
    }

    @Test("answers that fail or break off cost time, a bucket that always fails is told, and nothing is left")
    func failures() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            bucket.state.withLock { $0.failures = 3 }
            let id = try await fixture.put([1, 2, 3])
            #expect(try await fixture.get(id) == [1, 2, 3])
            // Answers that break off are gone on with at the byte.
            let bytes = PlaceFixture.bytes(300_000)
            let long = try await fixture.put(bytes)
            bucket.state.withLock { $0.breaks = [0, 100_000, 1, 0, 99_999] }
            #expect(try await fixture.get(long) == bytes)
            #expect(bucket.state.withLock { $0.breaks.isEmpty })
            bucket.state.withLock { $0.failures = 1_000 }
            #expect(await placeCode { _ = try await fixture.put([4]) } == "ATT-0401")
            bucket.state.withLock { $0.failures = 0 }
            #expect(bucket.keys.count == 2 && fixture.arriving.isEmpty)
        }
    }

    @Test("an upload in parts that breaks off is given up in the bucket too, and an old one is cleaned up")
    func brokenParts() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let path = "\(fixture.folder)/short"
            try Data(PlaceFixture.bytes(Limits.bucketPartBytes + 5)).write(to: URL(fileURLWithPath: path))
            let upload = BucketUpload(client: fixture.place.client, key: "cars/blobs/xx/short.1")
            // The file is shorter than it was when it was announced.
            #expect(await placeCode { _ = try await upload.store(path, length: 20_000_000) } == "BLOB-0201")
            #expect(bucket.state.withLock { $0.uploads.isEmpty } && bucket.keys.isEmpty)
            bucket.state.withLock { $0.uploads["old"] = ("some/cars/blobs/xx/old.1", [:]) }
            try await fixture.place.removeLeftOvers(since: 900_000_000)
            #expect(bucket.state.withLock { $0.uploads.count } == 1)
            try await fixture.place.removeLeftOvers(since: 1_000_000_000)
            #expect(bucket.state.withLock { $0.uploads.isEmpty })
        }
    }

    @Test("a damaged object moves to another key of the bucket, which is told, and keeps its bytes")
    func damaged() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            let id = try await fixture.put([1, 2])
            let key = try #require(bucket.keys.first)
            bucket.store(key, [2, 1])
            #expect(await placeCode { _ = try await fixture.get(id) } == "BLOB-0202")
            let name = key.split(separator: "/")[4]
            #expect(bucket.keys == ["some/cars/damaged/" + name])
            #expect(fixture.damagedKeys == ["cars/damaged/" + name])
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
            #expect(await placeCode { _ = try await fixture.get(id) } == "ATT-0402")
            try Data("next\nother\n".utf8).write(to: URL(fileURLWithPath: "\(fixture.folder)/credentials"))
            #expect(try await fixture.get(id) == [7])
            try FileManager.default.removeItem(atPath: "\(fixture.folder)/credentials")
            bucket.state.withLock { $0.accessKey = "third" }
            #expect(await placeCode { _ = try await fixture.get(id) } == "ATT-0402")
        }
    }

    @Test("a database's objects are all removed with it, and no other's")
    func erasure() async throws {
        let bucket = FakeBucket()
        try await bucket.serving { origin in
            let fixture = try BucketFixture(bucket, origin)
            for number in 0..<5 { _ = try await fixture.put([UInt8(number)]) }
            bucket.store("some/boats/blobs/xx/other", [1])
            #expect(bucket.keys.count > 1)
            try await fixture.place.removeAll()
            #expect(bucket.keys == ["some/boats/blobs/xx/other"])
        }
    }
}
