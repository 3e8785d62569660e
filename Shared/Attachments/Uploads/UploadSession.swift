import Foundation

/// The bytes of an upload that a session writes.
final class Piece {
    let file: File
    var offset: Int64
    var digest: BlobDigest

    init(file: consuming File, offset: Int64, digest: BlobDigest) {
        self.file = file
        (self.offset, self.digest) = (offset, digest)
    }
}

/// An upload that is open for writing. It has the upload's lock until it is released. Used by one task at a
/// time. Blocks on the disk, one chunk at a time.
public final class UploadSession {
    private let uploads: PartialUploads
    private let name: UploadName
    private var piece: Piece?
    /// The offset at the last confirmation, and the hash up to there: the place to go back to.
    private var confirmed: (offset: Int64, digest: BlobDigest)?

    /// The facts.
    public private(set) var record: UploadRecord

    init(
        _ uploads: PartialUploads, _ name: UploadName, _ record: UploadRecord, _ piece: Piece? = nil
    ) {
        (self.uploads, self.name, self.record) = (uploads, name, record)
        self.piece = piece
    }

    deinit {
        guard let piece, let state = try? piece.file.state, state.length == piece.offset else { return }
        uploads.keep(piece.digest, state, of: name)
    }

    /// The bytes that are here.
    public var offset: Int64 { piece?.offset ?? record.length ?? 0 }

    /// True once the blob is stored; then nothing more can be written.
    public var isFinished: Bool { piece == nil }

    /// True if the announced length is there, and the blob is not stored yet.
    public var isWhole: Bool { !isFinished && record.length == offset }

    /// Seconds since 1970 when something last happened to the upload.
    public var changedAtSeconds: Int64 { uploads.changedAt(name) ?? 0 }

    /// Sets the length of an upload that began without one.
    /// - Throws: `BLOB-0103` when it is too large, `BLOB-0109` when more is here already or another length
    ///   was
    ///   set.
    public func setLength(_ length: Int64, maximumBytes: Int64) throws(AttachmentError) {
        guard length <= maximumBytes else { throw .tooLarge(maximumBytes) }
        guard record.length ?? length == length, length >= offset else {
            throw AttachmentError(.uploadOffset, "the upload has another length")
        }
        guard record.length == nil else { return }
        record.length = length
        try uploads.store(record, of: name)
    }

    /// Begins a piece.
    /// - Parameters:
    ///   - offset: the place that the client names.
    ///   - waitsForChecksum: true if the piece counts only when `confirm` is called.
    /// - Throws: `BLOB-0109` for another place than the end.
    public func begin(at offset: Int64, waitsForChecksum: Bool) throws(AttachmentError) {
        guard !isFinished, offset == self.offset else {
            throw AttachmentError(.uploadOffset, "the upload goes on at offset \(self.offset)")
        }
        confirmed = (self.offset, currentDigest)
        if waitsForChecksum { try sync(isUnconfirmed: true) }
    }

    /// Appends bytes.
    /// - Throws: `BLOB-0103` when they go beyond the length or the limit, `BLOB-0201`, `BLOB-0203`.
    public func write(
        _ chunk: some ContiguousBytes & Collection<UInt8>, maximumBytes: Int64
    ) throws(AttachmentError) {
        precondition(piece != nil, "a finished upload takes no more bytes")
        let end = offset + Int64(chunk.count)
        guard end <= record.length ?? maximumBytes else {
            throw AttachmentError(.tooLarge, "more bytes arrive than the upload may have")
        }
        var failure: AttachmentError?
        chunk.withUnsafeBytes { bytes in
            do throws(AttachmentError) { try piece?.file.write(bytes) } catch { failure = error }
        }
        if let failure {
            // A full disk may have taken a part of the chunk.
            try? piece?.file.cut(to: offset)
            throw failure
        }
        piece?.digest.update(chunk)
        piece?.offset = end
    }

    /// Makes all bytes durable: from here on they count.
    public func confirm() throws(AttachmentError) {
        guard !isFinished else { return }
        try sync(isUnconfirmed: false)
        confirmed = (offset, currentDigest)
    }

    /// Takes back the bytes since `begin`.
    public func rollBack() throws(AttachmentError) {
        guard let confirmed, !isFinished else { return }
        try piece?.file.cut(to: confirmed.offset)
        piece?.offset = confirmed.offset
        piece?.digest = confirmed.digest
        try sync(isUnconfirmed: false)
    }

    /// Names the blob of a whole upload durably. Its bytes stay at `path` until they are stored.
    /// - Throws: `BLOB-0104` when the client announced another id; `BLOB-0201`.
    public func prepare() throws(AttachmentError) -> BlobInfo {
        precondition(isWhole, "an upload is finished when all its bytes are here")
        let id = currentDigest.id
        guard record.expected == nil || record.expected == id.text else {
            throw AttachmentError(.digestMismatch, "the bytes do not match the announced id")
        }
        try confirm()
        record.blob = id.text
        try uploads.store(record, of: name)
        return BlobInfo(id: id, length: offset)
    }

    /// The file with the bytes, for whoever stores them after `prepare`.
    public var path: String { uploads.bytesPath(name) }

    /// The blob is stored: drops the bytes.
    public func finished() {
        uploads.clear(name)
        piece = nil
    }

    private var currentDigest: BlobDigest { piece?.digest ?? BlobDigest() }

    private func sync(isUnconfirmed: Bool) throws(AttachmentError) {
        try piece?.file.sync()
        try uploads.note(
            UploadProgress(
                durable: offset, isUnconfirmed: isUnconfirmed, boot: UploadProgress.currentBoot), name)
    }
}
