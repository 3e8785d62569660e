/// The order of an object's pairs by the UTF-8 bytes of their keys. For a few pairs (nearly every object)
/// the places fit in one word, so sorting them allocates nothing.
struct KeyOrder {
    /// Four bits a place, the first one lowest. Used for at most `few` pairs.
    private var packed: UInt64 = 0
    private var places: [Int] = []
    /// True if the pairs are in canonical order already.
    let isIdentity: Bool

    private static let few = 16

    init(_ entries: [ObjectValue.Entry]) {
        var sorted = 1
        while sorted < entries.count, utf8Precedes(entries[sorted - 1].key, entries[sorted].key) {
            sorted += 1
        }
        isIdentity = sorted >= entries.count
        guard !isIdentity else { return }
        guard entries.count <= Self.few else {
            places = entries.indices.sorted { utf8Precedes(entries[$0].key, entries[$1].key) }
            return
        }
        for place in 0..<entries.count {
            // Insertion sort: the place goes after the keys that precede it.
            var free = place
            while free > 0,
                utf8Precedes(entries[place].key, entries[Int(packed >> (4 * (free - 1)) & 15)].key)
            {
                free -= 1
            }
            let low = packed & ((1 << (4 * UInt64(free))) - 1)
            let high = free == 15 ? 0 : (packed >> (4 * free)) << (4 * (free + 1))
            packed = high | UInt64(place) << (4 * free) | low
        }
    }

    /// The place of the pair that is at `index` in the canonical order.
    subscript(index: Int) -> Int {
        if isIdentity { return index }
        return places.isEmpty ? Int(packed >> (4 * index) & 15) : places[index]
    }
}
