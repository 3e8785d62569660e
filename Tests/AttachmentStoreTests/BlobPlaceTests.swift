import Foundation
import NIOCore
import Synchronization
import Testing

@testable import AttachmentStore
@testable import Attachments

extension BlobPlace {
    /// Stores bytes as an upload does.
    func put(_ bytes: [UInt8]) async throws -> BlobID {
        let upload = try await Upload.begin(in: self)
        try await upload.write(bytes)
        return try await upload.finish().id
    }

    /// The bytes of a blob, or of a range of it.
    func bytes(of id: BlobID, _ range: Range<Int64>? = nil) async throws -> [UInt8] {
        let blob = try await open(id)
        let bytes = Mutex<[UInt8]>([])
        try await blob.stream(range ?? 0..<blob.info.length) { buffer in
            bytes.withLock { $0 += buffer.readableBytesView }
        }
        return bytes.withLock { $0 }
    }
}

/// The code of the error that a call to a place throws; nil without one.
func placeCode(_ body: () async throws -> Void) async -> String? {
    do {
        try await body()
        return nil
    } catch let error as BlobFailure {
        return error.error.code.rawValue
    } catch {
        return (error as? AttachmentStoreError)?.code.rawValue ?? "\(error)"
    }
}

/// A place of either kind.
struct PlaceFixture {
    enum Kind: Sendable, CaseIterable { case folder, bucket }

    let place: any BlobPlace
    /// Nil for a folder.
    let bucket: FakeBucket?
    private let folder: String

    static func bytes(_ count: Int, _ seed: UInt8 = 1) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) &+ seed }
    }

    /// Runs a body with an empty place.
    static func use(_ kind: Kind, _ body: @escaping @Sendable (PlaceFixture) async throws -> Void)
        async throws
    {
        guard kind == .folder else {
            let bucket = FakeBucket()
            return try await bucket.serving { origin in
                let fixture = try BucketFixture(bucket, origin)
                try await body(PlaceFixture(place: fixture.place, bucket: bucket, folder: fixture.folder))
            }
        }
        let name = "place-\(UUID().uuidString)"
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let store = try BlobStore(folder: folder)
        try await body(
            PlaceFixture(place: FolderPlace(arrivals: store, folder: folder), bucket: nil, folder: folder))
    }

    /// Gives a stored blob other bytes, behind the place's back.
    func damage(_ id: BlobID, _ bytes: [UInt8]) throws {
        guard let bucket else {
            return try Data(bytes).write(to: URL(fileURLWithPath: "\(folder)/\(id.text.prefix(2))/\(id)"))
        }
        bucket.store(
            try #require(bucket.keys.first { $0.contains("/blobs/") && $0.contains(id.text) }), bytes)
    }

    /// One pass of the collection, with a grace period of 100 seconds.
    func pass(at seconds: Int64, mentioned: [BlobID] = []) async throws -> CollectionPass.Report {
        let turn = try #require(try await place.collectionTurn())
        let blobs = turn.blobs
        let report = try await BlobStore.onDisk {
            let pass = try CollectionPass(blobs, nowSeconds: seconds, graceSeconds: 100)
            while let prefixes = try pass.nextSlice() {
                let due = try pass.settle(unmentioned: prefixes.subtracting(mentioned.map(\.prefix)))
                _ = try pass.remove(unmentioned: due)
            }
            return pass.report
        }
        await turn.end()
        return report
    }
}

