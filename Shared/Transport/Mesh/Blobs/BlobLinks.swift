import Synchronization

/// A link as a way to a peer's blobs.
public struct BlobLink: Sendable {
    /// The peer at the other end.
    public let peerKey: String
    let channel: BlobChannel

    /// At most so many bytes of a blob from an offset on: fewer only at its end.
    /// - Parameters:
    ///   - digest: the SHA-256 that names the blob.
    ///   - count: at most `Limits.blobPieceBytes`.
    public func bytes(of digest: [UInt8], from offset: UInt64, count: Int) async -> BlobAnswer {
        await channel.ask(BlobAsk(digest: digest, subject: .bytes(offset: offset, count: count)))
    }

    /// The hashes of a blob's chunks.
    public func chunks(of digest: [UInt8]) async -> BlobAnswer {
        await channel.ask(BlobAsk(digest: digest, subject: .chunks))
    }
}

/// The open links of a mesh, as ways to blobs. `open` guards them.
final class BlobLinks: Sendable {
    /// Answers for this side.
    let share: (any BlobShare)?
    private let open = Mutex<[LinkID: BlobLink]>([:])

    init(_ share: (any BlobShare)?) { self.share = share }

    /// Ways to blobs, the oldest link first.
    var all: [BlobLink] { open.withLock { $0.sorted { $0.key < $1.key }.map(\.value) } }

    func add(_ link: LinkID, _ peerKey: String, _ channel: BlobChannel) {
        channel.open(peerKey: peerKey)
        open.withLock { $0[link] = BlobLink(peerKey: peerKey, channel: channel) }
        // A link that ends is closed before it is removed, so that one of both sees it here.
        if channel.isOver { remove(link) }
    }

    func remove(_ link: LinkID) {
        open.withLock { $0.removeValue(forKey: link) }?.channel.close()
    }
}
