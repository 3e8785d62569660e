import Attachments
import ServiceKit
import Synchronization

/// The bytes of a database's attachments, against the bound that an operator has set.
///
/// They are counted when they are first needed, and again by each collection; in between this process adds
/// what it stores. Other processes on the folder add their own, so together they may exceed the bound by as
/// much as they store between two collections.
///
/// `known` guards the sum.
final class Quota: Sendable {
    private let place: any BlobPlace
    private let uploads: PartialUploads
    private let most: Int64
    private let known = Mutex<Int64?>(nil)

    /// - Parameter most: in bytes; 0 for no bound.
    init(_ place: any BlobPlace, _ uploads: PartialUploads, most: Int64) {
        (self.place, self.uploads, self.most) = (place, uploads, most)
    }

    /// Admits an upload of so many bytes; as far as its length is known.
    /// - Throws: `BLOB-0103` for one that is larger than the bound itself, `ATT-0301` for one that has no
    ///   room
    ///   beside the attachments and the unfinished uploads.
    func admit(_ bytes: Int64) async throws {
        guard most > 0 else { return }
        guard bytes <= most else { throw BlobFailure(error: .tooLarge(most)) }
        let waiting = try await BlobStore.onDisk { [uploads] in try uploads.announcedBytes() }
        try await require(waiting.addingReportingOverflow(bytes).partialValue)
    }

    /// Admits a whole upload, before it becomes an attachment.
    func admitWhole(_ bytes: Int64) async throws {
        guard most > 0 else { return }
        try await require(bytes)
    }

    private func require(_ bytes: Int64) async throws {
        let used: Int64
        if let known = known.withLock({ $0 }) {
            used = known
        } else {
            used = try await place.usage().bytes
            known.withLock { $0 = used }
        }
        guard bytes >= 0, used <= most - min(bytes, most), bytes <= most else {
            throw AttachmentStoreError(
                .quotaExceeded,
                "the database's attachments have \(used) of \(most) bytes; delete some documents")
        }
    }

    /// An upload was stored.
    func added(_ bytes: Int64) { known.withLock { known in known = known.map { $0 + bytes } } }

    /// A collection has counted.
    func counted(_ bytes: Int64) { known.withLock { if $0 != nil { $0 = bytes } } }
}
