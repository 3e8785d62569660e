/// Compares secrets without leaking them through timing.
public enum ConstantTime {
    /// Compares in a time that depends only on the length of `sent`.
    public static func equal(_ sent: String, _ kept: String) -> Bool {
        equal(Array(sent.utf8), Array(kept.utf8))
    }

    /// Compares in a time that depends only on the length of `sent`.
    public static func equal(_ sent: [UInt8], _ kept: [UInt8]) -> Bool { same(sent, kept) }

    /// Compares every byte of `sent` with one of `kept`, whichever bytes differ.
    static func same<Bytes: RandomAccessCollection>(_ sent: Bytes, _ kept: Bytes) -> Bool
    where Bytes.Element == UInt8, Bytes.Index == Int {
        guard !kept.isEmpty else { return false }
        var difference = UInt64(truncatingIfNeeded: sent.count ^ kept.count)
        for index in sent.indices { difference |= UInt64(sent[index] ^ kept[index % kept.count]) }
        return difference == 0
    }
}
