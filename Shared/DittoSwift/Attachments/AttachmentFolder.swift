import Attachments
import CRDT
import Foundation
import Machine
import Synchronization

/// The attachments on this device, in `ditto_attachments` of the persistence directory. An empty file in its
/// `outgoing` folder marks each attachment that the server does not have yet; once an upload has begun, it
/// has the upload's place. `holders` counts the objects by which the application holds attachments.
///
/// All calls block on the disk, so they run on `disk`.
final class AttachmentFolder: Sendable {
    static let disk = BlockingExecutor(label: "ditto.attachments", isSerial: false)

    private let folder: String
    private let opened = Mutex<BlobStore?>(nil)
    private let holders = Mutex<[String: Int]>([:])

    init(directory: String) { folder = directory + "/ditto_attachments" }

    /// The blob store, opened on first use.
    /// - Throws: `AttachmentError`.
    func store() throws -> BlobStore {
        try opened.withLock { opened in
            if let opened { return opened }
            let store = try BlobStore(folder: folder)
            removeUnfinished()
            opened = store
            return store
        }
    }

    /// Removes marks that a crash left unfinished. Before the first use, so nobody writes one now.
    private func removeUnfinished() {
        let outgoing = folder + "/outgoing/"
        for name in (try? FileManager.default.contentsOfDirectory(atPath: outgoing)) ?? []
        where name.hasSuffix(ProtectedFile.unfinished) || name.hasPrefix(".") {
            try? FileManager.default.removeItem(atPath: outgoing + name)
        }
    }

    /// Copies a file into the store and marks it to be sent to the server.
    /// - Throws: `SDK-0701` to `SDK-0703`, `SDK-0707`, `AttachmentError`; then nothing of it is stored.
    func take(_ path: String, _ metadata: [(key: String, value: String)]) throws -> AttachmentToken {
        let file = try SourceFile(path)
        let writer = try store().writer()
        while let chunk = try file.next(Attachments.Limits.readChunkBytes) { try writer.write(chunk) }
        return try finish(writer, metadata)
    }

    /// Stores bytes and marks them to be sent to the server.
    /// - Throws: `AttachmentError`.
    func take(_ data: Data, _ metadata: [(key: String, value: String)]) throws -> AttachmentToken {
        let writer = try store().writer()
        var rest = data[...]
        while !rest.isEmpty {
            let chunk = rest.prefix(Attachments.Limits.readChunkBytes)
            try writer.write(chunk)
            rest = rest.dropFirst(chunk.count)
        }
        return try finish(writer, metadata)
    }

    private func finish(
        _ writer: BlobWriter, _ metadata: [(key: String, value: String)]
    ) throws -> AttachmentToken {
        let info = try writer.finish()
        try outgoing(info.id.text).replace(with: Data())
        guard let token = AttachmentToken(id: info.id.text, length: info.length, metadata: metadata) else {
            preconditionFailure("a stored blob has an id and a length")
        }
        return token
    }

    /// Returns whether an attachment is on this device, and undamaged: a damaged one is set aside, so that it
    /// is fetched again.
    func holds(_ id: BlobID) throws -> Bool {
        do {
            _ = try store().reader(id)
            return true
        } catch let error as AttachmentError where error.code == .notFound || error.code == .corrupt {
            return false
        }
    }

    /// The attachments that the server does not have yet.
    var waiting: [BlobID] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder + "/outgoing")) ?? []
        return names.sorted().compactMap { try? BlobID($0) }
    }

    /// Notes that the server has the attachment.
    func wasSent(_ id: BlobID) { outgoing(id.text).remove() }

    /// The place of an upload that has begun; nil if none has.
    func placeOfUpload(_ id: BlobID) -> String? {
        guard let content = outgoing(id.text).content, !content.isEmpty else { return nil }
        return String(data: content, encoding: .utf8)
    }

    /// Keeps the place of an upload; without it the upload begins again after a restart.
    func notePlace(of id: BlobID, _ place: String?) {
        try? outgoing(id.text).replace(with: Data((place ?? "").utf8))
    }

    /// The application has one more object of an attachment.
    func hold(_ id: String) { holders.withLock { $0[id, default: 0] += 1 } }

    /// It has one less.
    func release(_ id: String) {
        holders.withLock { holders in
            guard let count = holders[id] else { return }
            holders[id] = count > 1 ? count - 1 : nil
        }
    }

    /// The attachments of which the application has objects.
    var held: Set<BlobID> { holders.withLock { Set($0.keys.compactMap { try? BlobID($0) }) } }

    private func outgoing(_ name: String) -> ProtectedFile {
        ProtectedFile(url: URL(fileURLWithPath: folder + "/outgoing/" + name))
    }
}
