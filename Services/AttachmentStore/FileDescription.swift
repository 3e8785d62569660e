import CRDT

/// The words of a token's metadata about its file: the name under which to save it, and its media type.
///
/// An application writes them, and so may an attacker. A type under which a browser would run something is
/// left out, so that an attachment never becomes a page or a script of this server. Only types that a browser
/// shows without running anything are shown in place, all others are saved.
struct FileDescription: Sendable, Equatable, Comparable {
    /// Can be the name of a file.
    var name: String?
    /// In lower case, without parameters.
    var type: String?

    /// Keys of metadata under which applications keep the type.
    private static let typeKeys = [
        "mime_type", "mimeType", "mimetype", "contentType", "content_type", "type",
    ]

    /// Nothing is known.
    init() {}

    /// The words of a token.
    init(_ token: AttachmentToken) {
        name = FileName.of(token)
        for key in Self.typeKeys where type == nil {
            type = token.metadata.first { $0.key == key }.flatMap { Self.checked($0.value) }
        }
    }

    /// True if there is nothing to tell.
    var isEmpty: Bool { name == nil && type == nil }

    /// `Content-Type`.
    var contentType: String {
        guard let type else { return "application/octet-stream" }
        return type.hasPrefix("text/") ? "\(type); charset=utf-8" : type
    }

    /// `Content-Disposition`; nil for bytes without name and type, which no browser shows.
    /// - Parameter isSaved: true to save also what could be shown.
    func disposition(isSaved: Bool) -> String? {
        guard !isEmpty else { return nil }
        let isShown = !isSaved && type.map { Self.isShown($0) } == true
        return FileName.disposition(name, isShown ? "inline" : "attachment")
    }

    /// By name, then by type: of several documents one is taken, always the same.
    static func < (left: FileDescription, right: FileDescription) -> Bool {
        (left.name ?? "\u{10FFFF}", left.type ?? "\u{10FFFF}")
            < (right.name ?? "\u{10FFFF}", right.type ?? "\u{10FFFF}")
    }

    /// A type that may be told; nil for any other text.
    private static func checked(_ text: String) -> String? {
        let type = text.prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        let parts = type.split(separator: "/", omittingEmptySubsequences: false)
        let isToken = { (part: Substring) in
            !part.isEmpty
                && part.utf8.allSatisfy { 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || "+-._".utf8.contains($0) }
        }
        guard parts.count == 2, parts.allSatisfy(isToken), type.utf8.count <= Limits.fileNameCharacters else {
            return nil
        }
        let isHarmless =
            ["image", "audio", "video", "font"].contains(parts[0]) || plain.contains(type)
            || type.hasPrefix("application/vnd.") && !type.hasSuffix("xml")
        return isHarmless ? type : nil
    }

    /// Types of text and of other files that nothing runs.
    private static let plain: Set<String> = [
        "text/plain", "text/csv", "text/markdown", "text/calendar", "text/vcard", "text/tab-separated-values",
        "application/json", "application/geo+json", "application/x-ndjson", "application/pdf",
        "application/zip", "application/gzip", "application/x-tar", "application/rtf", "application/msword",
        "application/epub+zip", "application/cbor",
    ]

    /// True for a type that a browser shows without running anything. An SVG image may hold scripts.
    private static func isShown(_ type: String) -> Bool {
        if type.hasPrefix("image/") { return !type.contains("svg") && !type.hasSuffix("xml") }
        return type.hasPrefix("audio/") || type.hasPrefix("video/")
            || ["text/plain", "application/pdf"].contains(type)
    }
}
