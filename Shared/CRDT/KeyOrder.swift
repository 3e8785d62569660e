/// The places of an object's pairs in the order of their keys' UTF-8 bytes. Of a few pairs, which nearly all
/// objects have, the places are in one word: to sort them allocates nothing.
struct KeyOrder {
    /// Four bits a place, the first one lowest; used up to `few` pairs.
    private var packed: UInt64 = 0
    private var places: [Int] = []
    /// Whether the pairs are in order as they are.
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
            // Inserted behind those that come before it.
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

    /// The place of the pair that comes at `index`.
    subscript(index: Int) -> Int {
        if isIdentity { return index }
        return places.isEmpty ? Int(packed >> (4 * index) & 15) : places[index]
    }
}
