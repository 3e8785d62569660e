/// Finds ids of blobs in the encoded bytes of a document, wherever they stand: in an ATTACHMENT, in a
/// REGISTER, in any text. So a blob whose id an application keeps in a plain string is not collected either.
///
/// A prefix is the first 60 bits of an id. Two blobs with one prefix would only be kept together.
public enum BlobMentions {
    /// Calls `body` with the prefix of every run of 43 characters that could be an id.
    public static func forEach(in bytes: UnsafeRawBufferPointer, _ body: (UInt64) -> Void) {
        var start = 0
        while start < bytes.count {
            guard code(bytes[start]) != nil else {
                start += 1
                continue
            }
            var end = start + 1
            while end < bytes.count, code(bytes[end]) != nil { end += 1 }
            if end - start >= Limits.idCharacters { windows(bytes[start..<end], body) }
            start = end + 1
        }
    }

    private static func windows(_ run: Slice<UnsafeRawBufferPointer>, _ body: (UInt64) -> Void) {
        var prefix: UInt64 = 0
        // The last window begins so many characters before the end; its prefix ends earlier.
        let last = run.endIndex - Limits.idCharacters + Self.characters
        for index in run.startIndex..<last {
            prefix = (prefix << 6 | UInt64(code(run[index]) ?? 0)) & (1 << 60 - 1)
            if index - run.startIndex >= Self.characters - 1 { body(prefix) }
        }
    }

    /// The characters of a prefix.
    static let characters = 10

    /// The value of a character of base64url.
    static func code(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x41...0x5A: byte - 0x41
        case 0x61...0x7A: byte - 0x61 + 26
        case 0x30...0x39: byte - 0x30 + 52
        case 0x2D: 62
        case 0x5F: 63
        default: nil
        }
    }
}

extension BlobID {
    /// The first 60 bits.
    public var prefix: UInt64 {
        text.utf8.prefix(BlobMentions.characters).reduce(0) { $0 << 6 | UInt64(BlobMentions.code($1) ?? 0) }
    }
}
