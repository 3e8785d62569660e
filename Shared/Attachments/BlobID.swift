import Foundation

/// The name of a blob: the SHA-256 of its bytes in unpadded base64url, 43 characters. Always valid, so it is
/// safe as a file name.
public struct BlobID: Sendable, Hashable, CustomStringConvertible {
    /// 43 characters.
    public let text: String

    /// Parses an id strictly: one spelling for one digest.
    /// - Throws: `BLOB-0101`.
    public init(_ text: some StringProtocol) throws(AttachmentError) {
        guard text.utf8.count == Limits.idCharacters, let digest = Self.decode(String(text)),
            Self.encode(digest).utf8.elementsEqual(text.utf8)
        else {
            throw AttachmentError(.idMalformed, "an attachment id is 43 characters of base64url")
        }
        self.text = String(text)
    }

    /// The id of a blob with this SHA-256.
    /// - Parameter digest: 32 bytes.
    public init(digest: [UInt8]) {
        precondition(digest.count == Limits.digestBytes, "a SHA-256 has 32 bytes")
        text = Self.encode(digest)
    }

    /// The 32 bytes of the SHA-256.
    public var digest: [UInt8] { Self.decode(text) ?? [] }

    /// The text.
    public var description: String { text }

    private static func encode(_ bytes: [UInt8]) -> String {
        String(
            Data(bytes).base64EncodedString().compactMap { character in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            })
    }

    private static func decode(_ text: String) -> [UInt8]? {
        // Characters of the standard alphabet ('+' and '/') are refused by the comparison with `encode`.
        let standard = String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }) + "="
        guard let data = Data(base64Encoded: standard), data.count == Limits.digestBytes else { return nil }
        return [UInt8](data)
    }
}

/// A stored blob.
public struct BlobInfo: Sendable, Hashable {
    /// The name, which is the digest.
    public let id: BlobID
    /// Length in bytes.
    public let length: Int64

    /// A blob of the given name and length.
    public init(id: BlobID, length: Int64) {
        self.id = id
        self.length = length
    }
}
