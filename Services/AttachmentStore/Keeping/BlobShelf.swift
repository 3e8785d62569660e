import Attachments

/// The open attachments of one database.
struct BlobShelf: Sendable {
    let blobs: any BlobPlace
    let uploads: PartialUploads
    let quota: Quota
    let verification: Verification

    init(_ blobs: any BlobPlace, _ uploads: PartialUploads, quotaBytes: Int64) {
        (self.blobs, self.uploads) = (blobs, uploads)
        quota = Quota(blobs, uploads, most: quotaBytes)
        verification = Verification(blobs)
    }
}
