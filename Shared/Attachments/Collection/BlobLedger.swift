import Foundation

/// Ids with a time, one file per shelf: `FOLDER/<two characters>`. Entries are 32 bytes of id and 8 of
/// seconds; the SHA-256 of all entries ends the file. A file that was damaged counts as empty.
public struct BlobLedger {
    /// The two ledgers of a store.
    public enum Kind: String, Sendable {
        /// Since when no document has mentioned blobs.
        case unmentioned
        /// When blobs were collected.
        case collected
    }

    private static let entryBytes = Limits.digestBytes + 8

    let folder: String

    func read(_ shelf: String) -> [BlobID: Int64] {
        FileManager.default.contents(atPath: "\(folder)/\(shelf)").map { Self.times([UInt8]($0)) } ?? [:]
    }

    /// The entries in a ledger's bytes; none if they are damaged.
    public static func times(_ bytes: [UInt8]) -> [BlobID: Int64] {
        guard bytes.count > Limits.digestBytes else { return [:] }
        let entries = bytes.dropLast(Limits.digestBytes)
        guard entries.count % Self.entryBytes == 0,
            BlobDigest(of: entries).bytes == Array(bytes.suffix(Limits.digestBytes))
        else { return [:] }
        var times: [BlobID: Int64] = [:]
        for start in stride(from: 0, to: entries.count, by: Self.entryBytes) {
            let id = BlobID(digest: Array(entries[start..<start + Limits.digestBytes]))
            times[id] = (0..<8).reduce(Int64(0)) {
                $0 | Int64(entries[start + Limits.digestBytes + $1]) << ($1 * 8)
            }
        }
        return times
    }

    /// Replaces a shelf's entries durably.
    func write(_ times: [BlobID: Int64], _ shelf: String) throws(AttachmentError) {
        let path = "\(folder)/\(shelf)"
        guard !times.isEmpty else {
            if File.exists(path) { File.remove(path) }
            return
        }
        try BlobStore.makeFolder(folder)
        let file = try File(path: path + ".new", flags: O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(Self.bytes(times), at: 0)
        try file.sync()
        try File.rename(path + ".new", to: path)
    }

    /// The bytes of a ledger with these entries.
    public static func bytes(_ times: [BlobID: Int64]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (id, time) in times.sorted(by: { $0.key.text < $1.key.text }) {
            bytes += id.digest
            bytes += (0..<8).map { UInt8(truncatingIfNeeded: time >> ($0 * 8)) }
        }
        return bytes + BlobDigest(of: bytes[...]).bytes
    }
}
