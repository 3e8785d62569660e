import Foundation
import Synchronization
import Testing

@testable import Attachments

@Suite("A blob whose file is not what was stored")
final class DamagedBlobTests {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("blobs-\(UUID().uuidString)")
        .path
    /// The reports of the stores.
    private final class Reports: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        func add(_ line: String) { lines.withLock { $0.append(line) } }
    }

    private let reports = Reports()

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func open() throws -> BlobStore {
        try BlobStore(folder: folder) { [reports] id, path in
            reports.add("\(id) \(path.hasSuffix("/damaged/\(id)"))")
        }
    }

    private func put(_ bytes: [UInt8], in store: BlobStore) throws -> BlobInfo {
        let writer = try store.writer()
        try writer.write(bytes)
        return try writer.finish()
    }

    private func path(_ id: BlobID) -> String { "\(folder)/\(id.text.prefix(2))/\(id)" }

    private func damage(_ id: BlobID, _ body: (inout Data) -> Void) throws {
        var bytes = try #require(FileManager.default.contents(atPath: path(id)))
        body(&bytes)
        try bytes.write(to: URL(fileURLWithPath: path(id)))
    }

    private func code(_ body: () throws -> Void) -> AttachmentErrorCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AttachmentError)?.code
        }
    }

    @Test("one that is erased leaves nothing, neither its file nor what was set aside of it")
    func erased() throws {
        let content = [UInt8](repeating: 7, count: 5_000)
        let id = try put(content, in: open()).id
        let other = try put([1, 2, 3], in: open()).id
        for _ in 0..<2 {
            try damage(id) { $0[17] ^= 1 }
            #expect(code { _ = try open().reader(id) } == .corrupt)
            _ = try put(content, in: open())
        }
        try damage(other) { $0[0] ^= 1 }
        #expect(code { _ = try open().reader(other) } == .corrupt)
        let store = try open()
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/damaged").count == 3)
        try store.remove(id)
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/damaged") == ["\(other)"])
        #expect(code { _ = try store.reader(id) } == .notFound)
        #expect(store.damagedIDs == [other])
        try store.remove(other)
        #expect(store.damagedIDs.isEmpty)
        #expect(code { _ = try store.reader(other) } == .notFound)
    }

    @Test("a turned byte is found at the first reading after an opening; the file is kept, reported, refused")
    func turned() throws {
        let content = (0..<400_000).map { UInt8(truncatingIfNeeded: $0 / 3) }
        let id = try put(content, in: open()).id
        try damage(id) { $0[300_001] ^= 16 }
        let store = try open()
        for _ in 0..<2 { #expect(code { _ = try store.reader(id) } == .corrupt) }
        #expect(reports.all == ["\(id) true"])
        let kept = try #require(FileManager.default.contents(atPath: "\(folder)/damaged/\(id)"))
        #expect(kept.count == 400_000)
        #expect(store.damagedIDs == [id])
        // Also after the next opening it is damaged, and not unknown.
        #expect(code { _ = try open().reader(id) } == .corrupt)

        #expect(try put(content, in: store).id == id)
        #expect(store.damagedIDs == [])
        #expect(try open().reader(id).read(at: 300_001, count: 1) == [content[300_001]])
        #expect(FileManager.default.contents(atPath: "\(folder)/damaged/\(id)") == kept)
    }

    @Test("a file that was cut is found at any reading", arguments: [0, 3])
    func cut(_ length: Int) throws {
        let store = try open()
        let id = try put([1, 2, 3, 4], in: store).id
        #expect(try store.reader(id).length == 4)
        try damage(id) { $0 = $0.prefix(length) }
        #expect(code { _ = try store.reader(id) } == .corrupt)
        #expect(reports.all.count == 1)
        // A program that writes into the file after it was compared.
        let other = try put([5, 6, 7], in: store).id
        #expect(try store.reader(other).read(at: 0) == [5, 6, 7])
        try damage(other) { $0[1] ^= 1 }
        #expect(code { _ = try store.reader(other) } == .corrupt)
    }

    @Test("an upload of an id that is stored is compared, and replaces what is damaged")
    func replaced() throws {
        let store = try open()
        let id = try put([1, 2, 3, 4], in: store).id
        _ = try put([1, 2, 3, 4], in: store)
        #expect(reports.all.isEmpty)
        // Damaged since it was compared.
        try damage(id) { $0[2] ^= 1 }
        _ = try put([1, 2, 3, 4], in: store)
        #expect(reports.all.count == 1)
        #expect(try store.reader(id).read(at: 0) == [1, 2, 3, 4])
    }

    @Test("a second damage of the same blob keeps both files, and every stored blob can be listed")
    func twice() throws {
        let store = try open()
        let other = try put([9], in: store).id
        var id = other
        for _ in 0..<2 {
            id = try put([1, 2, 3, 4], in: store).id
            try damage(id) { $0[0] ^= 1 }
            #expect(code { try store.verify(id) } == .corrupt)
        }
        let kept = try FileManager.default.contentsOfDirectory(atPath: "\(folder)/damaged").sorted()
        #expect(kept == ["\(id)", "\(id).2"])
        var listed: [BlobID] = []
        try store.forEachID { listed.append($0) }
        #expect(listed == [other])
        var read = 0
        try store.verify(other) { read += $0 }
        #expect(read == 1)
    }

    @Test("right bytes that replace a damaged file while another reader compares it stay")
    func replacedMeanwhile() throws {
        let content = [UInt8](repeating: 9, count: 4_000)
        let id = try put(content, in: open()).id
        try damage(id) { $0[5] ^= 1 }
        let store = try open()
        var isFirst = true
        try store.verify(id) { _ in
            guard isFirst else { return }
            isFirst = false
            #expect(code { _ = try store.reader(id) } == .corrupt)
            #expect(code { _ = try put(content, in: store) } == nil)
        }
        #expect(!isFirst)
        #expect(try store.reader(id).read(at: 0) == content)
        #expect(store.damagedIDs.isEmpty && reports.all.count == 1)
    }
}
