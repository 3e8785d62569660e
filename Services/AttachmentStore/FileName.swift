import CRDT
import Foundation

/// The name under which a client is to save an attachment.
enum FileName {
    /// Keys of a token's metadata under which applications keep it.
    private static let keys = ["filename", "fileName", "name"]

    /// The name in a token's metadata; nil if it has none that can be a file's.
    static func of(_ token: AttachmentToken) -> String? {
        for key in keys {
            guard let text = token.metadata.first(where: { $0.key == key })?.value else { continue }
            if let name = checked(text) { return name }
        }
        return nil
    }

    /// The text without what has a meaning in a header or a path; nil if nothing is left.
    static func checked(_ text: String) -> String? {
        let name = String(
            text.unicodeScalars.filter { scalar in
                scalar.value >= 0x20 && !(0x7F...0x9F ~= scalar.value)
                    && !"/\\".unicodeScalars.contains(scalar)
            }.prefix(Limits.fileNameCharacters).map { Character($0) })
        return name.isEmpty || name == "." || name == ".." ? nil : name
    }

    /// `Content-Disposition` by RFC 6266, with the name if there is one.
    static func disposition(_ name: String?, _ kind: String) -> String {
        guard let name else { return kind }
        let plain = String(name.map { $0.isASCII && $0 != "\"" && $0 != "%" ? $0 : "_" })
        var allowed = CharacterSet.alphanumerics.intersection(CharacterSet(charactersIn: "\0"..."~"))
        allowed.insert(charactersIn: "!#$&+-.^_`|~")
        let encoded = name.addingPercentEncoding(withAllowedCharacters: allowed) ?? plain
        return "\(kind); filename=\"\(plain)\"; filename*=UTF-8''\(encoded)"
    }
}
