import CRDT

/// The mentions of attachments in the order of a list: by collection, document and attachment, each compared
/// by its bytes. It is kept up with each document that changes, so that a page costs its own rows.
///
/// Invariant: `entries` ascend by `place`. Mentions of one document stand together, but for the odd
/// collection whose name has a line feed and goes on as a document of another one: so keys tell entries
/// apart.
struct MentionOrder: Sendable {
    struct Entry: Sendable {
        /// `COLLECTION\nID\nATTACHMENT`: the cursor of a list.
        let place: String
        let key: DocumentKey
        /// The mention's place among those of its document.
        let index: Int

        func begins(with text: String) -> Bool { place.utf8.starts(with: text.utf8) }
    }

    private(set) var entries: [Entry] = []

    init(_ mentions: [DocumentKey: [BlobReferences.Mention]]) {
        for (key, all) in mentions { entries += Self.entries(of: key, all) }
        entries.sort { Self.precedes($0.place, $1.place) }
    }

    mutating func add(_ key: DocumentKey, _ mentions: [BlobReferences.Mention]) {
        let range = entries(beginningLike: key)
        let all = entries[range] + Self.entries(of: key, mentions)
        entries.replaceSubrange(range, with: all.sorted { Self.precedes($0.place, $1.place) })
    }

    mutating func remove(_ key: DocumentKey) {
        let range = entries(beginningLike: key)
        entries.replaceSubrange(range, with: entries[range].filter { $0.key != key })
    }

    private func entries(beginningLike key: DocumentKey) -> Range<Int> {
        let text = Self.beginning(of: key)
        let start = first(from: text)
        var end = start
        while end < entries.count, entries[end].begins(with: text) { end += 1 }
        return start..<end
    }

    /// The first entry that does not come before a text.
    func first(from text: String) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if Self.precedes(entries[middle].place, text) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The first entry after a cursor.
    func first(after cursor: String) -> Int {
        let place = first(from: cursor)
        return place < entries.count && utf8Equal(entries[place].place, cursor) ? place + 1 : place
    }

    /// The text with which the places of a collection begin.
    static func beginning(of collection: CollectionName) -> String { "\(collection.text)\n" }

    private static func beginning(of key: DocumentKey) -> String {
        "\(beginning(of: key.collection))\(JSONText.print(key.id.value))\n"
    }

    private static func entries(of key: DocumentKey, _ mentions: [BlobReferences.Mention]) -> [Entry] {
        let document = beginning(of: key)
        return mentions.enumerated().map { Entry(place: document + $1.id, key: key, index: $0) }
    }

    private static func precedes(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }
}
