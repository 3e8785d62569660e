import CRDT

extension Delta {
    /// The same edits under another stamp and on another base.
    func restamped(
        as stamp: Stamp, base: VersionVector, seeing document: Document
    ) throws(CRDTError) -> Delta {
        let bytes = encoded()
        var place = 1
        let hasOwn = bytes[place] == 1
        place += 1
        func skipVarint() {
            while bytes[place] & 0x80 != 0 { place += 1 }
            place += 1
        }
        if hasOwn { skipVarint() }
        let others = self.base.entries.filter { $0.actor != self.stamp.actor }
        skipVarint()
        for _ in others {
            place += 8
            skipVarint()
        }
        var head: [UInt8] = [bytes[0], base[stamp.actor] == nil ? 0 : 1]
        func varint(_ number: UInt64) {
            var rest = number
            while rest >= 0x80 {
                head.append(UInt8(truncatingIfNeeded: rest) | 0x80)
                rest >>= 7
            }
            head.append(UInt8(rest))
        }
        if let own = base[stamp.actor] { varint(stamp.time - own) }
        let kept = base.entries.filter { $0.actor != stamp.actor }
        varint(UInt64(kept.count))
        for entry in kept {
            for shift in stride(from: UInt64(56), through: 0, by: -8) {
                head.append(UInt8(truncatingIfNeeded: entry.actor.rawValue >> shift))
            }
            varint(stamp.time - entry.time)
        }
        return try Delta(decoding: head + bytes[place...], stamp: stamp)
    }
}
