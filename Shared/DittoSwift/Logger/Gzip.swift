/// Compresses a stream of bytes into a gzip file (RFC 1952) of DEFLATE blocks with fixed codes (RFC 1951).
///
/// Made for logs, whose lines repeat each other: a run that occurred in the last 32 KiB becomes a reference
/// to it. Each `append` is a block of its own, so the memory needed is that of one block. (The platform has
/// no compression that the SDK may import.)
struct Gzip {
    /// The finished bytes that were not taken yet.
    private var output: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF]
    /// Bits that do not fill a byte yet, the first one lowest.
    private var pending: UInt64 = 0
    private var count = 0
    private var checksum: UInt32 = 0xFFFF_FFFF
    private var size: UInt32 = 0

    private static let window = 32_768
    private static let longest = 258
    private static let shortest = 4
    private static let endOfBlock = 256

    /// Compresses more bytes.
    mutating func append(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        for byte in bytes {
            checksum = Self.table[Int((checksum ^ UInt32(byte)) & 0xFF)] ^ (checksum >> 8)
        }
        size &+= UInt32(truncatingIfNeeded: bytes.count)
        put(0b010, 3)
        compress(bytes)
        put(symbol: Self.endOfBlock)
    }

    /// Returns the rest of the file. Nothing can be appended after this.
    mutating func finish() -> [UInt8] {
        put(0b011, 3)
        put(symbol: Self.endOfBlock)
        put(0, (8 - count % 8) % 8)
        for word in [checksum ^ 0xFFFF_FFFF, size] {
            for shift in stride(from: 0, to: 32, by: 8) {
                output.append(UInt8(truncatingIfNeeded: word >> UInt32(shift)))
            }
        }
        return take()
    }

    /// Returns and removes the finished bytes.
    mutating func take() -> [UInt8] {
        defer { output = [] }
        return output
    }

    private mutating func compress(_ bytes: [UInt8]) {
        /// The last place of each hash of four bytes.
        var seen = [Int](repeating: -1, count: 1 << 15)
        var place = 0
        while place < bytes.count {
            var length = 0
            var distance = 0
            if place + Self.shortest <= bytes.count {
                let slot = Self.slot(bytes, place)
                let before = seen[slot]
                seen[slot] = place
                if before >= 0, place - before <= Self.window {
                    distance = place - before
                    length = Self.common(bytes, before, place)
                }
            }
            if length >= Self.shortest {
                put(length: length, distance: distance)
                // Every second place of a skipped run can be referred to later.
                for skipped in stride(from: place + 1, to: place + length, by: 2)
                where skipped + Self.shortest <= bytes.count {
                    seen[Self.slot(bytes, skipped)] = skipped
                }
                place += length
            } else {
                put(symbol: Int(bytes[place]))
                place += 1
            }
        }
    }

    private static func slot(_ bytes: [UInt8], _ place: Int) -> Int {
        let word =
            UInt32(bytes[place]) | UInt32(bytes[place + 1]) << 8 | UInt32(bytes[place + 2]) << 16
            | UInt32(bytes[place + 3]) << 24
        return Int((word &* 2_654_435_761) >> 17)
    }

    private static func common(_ bytes: [UInt8], _ before: Int, _ place: Int) -> Int {
        let limit = min(longest, bytes.count - place)
        var length = 0
        while length < limit, bytes[before + length] == bytes[place + length] { length += 1 }
        return length
    }

    // MARK: Codes

    /// Writes a literal, the end of a block or the class of a length.
    private mutating func put(symbol: Int) {
        switch symbol {
        case 0..<144: put(reversed: 0x30 + symbol, 8)
        case 144..<256: put(reversed: 0x190 + symbol - 144, 9)
        case 256..<280: put(reversed: symbol - 256, 7)
        default: put(reversed: 0xC0 + symbol - 280, 8)
        }
    }

    private mutating func put(length: Int, distance: Int) {
        let lengthClass = Self.lengths.lastIndex { $0.first <= length } ?? 0
        put(symbol: 257 + lengthClass)
        put(UInt64(length - Self.lengths[lengthClass].first), Self.lengths[lengthClass].bits)
        let distanceClass = Self.distances.lastIndex { $0.first <= distance } ?? 0
        put(reversed: distanceClass, 5)
        put(UInt64(distance - Self.distances[distanceClass].first), Self.distances[distanceClass].bits)
    }

    /// Codes are written from their highest bit, numbers from their lowest.
    private mutating func put(reversed code: Int, _ bits: Int) {
        var turned: UInt64 = 0
        for bit in 0..<bits where code >> bit & 1 == 1 { turned |= 1 << UInt64(bits - 1 - bit) }
        put(turned, bits)
    }

    private mutating func put(_ number: UInt64, _ bits: Int) {
        pending |= number << UInt64(count)
        count += bits
        while count >= 8 {
            output.append(UInt8(truncatingIfNeeded: pending))
            pending >>= 8
            count -= 8
        }
    }

    /// The shortest length of each class, and the number of bits that follow. The longest length has a class
    /// of its own.
    private static let lengths: [(first: Int, bits: Int)] =
        classes(from: 3, count: 28, plain: 8, every: 4) + [(first: 258, bits: 0)]
    /// The same for distances.
    private static let distances = classes(from: 1, count: 30, plain: 4, every: 2)

    /// `plain` classes of one number each, then one more bit after each `every` classes.
    private static func classes(
        from first: Int, count: Int, plain: Int, every: Int
    ) -> [(first: Int, bits: Int)] {
        var next = first
        return (0..<count).map { number in
            let bits = number < plain ? 0 : (number - plain) / every + 1
            defer { next += 1 << bits }
            return (first: next, bits: bits)
        }
    }

    /// CRC-32 of each byte.
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { sum, _ in sum & 1 == 1 ? 0xEDB8_8320 ^ (sum >> 1) : sum >> 1 }
    }
}
