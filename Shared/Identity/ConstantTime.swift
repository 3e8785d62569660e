/// Comparing what nobody may guess.
public enum ConstantTime {
    /// Compares in a time that depends on the length of what was sent and on nothing else.
    public static func equal(_ sent: String, _ kept: String) -> Bool {
        equal(Array(sent.utf8), Array(kept.utf8))
    }

    /// Compares in a time that depends on the length of what was sent and on nothing else.
    public static func equal(_ sent: [UInt8], _ kept: [UInt8]) -> Bool { same(sent, kept) }

    /// Looks at every byte of what was sent, and at one of what is kept for each, wherever they differ.
    static func same<Bytes: RandomAccessCollection>(_ sent: Bytes, _ kept: Bytes) -> Bool
    where Bytes.Element == UInt8, Bytes.Index == Int {
        guard !kept.isEmpty else { return false }
        var difference = UInt64(truncatingIfNeeded: sent.count ^ kept.count)
        for index in sent.indices { difference |= UInt64(sent[index] ^ kept[index % kept.count]) }
        return difference == 0
    }
}
