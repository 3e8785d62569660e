import Foundation
import Synchronization

/// Uploads that arrive in pieces, over hours and connections: a folder `uploads` beside the blobs.
///
/// Layout: `<name>` holds the bytes, `<name>.json` the facts, `<name>.progress` how far the bytes are
/// durable. A finished upload is the second file alone, with the blob's id. Invariants: an offset that was
/// told is durable, so it survives a crash of the process and of the machine. Whoever writes an upload has
/// the lock of its bytes' file, among all processes on the folder. A blob is adopted only when the facts
/// already name it, so a crash in between is repaired by the next opening.
///
/// `digests` guards the hashes of uploads that rest, so that the next piece does not read the earlier ones
/// again. An entry counts only while its file is unchanged.
///
/// All calls block on the disk.
public final class PartialUploads: Sendable {
    private struct Kept {
        var state: File.State
        var digest: BlobDigest
    }

    private let folder: String
    private let maximumBytes: Int64
    private let digests = Mutex<[UploadName: Kept]>([:])

    /// Opens the folder; creates it if it does not exist.
    /// - Parameters:
    ///   - folder: created with mode 0700.
    ///   - maximumBytes: the size of the largest accepted blob.
    /// - Throws: `BLOB-0201`.
    public init(folder: String, maximumBytes: Int64) throws(AttachmentError) {
        self.folder = folder
        self.maximumBytes = maximumBytes
        try BlobStore.makeFolder(folder)
    }

    /// Begins an upload.
    /// - Throws: `BLOB-0103` for a length over the limit, `BLOB-0108` when the owner has too many,
    ///   `BLOB-0201`,
    ///   `BLOB-0203`.
    public func create(_ name: UploadName, _ record: UploadRecord) throws(AttachmentError) {
        guard record.length ?? 0 <= maximumBytes else { throw .tooLarge(maximumBytes) }
        let others = try owned(by: name)
        guard others.unfinished.count < Limits.uploadsPerOwner else { throw .tooManyUploads }
        let announced = others.unfinished.reduce(record.length ?? maximumBytes) { sum, other in
            let length = (try? self.record(of: other))?.length ?? maximumBytes
            return sum.addingReportingOverflow(length).partialValue
        }
        guard
            announced <= maximumBytes.multipliedReportingOverflow(by: Limits.uploadBlobsPerOwner).partialValue
        else { throw .tooManyUploads }
        // Without end, a client that only begins and finishes would leave facts.
        for old in others.finished.dropLast(Limits.finishedUploads - 1) { forget(old) }
        let file = try File(path: path(name), flags: O_WRONLY | O_CREAT | O_EXCL)
        guard try file.lock(waits: false) else { throw .busyUpload }
        try store(record, of: name)
        try note(UploadProgress(durable: 0, isUnconfirmed: false, boot: UploadProgress.currentBoot), name)
        try file.sync()
        try File.syncFolder(folder)
    }

    /// Opens an upload for writing, if nobody else has it open.
    /// - Throws: `BLOB-0106` for an unknown one, `BLOB-0107` while another has it open, `BLOB-0201`.
    public func open(_ name: UploadName) throws(AttachmentError) -> UploadSession {
        let record = try record(of: name)
        guard let file = try lockedFile(name) else {
            guard record.blob != nil else { throw .unknownUpload }
            return UploadSession(self, name, record)
        }
        // The facts may have changed until the lock was ours.
        let current = try self.record(of: name)
        let length = try file.state.length
        let progress = progress(name)
        let trusted = progress.trusted(of: length, boot: UploadProgress.currentBoot)
        if trusted < length { try file.cut(to: trusted) } else { try file.moveToEnd() }
        if progress.isUnconfirmed || progress.boot != UploadProgress.currentBoot {
            try file.sync()
            try note(
                UploadProgress(durable: trusted, isUnconfirmed: false, boot: UploadProgress.currentBoot), name
            )
        }
        let digest = try digest(of: name, file, trusted)
        return UploadSession(self, name, current, Piece(file: file, offset: trusted, digest: digest))
    }

    /// Removes an upload and what has arrived of it.
    /// - Throws: `BLOB-0106`, `BLOB-0107`.
    public func remove(_ name: UploadName) throws(AttachmentError) {
        _ = try record(of: name)
        if let file = try lockedFile(name) {
            forget(name)
            try file.cut(to: 0)
        } else {
            forget(name)
        }
        try File.syncFolder(folder)
    }

    /// Removes uploads with which nothing has happened since.
    /// - Returns: their number.
    @discardableResult
    public func removeUploads(untouchedSince seconds: Int64) throws(AttachmentError) -> Int {
        var removed = 0
        for name in try names() {
            guard let changed = changedAt(name), changed <= seconds else { continue }
            do throws(AttachmentError) {
                try remove(name)
                removed += 1
            } catch {
                guard error.code == .uploadBusy || error.code == .uploadUnknown else { throw error }
                // Without facts it is the rest of a creation that a crash cut off.
                if error.code == .uploadUnknown { forget(name) }
            }
        }
        return removed
    }

