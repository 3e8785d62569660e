import Attachments
import Crypto
import Foundation
import Testing

@Suite("Blob store")
final class BlobStoreTests {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("blobs-\(UUID().uuidString)")
        .path
    let store: BlobStore

    init() throws { store = try BlobStore(folder: folder, maximumBytes: 1_000_000) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func put(_ bytes: [UInt8]) throws -> BlobInfo {
        let writer = try store.writer()
        try writer.write(bytes)
        return try writer.finish()
    }

    /// Every file below the folder, without the folders.
    private func files() -> [String] {
        let all = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        return all.filter { FileManager.default.contents(atPath: "\(folder)/\($0)") != nil }.sorted()
    }

    private func code(_ body: () throws -> Void) -> AttachmentErrorCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AttachmentError)?.code
        }
    }

    @Test("a blob is named after the SHA-256 of its bytes, whatever the chunks")
    func digest() throws {
        let bytes = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let writer = try store.writer()
        for start in stride(from: 0, to: bytes.count, by: 99_999) {
            try writer.write(bytes[start..<min(start + 99_999, bytes.count)])
        }
        let info = try writer.finish()
        #expect(info.length == 700_000)
        let expected = Data(SHA256.hash(data: bytes)).base64EncodedString()
            .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        #expect(info.id.text == expected)
        #expect(try store.info(info.id) == info)
        try store.verify(info.id)
    }

    @Test("any range of a blob can be read, a chunk at a time")
    func ranges() throws {
        let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let reader = try store.reader(put(bytes).id)
        #expect(try reader.read(at: 10, count: 5) == Array(bytes[10..<15]))
        #expect(try reader.read(at: 0, count: 600_000) == Array(bytes[..<Limits.readChunkBytes]))
        #expect(try reader.read(at: 599_998) == Array(bytes[599_998...]))
        #expect(try reader.read(at: 600_000) == [])
        #expect(code { _ = try reader.read(at: 600_001) } == .rangeInvalid)
        #expect(code { _ = try reader.read(at: -1) } == .rangeInvalid)
    }

    @Test("the same bytes are one blob, and an empty blob is one too")
    func same() throws {
        #expect(try put([1, 2, 3]) == put([1, 2, 3]))
        #expect(files().count == 1)
        #expect(try store.reader(put([]).id).length == 0)
    }

    @Test("a writer that is dropped leaves nothing")
    func dropped() throws {
        do {
            let writer = try store.writer()
            try writer.write([1, 2, 3])
            #expect(files().count == 1)
        }
        #expect(files() == [])
    }

    @Test("a blob over the limit is refused and leaves nothing")
    func tooLarge() throws {
        do {
            let writer = try store.writer()
            try writer.write([UInt8](repeating: 7, count: 1_000_000))
            #expect(code { try writer.write([8]) } == .tooLarge)
        }
        #expect(files() == [])
    }

    @Test("bytes other than the announced ones are refused and leave nothing")
    func mismatch() throws {
        let announced = try put([1]).id
        do {
            let writer = try store.writer()
            try writer.write([2])
            #expect(code { _ = try writer.finish(expected: announced) } == .digestMismatch)
        }
        #expect(files().count == 1)
    }

    @Test("what a crash left half written is gone after the next opening")
    func crash() throws {
        let kept = try put([1])
        #expect(FileManager.default.createFile(atPath: "\(folder)/incoming/1", contents: Data([9])))
        let again = try BlobStore(folder: folder)
        #expect(files() == ["\(kept.id.text.prefix(2))/\(kept.id)"])
        #expect(try again.info(kept.id) == kept)
    }

    @Test(
        "an id that is none, or has a second spelling, is refused",
        arguments: [
            "", "short", "../../../../../../etc/passwd", String(repeating: "A", count: 44),
            String(repeating: "+", count: 43), String(repeating: "A", count: 42) + "B",
            String(repeating: "é", count: 21) + "x",
        ])
    func idMalformed(text: String) {
        #expect(code { _ = try BlobID(text) } == .idMalformed)
    }

    @Test("an id nobody stored is not found")
    func notFound() throws {
        let id = try BlobID(String(repeating: "A", count: 43))
        #expect(try store.info(id) == nil)
        #expect(code { _ = try store.reader(id) } == .notFound)
    }

    @Test("a file that changed is found out")
    func corrupt() throws {
        let info = try put([1, 2, 3])
        let path = "\(folder)/\(info.id.text.prefix(2))/\(info.id)"
        try Data([1, 2, 4]).write(to: URL(fileURLWithPath: path))
        #expect(code { try store.verify(info.id) } == .corrupt)
    }

    @Test("a folder that cannot be made is an error")
    func folderUnusable() {
        #expect(FileManager.default.createFile(atPath: "\(folder)/file", contents: nil))
        #expect(code { _ = try BlobStore(folder: "\(folder)/file/below") } == .storageFailed)
    }
}
