@testable import CRDT

/// A path of the few keys that histories use, packed into 64 bits: four bits a key below a leading one, so
/// that the oracle can compare, hash and walk paths without allocating.
struct Path: Hashable, CustomStringConvertible {
    private let bits: UInt64

    /// The document itself.
    static let root = Path(bits: 1)

    /// The keys of histories: few, so that writes meet; two that look the same and differ in bytes, one
    /// empty. Those behind are for wide objects.
    static let keys = ["a", "b", "c", "é", "e\u{301}", ""] + wideKeys
    static let wideKeys = ["f", "g", "h", "i", "j", "k", "l", "m", "n", "o"]

    private init(bits: UInt64) { self.bits = bits }

    init(_ keys: some Sequence<String>) {
        self = keys.reduce(Path.root) { $0.appending($1) }
    }

    var depth: Int { (63 - bits.leadingZeroBitCount) / 4 }

    func appending(_ key: String) -> Path { appending(number: Path.number(of: key)) }

    func appending(number: Int) -> Path {
        precondition(depth < 15, "a path deeper than histories go")
        return Path(bits: bits << 4 | UInt64(number))
    }

    /// Returns whether the other path is this one or below it.
    func isPrefix(of other: Path) -> Bool {
        let below = other.depth - depth
        return below >= 0 && other.bits >> UInt64(4 * below) == bits
    }

    /// The number of the key at a depth from the root.
    func number(at place: Int) -> Int { Int(bits >> UInt64(4 * (depth - place - 1)) & 15) }

    var description: String {
        (0..<depth).map { "\"" + Path.keys[number(at: $0)] + "\"" }.joined(separator: ".")
    }

    private static func number(of key: String) -> Int {
        switch (key.utf8.first, key.utf8.count) {
        case (UInt8(ascii: "a"), 1): 0
        case (UInt8(ascii: "b"), 1): 1
        case (UInt8(ascii: "c"), 1): 2
        case (0xC3, 2): 3
        case (UInt8(ascii: "e"), 3): 4
        case (nil, _): 5
        case (let byte?, 1) where (UInt8(ascii: "f")...UInt8(ascii: "o")).contains(byte):
            Int(byte - UInt8(ascii: "f")) + 6
        default: preconditionFailure("histories do not use this key")
        }
    }
}
