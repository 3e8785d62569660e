import Foundation
import Testing

@testable import Attachments

@Suite("Partial uploads")
final class PartialUploadTests {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("up-\(UUID().uuidString)").path
    let store: BlobStore
    let bytes = (0..<500_000).map { UInt8(truncatingIfNeeded: $0 &* 13 &+ $0 / 256) }

    init() throws { store = try BlobStore(folder: folder, maximumBytes: 1_000_000) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// Another instance has none of the first one's memory, as after a crash.
    private func uploads() throws -> PartialUploads {
        try PartialUploads(folder: folder + "/uploads", maximumBytes: 1_000_000)
    }

    private func name(_ owner: String = "ada", _ number: UInt8 = 1) -> UploadName {
        UploadName(owner: owner, drawn: [UInt8](repeating: number, count: 16))
    }

    private func code(_ body: () throws -> Void) -> AttachmentErrorCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AttachmentError)?.code
        }
    }

    private func finish(_ session: UploadSession) throws -> BlobInfo {
        let info = try session.prepare()
        try store.adopt(session.path, as: info.id)
        session.finished()
        return info
    }

    @Test("pieces of several instances become one blob, under the digest of all bytes")
    func resumed() throws {
        let name = name()
        try uploads().create(name, UploadRecord(length: 500_000, metadata: "name YQ=="))
        for start in stride(from: 0, to: 500_000, by: 125_000) {
            let session = try uploads().open(name)
            #expect(session.offset == Int64(start) && session.record.metadata == "name YQ==")
            try session.begin(at: Int64(start), waitsForChecksum: false)
            try session.write(bytes[start..<start + 125_000], maximumBytes: 1_000_000)
            try session.confirm()
        }
        let last = try uploads().open(name)
        #expect(last.isWhole)
        let info = try finish(last)
        var digest = BlobDigest()
        digest.update(bytes)
        #expect(info == BlobInfo(id: digest.id, length: 500_000))
        #expect(try store.reader(info.id).read(at: 499_990) == Array(bytes.suffix(10)))
        // It is remembered for a client that missed the answer.
        let after = try uploads().open(name)
        #expect(after.isFinished && after.offset == 500_000 && after.record.blob == info.id.text)
        #expect(try uploads().usage() == (0, 0))
    }

    @Test("one instance goes on with the hash that it kept, unless the file is another one by now")
    func kept() throws {
        let uploads = try uploads()
        let name = name()
        try uploads.create(name, UploadRecord(length: 20))
        for (start, end) in [(0, 10), (10, 15)] {
            let session = try uploads.open(name)
            try session.begin(at: Int64(start), waitsForChecksum: false)
            try session.write(bytes[start..<end], maximumBytes: 100)
            try session.confirm()
        }
        // Somebody else cut it and wrote other bytes.
        let other = try FileHandle(forWritingTo: URL(fileURLWithPath: "\(folder)/uploads/\(name)"))
        try other.write(contentsOf: Data([9]))
        try other.close()
        let session = try uploads.open(name)
        try session.begin(at: 15, waitsForChecksum: false)
        try session.write(bytes[15..<20], maximumBytes: 100)
        let info = try finish(session)
        try store.verify(info.id)
    }

    @Test("a piece that waits for its checksum does not count after a crash, nor one of an earlier boot")
    func takenBack() throws {
        let name = name()
        try uploads().create(name, UploadRecord(length: nil))
        var session: UploadSession? = try uploads().open(name)
        try session?.begin(at: 0, waitsForChecksum: false)
        try session?.write(bytes[..<100], maximumBytes: 1_000)
        try session?.confirm()
        try session?.begin(at: 100, waitsForChecksum: true)
        try session?.write(bytes[100..<200], maximumBytes: 1_000)
        session = nil
        session = try uploads().open(name)
        #expect(session?.offset == 100)
        try session?.begin(at: 100, waitsForChecksum: false)
        try session?.write(bytes[100..<150], maximumBytes: 1_000)
        session = nil
        // The process was killed: what it wrote is in the system's memory.
        session = try uploads().open(name)
        #expect(session?.offset == 150)
        session = nil
        // The machine was: only what was told to be durable is sure.
        let progress = UploadProgress(durable: 100, isUnconfirmed: false, boot: "earlier")
        try Data(progress.bytes).write(to: URL(fileURLWithPath: "\(folder)/uploads/\(name).progress"))
        session = try uploads().open(name)
        #expect(session?.offset == 100)
        #expect(
            code { try session?.begin(at: 150, waitsForChecksum: false) } == .uploadOffset)
    }

    @Test("one writer at a time, in any process, has an upload")
    func locked() throws {
        let name = name()
        let uploads = try uploads()
        try uploads.create(name, UploadRecord(length: 5))
        let session = try uploads.open(name)
        #expect(code { _ = try self.uploads().open(name) } == .uploadBusy)
        #expect(code { try self.uploads().remove(name) } == .uploadBusy)
        #expect(!session.isFinished)
    }

    @Test("an upload is only there for its owner, and no text is a path")
    func names() throws {
        let name = name()
        #expect(try UploadName(name.text, owner: "ada") == name)
        let texts = ["../../log.sqlite", name.text + "0", String(name.text.dropLast()) + "G", ""]
        #expect(
            texts.allSatisfy { text in code { _ = try UploadName(text, owner: "ada") } == .uploadUnknown })
        #expect(code { _ = try UploadName(name.text, owner: "eve") } == .uploadUnknown)
        #expect(code { _ = try self.uploads().open(name) } == .uploadUnknown)
    }

    @Test("an owner has a bounded number of uploads and bytes; others are not in the way")
    func bounded() throws {
        let uploads = try uploads()
        for number in 0..<UInt8(Limits.uploadsPerOwner) {
            try uploads.create(name("ada", number), UploadRecord(length: 1))
        }
        #expect(code { try uploads.create(name("ada", 200), UploadRecord(length: 1)) } == .uploadLimit)
        for number in 0..<UInt8(Limits.uploadBlobsPerOwner) {
            try uploads.create(name("eve", number), UploadRecord(length: nil))
        }
        #expect(code { try uploads.create(name("eve", 200), UploadRecord(length: 1)) } == .uploadLimit)
        #expect(
            code { try uploads.create(name("bob"), UploadRecord(length: 1_000_001)) } == .tooLarge)
    }

    @Test("an upload that nobody goes on with is removed, an open one is not")
    func expired() throws {
        let uploads = try uploads()
        try uploads.create(name("ada", 1), UploadRecord(length: 5))
        try uploads.create(name("ada", 2), UploadRecord(length: 5))
        let open = try uploads.open(name("ada", 2))
        #expect(try uploads.removeUploads(untouchedSince: 1_000) == 0)
        #expect(try uploads.removeUploads(untouchedSince: .max) == 1)
        #expect(open.offset == 0)
        #expect(code { _ = try uploads.open(name("ada", 1)) } == .uploadUnknown)
        #expect(try uploads.usage().count == 1)
    }

    @Test("bytes that are not the announced ones, or more than announced, are no blob")
    func lies() throws {
        let uploads = try uploads()
        var digest = BlobDigest()
        digest.update([1])
        try uploads.create(name(), UploadRecord(length: 1, expected: digest.id))
        let session = try uploads.open(name())
        try session.begin(at: 0, waitsForChecksum: false)
        #expect(code { try session.write([2, 2], maximumBytes: 100) } == .tooLarge)
        try session.write([2], maximumBytes: 100)
        #expect(code { _ = try session.prepare() } == .digestMismatch)
        try session.rollBack()
        try session.begin(at: 0, waitsForChecksum: false)
        try session.write([1], maximumBytes: 100)
        #expect(try finish(session).id == digest.id)
    }

    @Test("a crash between the name of the blob and its file is repaired by the next opening")
    func interruptedEnd() throws {
        let name = name()
        try uploads().create(name, UploadRecord(length: 3))
        var session: UploadSession? = try uploads().open(name)
        try session?.begin(at: 0, waitsForChecksum: false)
        try session?.write([1, 2, 3], maximumBytes: 100)
        let info = try session?.prepare()
        session = nil
        let again = try uploads().open(name)
        #expect(again.isWhole && !again.isFinished)
        #expect(try finish(again) == info)
    }

    @Test("a store that opens removes what a crash left, and leaves what another process writes")
    func leftOvers() throws {
        let writer = try store.writer()
        try writer.write([1, 2, 3])
        let left = folder + "/incoming/1-1"
        try Data([4]).write(to: URL(fileURLWithPath: left))
        let other = try BlobStore(folder: folder, maximumBytes: 1_000_000)
        #expect(!FileManager.default.fileExists(atPath: left))
        let info = try writer.finish()
        #expect(try other.reader(info.id).read(at: 0) == [1, 2, 3])
    }
}
