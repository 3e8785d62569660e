import Foundation

/// The facts of an unfinished upload that do not change with its bytes. Stored beside them, as JSON.
public struct UploadRecord: Sendable, Codable, Equatable {
    /// The announced length; nil while the client has not said it.
    public var length: Int64?
    /// The client's metadata, as it wrote it.
    public var metadata: String
    /// The id that the bytes have to have; nil if the client has not said one.
    public var expected: String?
    /// The id of the bytes, once all of them have arrived.
    public var blob: String?

    /// An upload of which nothing has arrived.
    public init(length: Int64?, metadata: String = "", expected: BlobID? = nil) {
        (self.length, self.metadata, self.expected) = (length, metadata, expected?.text)
    }
}

/// The name of an unfinished upload: 48 hexadecimal digits. The first 16 stand for its owner, so that only
/// the owner's name opens it; the others are drawn and cannot be guessed.
public struct UploadName: Sendable, Hashable, CustomStringConvertible {
    /// 48 characters, safe as a file name.
    public let text: String

    /// A new name.
    /// - Parameter drawn: 16 random bytes.
    public init(owner: String, drawn: [UInt8]) {
        precondition(drawn.count == 16, "a name has 16 drawn bytes")
        text = Self.prefix(of: owner) + Self.hexadecimal(drawn)
    }

    /// A name from a path, if it is the owner's.
    /// - Throws: `BLOB-0106` for anything else.
    public init(_ text: some StringProtocol, owner: String) throws(AttachmentError) {
        guard text.utf8.count == Limits.uploadNameCharacters,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            text.hasPrefix(Self.prefix(of: owner))
        else { throw .unknownUpload }
        self.text = String(text)
    }

    /// A file's name in the folder of uploads; nil for other files.
    init?(file: String) {
        guard file.utf8.count == Limits.uploadNameCharacters, !file.contains(".") else { return nil }
        text = file
    }

    /// The beginning of all names of an owner.
    static func prefix(of owner: String) -> String {
        var digest = BlobDigest()
        digest.update(Array(owner.utf8))
        return hexadecimal(digest.bytes.prefix(8))
    }

    private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The text.
    public var description: String { text }
}

/// How far an upload's bytes are durable and confirmed, as the file `NAME.progress` has it.
struct UploadProgress: Equatable {
    /// The bytes that were fsynced.
    var durable: Int64
    /// True while bytes after them wait for the comparison with their checksum: a crash takes them back.
    var isUnconfirmed: Bool
    /// The run of the operating system in which it was written: within it, whatever is in the file stays.
    var boot: String

    /// Bytes of the file.
    static let size = 64

    var bytes: [UInt8] {
        var bytes = (0..<8).map { UInt8(truncatingIfNeeded: durable >> ($0 * 8)) }
        bytes.append(isUnconfirmed ? 1 : 0)
        bytes += boot.utf8.prefix(Self.size - 9)
        return bytes + [UInt8](repeating: 0, count: Self.size - bytes.count)
    }

    init(durable: Int64, isUnconfirmed: Bool, boot: String) {
        (self.durable, self.isUnconfirmed, self.boot) = (durable, isUnconfirmed, boot)
    }

    /// Nil for bytes of another form.
    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.size, bytes[8] <= 1 else { return nil }
        durable = (0..<8).reduce(0) { $0 | Int64(bytes[$1]) << ($1 * 8) }
        isUnconfirmed = bytes[8] == 1
        guard durable >= 0,
            let text = String(validating: bytes[9...].prefix { $0 != 0 }, as: UTF8.self)
        else { return nil }
        boot = text
    }

    /// The bytes of a file that count, of so many that are in it.
    func trusted(of length: Int64, boot now: String) -> Int64 {
        !isUnconfirmed && !boot.isEmpty && boot == now ? length : min(length, durable)
    }

    /// A text that differs in each run of the operating system; empty where there is none.
    static let currentBoot: String = {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    }()
}