    /// The number of unfinished uploads and the bytes of theirs that are here.
    public func usage() throws(AttachmentError) -> (count: Int, bytes: Int64) {
        var (count, bytes) = (0, Int64(0))
        for name in try names() {
            guard let state = File.state(of: path(name)) else { continue }
            count += 1
            bytes += state.length
        }
        return (count, bytes)
    }

    /// The bytes that all unfinished uploads may have together when they are finished.
    public func announcedBytes() throws(AttachmentError) -> Int64 {
        try names().filter { File.exists(path($0)) }.reduce(0) { sum, name in
            let length = (try? record(of: name))?.length ?? maximumBytes
            return sum.addingReportingOverflow(length).partialValue
        }
    }

    // MARK: Files

    private func path(_ name: UploadName) -> String { "\(folder)/\(name.text)" }

    /// The locked file of an upload's bytes; nil if it has none.
    private func lockedFile(_ name: UploadName) throws(AttachmentError) -> File? {
        guard File.exists(path(name)) else { return nil }
        let file = try File(path: path(name), flags: O_RDWR)
        guard try file.lock(waits: false) else { throw .busyUpload }
        if try file.isRemoved { return nil }
        return file
    }

    /// Names of all uploads, by any of their files.
    private func names() throws(AttachmentError) -> Set<UploadName> {
        var names: Set<UploadName> = []
        for file in try BlobStore.names(in: folder) {
            let stem = file.prefix { $0 != "." }
            if let name = UploadName(file: String(stem)) { names.insert(name) }
        }
        return names
    }

    private func owned(
        by name: UploadName
    ) throws(AttachmentError) -> (unfinished: [UploadName], finished: [UploadName]) {
        let mine = try names().filter { $0.text.hasPrefix(name.text.prefix(16)) }
        let finished = mine.filter { !File.exists(path($0)) }
        return (
            Array(mine.subtracting(finished)),
            finished.sorted { (changedAt($0) ?? 0, $0.text) < (changedAt($1) ?? 0, $1.text) }
        )
    }

    func changedAt(_ name: UploadName) -> Int64? {
        let states = [path(name), path(name) + ".json"].compactMap { File.state(of: $0) }
        return states.map(\.writtenAtSeconds).max()
    }

    private func record(of name: UploadName) throws(AttachmentError) -> UploadRecord {
        guard let data = FileManager.default.contents(atPath: path(name) + ".json"),
            let record = try? JSONDecoder().decode(UploadRecord.self, from: data)
        else { throw .unknownUpload }
        return record
    }

    func store(_ record: UploadRecord, of name: UploadName) throws(AttachmentError) {
        guard let data = try? JSONEncoder().encode(record) else {
            preconditionFailure("texts and numbers can be encoded")
        }
        let (path, temporary) = (path(name) + ".json", path(name) + ".new")
        let file = try File(path: temporary, flags: O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(Array(data), at: 0)
        try file.sync()
        try File.rename(temporary, to: path)
        try File.syncFolder(folder)
    }

    private func progress(_ name: UploadName) -> UploadProgress {
        let bytes = FileManager.default.contents(atPath: path(name) + ".progress") ?? Data()
        // Without it nothing is known to be durable.
        return UploadProgress(Array(bytes)) ?? UploadProgress(durable: 0, isUnconfirmed: true, boot: "")
    }

    func note(_ progress: UploadProgress, _ name: UploadName) throws(AttachmentError) {
        let file = try File(path: path(name) + ".progress", flags: O_WRONLY | O_CREAT)
        try file.write(progress.bytes, at: 0)
        try file.sync()
    }

    /// Removes all files of an upload.
    private func forget(_ name: UploadName) {
        _ = digests.withLock { $0.removeValue(forKey: name) }
        for suffix in ["", ".progress", ".new", ".json"] { File.remove(path(name) + suffix) }
    }

    // MARK: Hashes

    private func digest(
        of name: UploadName, _ file: borrowing File, _ length: Int64
    ) throws(AttachmentError) -> BlobDigest {
        let state = try file.state
        if let kept = digests.withLock({ $0.removeValue(forKey: name) }), kept.state == state {
            return kept.digest
        }
        var digest = BlobDigest()
        var offset: Int64 = 0
        while offset < length {
            let chunk = try file.read(
                at: offset, count: Int(min(Int64(Limits.readChunkBytes), length - offset)))
            guard !chunk.isEmpty else { throw AttachmentError(.storageFailed, "an upload's file shrinks") }
            digest.update(chunk)
            offset += Int64(chunk.count)
        }
        return digest
    }

    /// Keeps the hash of an upload that rests.
    func keep(_ digest: BlobDigest, _ state: File.State, of name: UploadName) {
        digests.withLock { digests in
            if digests.count >= Limits.keptDigests { digests = [:] }
            digests[name] = Kept(state: state, digest: digest)
        }
    }

    /// The path of an upload's bytes, for a copy of them elsewhere.
    func bytesPath(_ name: UploadName) -> String { path(name) }

    /// Removes what a finished upload needs no more.
    func clear(_ name: UploadName) {
        File.remove(path(name))
        File.remove(path(name) + ".progress")
    }
}
