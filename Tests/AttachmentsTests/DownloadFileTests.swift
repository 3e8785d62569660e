import Foundation
import Testing

@testable import Attachments

@Suite("The received part of a blob")
final class DownloadFileTests {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("dl-\(UUID().uuidString)").path
    let store: BlobStore
    let bytes = (0..<2_300_000).map { UInt8(truncatingIfNeeded: $0 &* 3 &+ $0 / 256) }
    let id: BlobID
    let list: ChunkList

    init() throws {
        store = try BlobStore(folder: folder)
        id = BlobDigest.id(of: bytes)
        var hasher = ChunkHasher()
        hasher.update(bytes)
        list = hasher.list()
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func open() throws -> DownloadFile { try DownloadFile(store, id, length: 2_300_000) }

    @Test("it goes on at the byte after each opening, and becomes the blob")
    func resumed() throws {
        var file: DownloadFile? = try open()
        try file?.setChunks(list)
        #expect(try file?.append(Array(bytes[..<1_500_000])) == .fine)
        #expect(throws: AttachmentError.self) { try self.open() }
        file = nil
        file = try open()
        #expect(file?.received == 1_500_000 && file?.chunks == list)
        #expect(try file?.append(Array(bytes[1_500_000...])) == .fine)
        #expect(try file?.finish() == true)
        #expect(try store.reader(id).length == 2_300_000)
        let left = try FileManager.default.contentsOfDirectory(atPath: folder + "/downloads")
        #expect(left == [])
    }

    @Test("a turned bit costs its chunk: when it arrives, and when the disk has turned it")
    func turned() throws {
        var file: DownloadFile? = try open()
        try file?.setChunks(list)
        var wrong = bytes
        wrong[1_200_000] ^= 4
        #expect(try file?.append(Array(wrong[..<2_200_000])) == .wrongChunk)
        #expect(file?.received == 1_048_576)
        #expect(try file?.append(Array(bytes[1_048_576..<2_200_000])) == .fine)
        file = nil
        let path = "\(folder)/downloads/\(id.text)-2300000"
        var stored = try Data(contentsOf: URL(fileURLWithPath: path))
        stored[5] ^= 1
        try stored.write(to: URL(fileURLWithPath: path))
        file = try open()
        #expect(file?.received == 0)
    }

    @Test("without hashes the whole decides, and hashes that come later drop what they do not fit")
    func late() throws {
        var wrong = bytes
        wrong[10] ^= 1
        let file = try open()
        #expect(try file.append(wrong) == .fine)
        #expect(try file.finish() == false)
        #expect(file.received == 0)
        wrong = bytes
        wrong[2_200_000] ^= 1
        #expect(try file.append(Array(wrong[..<2_250_000])) == .fine)
        try file.setChunks(list)
        // The last chunk is not whole yet, so nothing can be said of it.
        #expect(file.received == 2_250_000)
        #expect(try file.append(Array(bytes[2_250_000...])) == .wrongChunk)
        #expect(file.received == 2_097_152)
        #expect(try file.append(Array(bytes[2_097_152...])) == .fine)
        #expect(try file.finish() == true)
    }

    @Test("a part that nobody wants any more is removed at once, with its hashes")
    func discarded() throws {
        let file = try open()
        try file.setChunks(list)
        _ = try file.append(Array(bytes[..<1_500_000]))
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/downloads").count == 2)
        file.discard()
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/downloads").isEmpty)
        // Another download begins again.
        #expect(try open().received == 0)
    }

    @Test("parts that nobody goes on with are removed, an open one is not")
    func removed() throws {
        let file = try open()
        _ = try file.append([1])
        let other = BlobDigest.id(of: [1, 2])
        var second: DownloadFile? = try DownloadFile(store, other, length: 2)
        _ = try second?.append([1])
        second = nil
        try store.removeDownloads(untouchedSince: .max)
        let left = try FileManager.default.contentsOfDirectory(atPath: folder + "/downloads")
        #expect(left == ["\(id.text)-2300000"])
    }
}

extension BlobDigest {
    fileprivate static func id(of bytes: [UInt8]) -> BlobID {
        var digest = BlobDigest()
        digest.update(bytes)
        return digest.id
    }
}
