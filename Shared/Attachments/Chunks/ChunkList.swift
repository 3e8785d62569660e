import Foundation

/// The SHA-256 of each MiB of a blob, so that a receiver finds a wrong byte before the blob's end and asks
/// again for a MiB only.
///
/// The list says nothing about the blob's id: a receiver trusts it no more than its source, and compares the
/// whole blob with the id at the end.
public struct ChunkList: Sendable, Hashable {
    /// Bytes of each chunk; the last one may be shorter.
    public static let chunkBytes: Int64 = 1 << 20

    /// The blob's length.
    public let length: Int64
    /// 32 bytes for each chunk.
    public let digests: [[UInt8]]

    /// A list for a blob of this length.
    /// - Throws: `BLOB-0111` if the number of digests is another one.
    public init(length: Int64, digests: [[UInt8]]) throws(AttachmentError) {
        guard length >= 0, digests.count == Self.count(length),
            digests.allSatisfy({ $0.count == Limits.digestBytes })
        else {
            throw AttachmentError(.chunksMalformed, "the list of chunk hashes does not fit the attachment")
        }
        (self.length, self.digests) = (length, digests)
    }

    /// The list as texts in base64url, as servers send it.
    public init(length: Int64, texts: [String]) throws(AttachmentError) {
        let digests = texts.map { (try? BlobID($0))?.digest ?? [] }
        try self.init(length: length, digests: digests)
    }

    /// The digests in base64url.
    public var texts: [String] { digests.map { BlobID(digest: $0).text } }

    /// The number of chunks of a blob of this length.
    public static func count(_ length: Int64) -> Int {
        Int(length / chunkBytes) + (length % chunkBytes == 0 ? 0 : 1)
    }

    /// The stored form: all digests, and the SHA-256 of them.
    public var bytes: [UInt8] {
        let all = digests.flatMap { $0 }
        return all + BlobDigest(of: all[...]).bytes
    }

    /// Nil for bytes that are not the stored list of a blob of this length.
    public init?(stored bytes: [UInt8], length: Int64) {
        guard bytes.count == (Self.count(length) + 1) * Limits.digestBytes else { return nil }
        let all = bytes.dropLast(Limits.digestBytes)
        guard BlobDigest(of: all).bytes == Array(bytes.suffix(Limits.digestBytes)) else { return nil }
        let digests = stride(from: 0, to: all.count, by: Limits.digestBytes).map {
            Array(all[$0..<$0 + Limits.digestBytes])
        }
        guard let list = try? ChunkList(length: length, digests: digests) else { return nil }
        self = list
    }
}

/// Makes a list of chunks from a blob's bytes in their order.
public struct ChunkHasher: Sendable {
    private var digests: [[UInt8]] = []
    private var digest = BlobDigest()
    private var filled: Int64 = 0
    private var length: Int64 = 0

    /// A hasher that has seen nothing.
    public init() {}

    /// Takes the next bytes.
    public mutating func update(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = rest.prefix(Int(ChunkList.chunkBytes - filled))
            digest.update(Array(part))
            filled += Int64(part.count)
            length += Int64(part.count)
            rest = rest.dropFirst(part.count)
            if filled == ChunkList.chunkBytes { endChunk() }
        }
    }

    private mutating func endChunk() {
        digests.append(digest.bytes)
        (digest, filled) = (BlobDigest(), 0)
    }

    /// The list of all bytes so far.
    public func list() -> ChunkList {
        var all = self
        if filled > 0 { all.endChunk() }
        guard let list = try? ChunkList(length: length, digests: all.digests) else {
            preconditionFailure("a hasher counts its chunks")
        }
        return list
    }
}

extension BlobStore {
    /// The chunk hashes of a blob; made when they are first asked for, which reads the whole blob, and kept
    /// in
    /// `<folder>/chunks`.
    /// - Throws: `BLOB-0102`, `BLOB-0202`, `BLOB-0201`.
    public func chunks(_ id: BlobID) throws(AttachmentError) -> ChunkList {
        let reader = try reader(id)
        let path = "\(folder)/chunks/\(id.text)"
        if let data = FileManager.default.contents(atPath: path),
            let list = ChunkList(stored: [UInt8](data), length: reader.length)
        {
            return list
        }
        var hasher = ChunkHasher()
        var offset: Int64 = 0
        while offset < reader.length {
            let bytes = try reader.read(at: offset)
            guard !bytes.isEmpty else { throw AttachmentError.damaged(id) }
            hasher.update(bytes)
            offset += Int64(bytes.count)
        }
        let list = hasher.list()
        // A list of one chunk is made as quickly as it is read.
        if list.digests.count > 1 { keep(list, path) }
        return list
    }

    /// A list that cannot be kept is made again.
    private func keep(_ list: ChunkList, _ path: String) {
        let temporary = "\(path).\(Self.drawNumber())"
        guard (try? Self.makeFolder("\(folder)/chunks")) != nil,
            let file = try? File(path: temporary, flags: O_WRONLY | O_CREAT | O_TRUNC),
            (try? file.write(list.bytes, at: 0)) != nil, (try? File.rename(temporary, to: path)) != nil
        else { return File.remove(temporary) }
    }
}
