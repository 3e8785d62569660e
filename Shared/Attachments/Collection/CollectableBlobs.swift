/// A place of blobs that `CollectionPass` can collect in: a folder, or a bucket.
///
/// Blobs stand on shelves, named after the first two characters of their ids. All calls may block.
public protocol CollectableBlobs: Sendable {
    /// The shelves that have blobs, in their order.
    func shelves() throws -> [String]
    /// The blobs of a shelf, in the order of their ids.
    func entries(_ shelf: String) throws -> [BlobStore.Entry]
    /// Removes a blob unless it was stored again since it was listed.
    /// - Returns: false if it was, or is gone.
    func collect(_ entry: BlobStore.Entry) throws -> Bool
    /// The notes of earlier passes about a shelf; none if they are lost.
    func times(_ ledger: BlobLedger.Kind, _ shelf: String) throws -> [BlobID: Int64]
    /// Replaces that durably.
    func note(_ times: [BlobID: Int64], in ledger: BlobLedger.Kind, _ shelf: String) throws
    /// Makes the removals on a shelf durable.
    func settle(_ shelf: String) throws
}
