import Attachments
import NIOCore

/// The attachments of one database, wherever they are: in a folder (`FolderPlace`) or in a bucket
/// (`BucketPlace`).
///
/// Every place keeps the same promises. A blob is stored whole and durable, or not at all, and never changes.
/// It is compared with its id before it is first served. A damaged one is set aside, reported and refused
/// (`BLOB-0202`) until the right bytes are stored again. Several processes may use a place at a time.
protocol BlobPlace: Sendable {
    /// The folder in which blobs arrive, on this machine's disk.
    var arrivals: BlobStore { get }

    /// Stores a whole and durable file under its id. The caller removes the file if it is still there.
    func adopt(_ info: BlobInfo, _ path: String) async throws
    /// Opens a blob, once it was compared with its id.
    func open(_ id: BlobID) async throws -> any OpenBlob
    /// The hashes of a blob's chunks.
    func chunks(_ id: BlobID) async throws -> ChunkList
    /// Compares a blob with its id, however often that was done before.
    /// - Parameter pace: called with the bytes that were read; it may pause.
    func verify(_ id: BlobID, pace: @escaping @Sendable (Int) -> Void) async throws
    /// Returns whether a blob was collected, and not stored again since.
    func wasCollected(_ id: BlobID) async throws -> Bool
    /// Blobs after an id, in the order of their ids.
    func list(after: String, most: Int) async throws -> [BlobStore.Entry]
    /// The number of blobs, and their bytes.
    func usage() async throws -> (count: Int, bytes: Int64)
    /// The blobs that were set aside and not stored again.
    func damagedIDs() async throws -> [BlobID]
    /// Removes a blob, and what was set aside of it.
    func remove(_ id: BlobID) async throws
    /// The turn to collect here, which one process has at a time; nil while another has it.
    func collectionTurn() async throws -> (any CollectionPlace)?
    /// Removes everything, for a database that was deleted.
    func removeAll() async throws
    /// Removes what interrupted uploads left here, if nothing has happened to it since.
    func removeLeftOvers(since seconds: Int64) async throws
}

/// An open blob.
protocol OpenBlob: Sendable {
    var info: BlobInfo { get }
    /// Calls `body` with the bytes of a range, in order, some at a time.
    func stream(_ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws
}

/// The right to collect, until `end`.
protocol CollectionPlace: Sendable {
    /// The blobs, for calls on the disk's threads.
    var blobs: any CollectableBlobs { get }
    func end() async
}

/// Blobs in a folder: `BlobStore` on the disk's threads.
struct FolderPlace: BlobPlace {
    let arrivals: BlobStore
    /// The folder of the database's attachments.
    let folder: String

    func adopt(_ info: BlobInfo, _ path: String) async throws {
        try await BlobStore.onDisk { try arrivals.adopt(path, as: info.id) }
    }

    func open(_ id: BlobID) async throws -> any OpenBlob {
        OpenFile(reader: try await BlobStore.onDisk { try arrivals.reader(id) })
    }

    func chunks(_ id: BlobID) async throws -> ChunkList {
        try await BlobStore.onDisk { try arrivals.chunks(id) }
    }

    func verify(_ id: BlobID, pace: @escaping @Sendable (Int) -> Void) async throws {
        try await BlobStore.onDisk { try arrivals.verify(id, pace: pace) }
    }

    func wasCollected(_ id: BlobID) async throws -> Bool {
        try await BlobStore.onDisk { try arrivals.info(id) == nil && arrivals.wasCollected(id) }
    }

    func list(after: String, most: Int) async throws -> [BlobStore.Entry] {
        try await BlobStore.onDisk { try arrivals.list(after: after, most: most) }
    }

    func usage() async throws -> (count: Int, bytes: Int64) {
        try await BlobStore.onDisk { try arrivals.usage() }
    }

    func damagedIDs() async throws -> [BlobID] { try await BlobStore.onDisk { arrivals.damagedIDs } }

    func remove(_ id: BlobID) async throws { try await BlobStore.onDisk { try arrivals.remove(id) } }

    func collectionTurn() async throws -> (any CollectionPlace)? {
        try await BlobStore.onDisk {
            try arrivals.collectionTurn().map { FolderTurn(blobs: arrivals, turn: $0) }
        }
    }

    /// Nothing: the caller removes the folder itself.
    func removeAll() async throws {}
    /// Nothing: the next opening of the folder removes them.
    func removeLeftOvers(since seconds: Int64) async throws {}

    private struct FolderTurn: CollectionPlace {
        let blobs: any CollectableBlobs
        let turn: CollectionTurn
        func end() async { turn.end() }
    }

    private struct OpenFile: OpenBlob {
        let reader: BlobReader
        var info: BlobInfo { BlobInfo(id: reader.id, length: reader.length) }

        func stream(_ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws {
            var offset = range.lowerBound
            while offset < range.upperBound {
                let place = offset
                let count = Int(min(Int64(Attachments.Limits.readChunkBytes), range.upperBound - offset))
                let chunk = try await BlobStore.onDisk { [reader] in
                    var buffer = ByteBufferAllocator().buffer(capacity: count)
                    try buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { room in
                        try reader.read(
                            at: place, into: UnsafeMutableRawBufferPointer(rebasing: room[..<count]))
                    }
                    return buffer
                }
                guard chunk.readableBytes > 0 else {
                    throw BlobFailure(
                        error: AttachmentError(.corrupt, "the file of \(reader.id) has become shorter"))
                }
                try await body(chunk)
                offset += Int64(chunk.readableBytes)
            }
        }
    }
}
