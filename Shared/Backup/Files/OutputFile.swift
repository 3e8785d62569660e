import Crypto
import Foundation
import Glibc

/// A file of a backup: its name in the backup's folder, its size and its digest.
public struct FileRecord: Codable, Sendable, Hashable {
    /// Relative to the backup's folder.
    public var name: String
    /// Its size.
    public var bytes: Int64
    /// SHA-256 in hexadecimal digits.
    public var sha256: String
}

/// Writes a new file through a buffer, with its digest. One task uses it; it is not shared.
final class OutputFile {
    let path: String
    private let descriptor: Int32
    private var buffer: [UInt8] = []
    private var digest = SHA256()
    private(set) var bytes: Int64 = 0

    /// - Throws: `BAK-0101`, also if the file is there.
    init(_ path: String) throws(BackupError) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Folder.failure("created", path) }
    }

    deinit { Glibc.close(descriptor) }

    func write(_ part: [UInt8]) throws(BackupError) {
        buffer += part
        bytes += Int64(part.count)
        if buffer.count >= Limits.bufferBytes { try flush() }
    }

    /// Writes and syncs what is left.
    /// - Returns: the digest.
    func finish() throws(BackupError) -> String {
        try flush()
        guard fsync(descriptor) == 0 else { throw Folder.failure("synced", path) }
        return hexadecimal(Array(digest.finalize()))
    }

    private func flush() throws(BackupError) {
        digest.update(data: buffer)
        var place = 0
        while place < buffer.count {
            let written = buffer.withUnsafeBytes { bytes in
                Glibc.write(descriptor, bytes.baseAddress.map { $0 + place }, bytes.count - place)
            }
            guard written > 0 || errno == EINTR else { throw Folder.failure("written", path) }
            place += max(written, 0)
        }
        buffer.removeAll(keepingCapacity: true)
    }
}

/// The SHA-256 of bytes that come in parts.
struct FileDigest {
    private var digest = SHA256()

    mutating func update(_ part: [UInt8]) { digest.update(data: part) }

    /// In hexadecimal digits.
    var text: String { hexadecimal(Array(digest.finalize())) }
}

/// Reads a file from its beginning, with its digest.
final class InputFile {
    let path: String
    private let descriptor: Int32
    private var digest = SHA256()

    /// - Throws: `BAK-0202` for a missing file, `BAK-0101`.
    init(_ path: String) throws(BackupError) {
        self.path = path
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? .damaged(path, "is missing") : Folder.failure("opened", path)
        }
    }

    deinit { Glibc.close(descriptor) }

    /// The next part; nil at the end.
    func read() throws(BackupError) -> [UInt8]? {
        var part = [UInt8](repeating: 0, count: Limits.bufferBytes)
        let count = part.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw Folder.failure("read", path) }
        guard count > 0 else { return nil }
        part.removeLast(part.count - count)
        digest.update(data: part)
        return part
    }

    /// The digest of what was read, in hexadecimal digits.
    var digestText: String { hexadecimal(Array(digest.finalize())) }
}

/// Two digits a byte.
func hexadecimal(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef")
    return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
}

/// Sixteen digits.
func hexadecimal(_ number: UInt64) -> String {
    hexadecimal((0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) })
}

/// The bytes of hexadecimal digits; nil for a text that is none.
func bytes(hexadecimal text: String) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    for place in stride(from: 0, to: digits.count, by: 2) {
        guard let byte = UInt8(String(decoding: digits[place...(place + 1)], as: UTF8.self), radix: 16) else {
            return nil
        }
        bytes.append(byte)
    }
    return bytes
}