@Suite("The promises of every place of attachments", .timeLimit(.minutes(5)))
struct BlobPlaceTests {
    @Test("bytes of any length come back whole and in ranges", arguments: PlaceFixture.Kind.allCases)
    func roundTrip(kind: PlaceFixture.Kind) async throws {
        try await PlaceFixture.use(kind) { fixture in
            for count in [0, 1, 70_000, 600_000] {
                let bytes = PlaceFixture.bytes(count)
                let id = try await fixture.place.put(bytes)
                #expect(try await fixture.place.bytes(of: id) == bytes)
                let middle = count / 3..<count / 2
                #expect(
                    try await fixture.place.bytes(of: id, Int64(middle.lowerBound)..<Int64(middle.upperBound))
                        == Array(bytes[middle]))
            }
            let usage = try await fixture.place.usage()
            #expect(usage.count == 4 && usage.bytes == 670_001)
        }
    }

    @Test(
        "a damaged blob is set aside and refused, and healed by the right bytes",
        arguments: PlaceFixture.Kind.allCases)
    func damage(kind: PlaceFixture.Kind) async throws {
        try await PlaceFixture.use(kind) { fixture in
            let place = fixture.place
            let id = try await place.put(PlaceFixture.bytes(5_000))
            try fixture.damage(id, PlaceFixture.bytes(5_000, 9))
            for _ in 1...2 {
                #expect(await placeCode { _ = try await place.bytes(of: id) } == "BLOB-0202")
            }
            #expect(try await place.damagedIDs() == [id])
            #expect(try await place.put(PlaceFixture.bytes(5_000)) == id)
            #expect(try await place.bytes(of: id) == PlaceFixture.bytes(5_000))
            #expect(try await place.damagedIDs().isEmpty)
        }
    }

    @Test(
        "a blob goes when nothing has mentioned it for the grace period, and is known to be gone",
        arguments: PlaceFixture.Kind.allCases)
    func collection(kind: PlaceFixture.Kind) async throws {
        try await PlaceFixture.use(kind) { fixture in
            let place = fixture.place
            let (kept, lost) = (try await place.put([1]), try await place.put([2]))
            let now: Int64 = 1_800_000_000
            #expect(try await fixture.pass(at: now + 10, mentioned: [kept]).waiting == 1)
            let report = try await fixture.pass(at: now + 111, mentioned: [kept])
            #expect(report.removed == 1 && report.mentioned == 1 && report.keptBytes == 1)
            #expect(await placeCode { _ = try await place.bytes(of: lost) } == "BLOB-0102")
            #expect(try await place.wasCollected(lost))
            #expect(try await !place.wasCollected(kept))
            #expect(try await place.put([2]) == lost)
            #expect(try await !place.wasCollected(lost))
            #expect(try await place.bytes(of: lost) == [2])
        }
    }

    @Test("listings go on after any id, in the order of the ids", arguments: PlaceFixture.Kind.allCases)
    func listings(kind: PlaceFixture.Kind) async throws {
        try await PlaceFixture.use(kind) { fixture in
            var ids: [String] = []
            for number in 0..<8 { ids.append(try await fixture.place.put([UInt8(number), 0]).text) }
            ids.sort()
            #expect(try await fixture.place.list(after: "", most: 100).map(\.id.text) == ids)
            #expect(try await fixture.place.list(after: ids[2], most: 2).map(\.id.text) == Array(ids[3...4]))
            #expect(try await fixture.place.usage().count == 8)
            let blobs = try #require(try await fixture.place.collectionTurn()).blobs
            let shelves = try await BlobStore.onDisk { try blobs.shelves() }
            #expect(shelves == Set(ids.map { String($0.prefix(2)) }).sorted())
        }
    }

    @Test("the chunk hashes are made once, and kept", arguments: PlaceFixture.Kind.allCases)
    func chunks(kind: PlaceFixture.Kind) async throws {
        try await PlaceFixture.use(kind) { fixture in
            let bytes = PlaceFixture.bytes(2_500_000)
            let id = try await fixture.place.put(bytes)
            var hasher = ChunkHasher()
            hasher.update(bytes)
            for _ in 1...2 { #expect(try await fixture.place.chunks(id) == hasher.list()) }
            #expect(fixture.bucket?.keys.contains("some/cars/chunks/\(id)") ?? true)
        }
    }

    @Test(
        "a verification reads every blob again, sets a damaged one aside, and says what it could not read",
        arguments: PlaceFixture.Kind.allCases)
    func verification(kind: PlaceFixture.Kind) async throws {
        try await PlaceFixture.use(kind) { fixture in
            var ids: [BlobID] = []
            for byte in UInt8(0)...3 { ids.append(try await fixture.place.put([byte, byte])) }
            // Known to be whole until now.
            #expect(try await fixture.place.bytes(of: ids[1]) == [1, 1])
            try fixture.damage(ids[1], [1, 2])
            let verification = Verification(fixture.place)
            _ = verification.begin()
            await verification.ended()
            let course = try #require(verification.course)
            #expect(course.checked == 4 && course.checkedBytes == 8 && course.damaged == 1)
            #expect(course.isWhole && course.unread == 0)
            #expect(try await fixture.place.damagedIDs() == [ids[1]])
        }
    }

    @Test("a verification of a bucket that goes away does not claim to be whole")
    func interrupted() async throws {
        try await PlaceFixture.use(.bucket) { fixture in
            _ = try await fixture.place.put([1])
            let verification = Verification(fixture.place)
            let bucket = try #require(fixture.bucket)
            // The listing comes, nothing after it.
            bucket.state.withLock { $0.afterListing = { $0.state.withLock { $0.failures = 1_000 } } }
            _ = verification.begin()
            await verification.ended()
            let course = try #require(verification.course)
            #expect(course.checked == 0 && course.unread == 1 && !course.isWhole && !course.isRunning)
        }
    }
}
