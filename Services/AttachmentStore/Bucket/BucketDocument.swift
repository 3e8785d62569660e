/// An element of an answer of S3 in XML. It reads what such services send: elements, texts, entities,
/// CDATA; no definitions, and no entities of their own.
struct BucketDocument {
    var name: String
    var text = ""
    var children: [BucketDocument] = []

    /// The texts of all children of a name.
    func all(_ name: String) -> [BucketDocument] { children.filter { $0.name == name } }
    /// The text of the first child of a name.
    func first(_ name: String) -> String? { children.first { $0.name == name }?.text }

    /// The root element; nil for anything else.
    init?(_ bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        var reader = Reader(rest: text[...])
        guard reader.skipToElement(), let root = reader.element(depth: 0) else { return nil }
        self = root
    }

    private init(name: String) { self.name = name }

    private struct Reader {
        var rest: Substring

        /// Skips the declaration, comments and blanks before the root.
        mutating func skipToElement() -> Bool {
            while true {
                rest = rest.drop(while: \.isWhitespace)
                if rest.hasPrefix("<?") {
                    guard skip(past: "?>") else { return false }
                } else if rest.hasPrefix("<!--") {
                    guard skip(past: "-->") else { return false }
                } else {
                    return rest.hasPrefix("<") && !rest.hasPrefix("<!")
                }
            }
        }

        private mutating func skip(past end: String) -> Bool {
            guard let found = rest.firstRange(of: end) else { return false }
            rest = rest[found.upperBound...]
            return true
        }

        /// The element that begins here.
        mutating func element(depth: Int) -> BucketDocument? {
            guard depth < Limits.documentDepth, let end = rest.firstIndex(of: ">") else { return nil }
            let tag = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
            let name = tag.prefix { !$0.isWhitespace && $0 != "/" }
            guard !name.isEmpty else { return nil }
            var element = BucketDocument(name: String(name))
            if tag.hasSuffix("/") { return element }
            while true {
                guard let next = rest.firstIndex(of: "<") else { return nil }
                guard let text = Self.plain(rest[..<next]) else { return nil }
                element.text += text
                rest = rest[next...]
                if rest.hasPrefix("</\(name)") {
                    guard skip(past: ">") else { return nil }
                    return element
                }
                if rest.hasPrefix("<![CDATA[") {
                    guard let end = rest.firstRange(of: "]]>") else { return nil }
                    element.text += rest[..<end.lowerBound].dropFirst("<![CDATA[".count)
                    rest = rest[end.upperBound...]
                } else if rest.hasPrefix("<!--") {
                    guard skip(past: "-->") else { return nil }
                } else {
                    guard let child = self.element(depth: depth + 1) else { return nil }
                    element.children.append(child)
                }
            }
        }

        /// A text without its entities; nil if it has an unknown one.
        private static func plain(_ text: Substring) -> String? {
            guard text.contains("&") else { return String(text) }
            var (plain, rest) = ("", text)
            while let start = rest.firstIndex(of: "&") {
                plain += rest[..<start]
                guard let end = rest[start...].firstIndex(of: ";") else { return nil }
                let entity = rest[rest.index(after: start)..<end]
                guard let character = self.character(entity) else { return nil }
                plain.unicodeScalars.append(character)
                rest = rest[rest.index(after: end)...]
            }
            return plain + rest
        }

        private static func character(_ entity: Substring) -> UnicodeScalar? {
            switch entity {
            case "lt": return "<"
            case "gt": return ">"
            case "amp": return "&"
            case "quot": return "\""
            case "apos": return "'"
            default:
                guard entity.hasPrefix("#") else { return nil }
                let digits = entity.dropFirst()
                let number =
                    digits.hasPrefix("x") ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
                return number.flatMap(UnicodeScalar.init)
            }
        }
    }
}
