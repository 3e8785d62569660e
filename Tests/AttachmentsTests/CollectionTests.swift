import Foundation
import TestSupport
import Testing

@testable import Attachments

@Suite("Collection of blobs that nothing mentions")
final class CollectionTests {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("gc-\(UUID().uuidString)").path
    let store: BlobStore

    init() throws { store = try BlobStore(folder: folder) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func put(_ bytes: [UInt8]) throws -> BlobID {
        let writer = try store.writer()
        try writer.write(bytes)
        return try writer.finish().id
    }

    private var now: Int64 { Int64(Date().timeIntervalSince1970) }

    /// One pass in which documents mention these, and at the second look those too.
    private func pass(
        at seconds: Int64, mentioned: [BlobID] = [], later: [BlobID] = [], most: Int = 100
    ) throws -> CollectionPass.Report {
        let pass = try CollectionPass(store, nowSeconds: seconds, graceSeconds: 100, most: most)
        while let prefixes = try pass.nextSlice() {
            let due = try pass.settle(unmentioned: prefixes.subtracting(mentioned.map(\.prefix)))
            _ = try pass.remove(unmentioned: due.subtracting(later.map(\.prefix)))
        }
        return pass.report
    }

    @Test("a blob goes when nothing has mentioned it for the grace period, and is known to be gone")
    func grace() throws {
        let (kept, lost) = (try put([1]), try put([2]))
        #expect(try pass(at: now + 10, mentioned: [kept]).waiting == 1)
        #expect(try pass(at: now + 90, mentioned: [kept]).removed == 0)
        let report = try pass(at: now + 111, mentioned: [kept])
        #expect(report.removed == 1 && report.removedBytes == 1 && report.keptBytes == 1)
        #expect(try store.info(lost) == nil && store.info(kept) != nil)
        #expect(store.wasCollected(lost) && !store.wasCollected(kept))
        // Stored again it is there again.
        #expect(try put([2]) == lost)
        #expect(try store.reader(lost).length == 1)
    }

    @Test("a mention in between begins the grace period again, as does the same file stored again")
    func again() throws {
        let id = try put([1])
        _ = try pass(at: now + 10)
        _ = try pass(at: now + 200, mentioned: [id])
        #expect(try pass(at: now + 210).removed == 0)
        #expect(try pass(at: now + 305).removed == 0)
        // The clock of files says when it was stored.
        let path = "\(folder)/\(id.text.prefix(2))/\(id.text)"
        let late = Date(timeIntervalSince1970: TimeInterval(now + 300))
        try FileManager.default.setAttributes([.modificationDate: late], ofItemAtPath: path)
        #expect(try pass(at: now + 320).removed == 0)
        #expect(try pass(at: now + 401).removed == 1)
    }

    @Test("a document that comes between the first look and the second keeps its blob")
    func late() throws {
        let id = try put([1])
        _ = try pass(at: now + 10)
        #expect(try pass(at: now + 200, later: [id]).removed == 0)
        #expect(try store.info(id) != nil)
    }

    @Test("a pass removes no more than it may, and says that there is more")
    func bounded() throws {
        for byte in UInt8(0)..<20 { _ = try put([byte]) }
        _ = try pass(at: now + 1)
        let first = try pass(at: now + 200, most: 7)
        #expect(first.removed == 7 && first.waiting == 13)
        #expect(try pass(at: now + 200).removed == 13)
        #expect(try store.usage() == (0, 0))
    }

    @Test("a damaged ledger lengthens lives, and one process collects at a time")
    func ledger() throws {
        let id = try put([1])
        _ = try pass(at: now + 1)
        let path = "\(folder)/unmentioned/\(id.text.prefix(2))"
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes[35] ^= 0xFF
        try bytes.write(to: URL(fileURLWithPath: path))
        #expect(try pass(at: now + 200).removed == 0)
        let turn = try store.collectionTurn()
        #expect(turn != nil)
        #expect(try BlobStore(folder: folder).collectionTurn() == nil)
        turn?.end()
        #expect(try BlobStore(folder: folder).collectionTurn() != nil)
    }

    @Test("an id is found wherever it stands among other bytes, and nowhere else")
    func mentions() throws {
        var dice = SplitMix64(seed: Depth.seeds(fast: 1, deep: 1).lowerBound)
        for _ in Depth.cases(fast: 200, deep: 20_000) {
            let id = BlobID(digest: dice.bytes(count: 32))
            let other = BlobID(digest: dice.bytes(count: 32))
            let before = Array((dice.chance(50) ? "x+" : "abcDEF09-_").utf8)
            let after = dice.chance(50) ? [0x64] : Array("id\" }".utf8)
            let bytes = dice.bytes(count: dice.below(60)) + before + Array(id.text.utf8) + after
            var found: Set<UInt64> = []
            bytes.withUnsafeBytes { BlobMentions.forEach(in: $0) { found.insert($0) } }
            #expect(found.contains(id.prefix) && !found.contains(other.prefix))
            var cut: Set<UInt64> = []
            let short = Array("\"".utf8) + Array(id.text.utf8.dropLast()) + Array("\"".utf8)
            short.withUnsafeBytes { BlobMentions.forEach(in: $0) { cut.insert($0) } }
            #expect(cut.isEmpty)
        }
    }

    @Test("a listing goes on after any id, and ends")
    func listing() throws {
        let ids = try (UInt8(0)..<30).map { try put([$0, 9]) }.sorted { $0.text < $1.text }
        var (found, after): ([BlobID], String) = ([], "")
        while let last = try store.list(after: after, most: 7).last {
            found += try store.list(after: after, most: 7).map(\.id)
            after = last.id.text
        }
        #expect(found == ids)
    }

    @Test("the hashes of chunks are those of the bytes, made once and made again when their file is damaged")
    func chunks() throws {
        let bytes = (0..<2_500_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 / 256) }
        let id = try put(bytes)
        let list = try store.chunks(id)
        #expect(list.digests.count == 3)
        for (index, range) in [0..<1_048_576, 1_048_576..<2_097_152, 2_097_152..<2_500_000].enumerated() {
            #expect(BlobDigest(of: bytes[range]).bytes == list.digests[index])
        }
        let path = "\(folder)/chunks/\(id.text)"
        #expect(FileManager.default.contents(atPath: path)?.count == 128)
        try Data(repeating: 1, count: 128).write(to: URL(fileURLWithPath: path))
        #expect(try store.chunks(id) == list)
        #expect(try ChunkList(length: 2_500_000, texts: list.texts) == list)
        #expect(throws: AttachmentError.self) { try ChunkList(length: 1, texts: list.texts) }
        let empty = try put([])
        #expect(try store.chunks(empty).digests.isEmpty)
    }
}
