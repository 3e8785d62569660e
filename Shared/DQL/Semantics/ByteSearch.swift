/// Finds a text in others, in time linear in both (Knuth, Morris and Pratt): no choice of text makes the
/// search hang.
struct ByteSearch: Equatable, Sendable {
    let part: [UInt8]
    /// For each position in the part: the length of its longest prefix that also ends there.
    private let overlaps: [Int]

    init(_ part: String) {
        self.part = Array(part.utf8)
        var overlaps = Array(repeating: 0, count: self.part.count)
        var length = 0
        for place in self.part.indices.dropFirst() {
            while length > 0, self.part[place] != self.part[length] { length = overlaps[length - 1] }
            if self.part[place] == self.part[length] { length += 1 }
            overlaps[place] = length
        }
        self.overlaps = overlaps
    }

    var count: Int { part.count }

    /// The position of the part's first occurrence at or after `start`; nil if it does not occur.
    func first(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard let first = part.first else { return start }
        var place = start
        var length = 0
        while place < text.count {
            // Skips quickly to the next possible beginning: most of a text is nowhere near the part.
            if length == 0 {
                while place < text.count, text[place] != first { place += 1 }
                if place == text.count { return nil }
            }
            while length > 0, text[place] != part[length] { length = overlaps[length - 1] }
            if text[place] == part[length] { length += 1 }
            place += 1
            if length == part.count { return place - length }
        }
        return nil
    }
}
