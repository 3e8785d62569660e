import CRDT

/// What happened, as one number, and the last lines in words where somebody wants to read them.
struct Trace {
    /// One event: what, whose, and a checksum of what it carried.
    struct Line {
        let step: Int
        let milliseconds: UInt64
        let text: String
    }

    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var lines: [Line] = []
    private let keepsLines: Bool
    private let keepsAll: Bool

    /// - Parameter keepsAll: every line, not only the last ones.
    init(keepsLines: Bool, keepsAll: Bool) {
        self.keepsLines = keepsLines || keepsAll
        self.keepsAll = keepsAll
    }

    mutating func note(_ number: UInt64) { hash = (hash ^ number) &* 0x0000_0100_0000_01B3 &+ (hash >> 31) }

    mutating func note(_ bytes: [UInt8]) { note(hash64(bytes)) }

    mutating func say(_ step: Int, _ milliseconds: UInt64, _ text: () -> String) {
        guard keepsLines else { return }
        if !keepsAll, lines.count >= 400 { lines.removeFirst(200) }
        lines.append(Line(step: step, milliseconds: milliseconds, text: text()))
    }
}
