import CRDT

extension Delta {
    /// The same edits under another stamp, with the stamps of several closed actors lowered in its base: a store
    /// may have written as more than one since the server last heard of it.
    ///
    /// - Parameters:
    ///   - admitted: per closed actor that the base names its last time that the server has in the document, nil
    ///     for none.
    ///   - document: the server's state with this store's earlier writes moved already.
    func moved(
        to new: Stamp, admitted: [ActorID: Timestamp?], on document: Document
    ) throws(CRDTError) -> Delta {
        // Each step lowers one actor, as whose write the delta poses meanwhile; later than all that it saw.
        let time = max(stamp.time, new.time)
        var delta = self
        var lowered = admitted
        if lowered[stamp.actor] == nil { lowered[stamp.actor] = .some(base[stamp.actor]) }
        for (actor, last) in lowered.sorted(by: { $0.key < $1.key }) {
            delta = try delta.bearing(Stamp(time: time, actor: actor))
                .restamped(Stamp(time: time, actor: new.actor), on: document, admitted: last)
        }
        return try delta.bearing(new)
    }

    /// The same bytes but for the stamp they count from. The base stays, and with it what the edits say of it.
    private func bearing(_ new: Stamp) throws(CRDTError) -> Delta {
        let bytes = encoded()
        var place = 2
        func skipVarint() {
            while bytes[place] & 0x80 != 0 { place += 1 }
            place += 1
        }
        if base[stamp.actor] != nil { skipVarint() }
        skipVarint()
        for _ in base.entries.filter({ $0.actor != stamp.actor }) {
            place += 8
            skipVarint()
        }
        var head: [UInt8] = [bytes[0], bytes[1] & ~1 | (base[new.actor] == nil ? 0 : 1)]
        func varint(_ number: UInt64) {
            var rest = number
            while rest >= 0x80 {
                head.append(UInt8(truncatingIfNeeded: rest) | 0x80)
                rest >>= 7
            }
            head.append(UInt8(rest))
        }
        if let own = base[new.actor] { varint(new.time - own) }
        let others = base.entries.filter { $0.actor != new.actor }
        varint(UInt64(others.count))
        for entry in others {
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                head.append(UInt8(truncatingIfNeeded: entry.actor.rawValue >> (56 - shift)))
            }
            varint(new.time - entry.time)
        }
        return try Delta(decoding: head + bytes[place...], stamp: new)
    }
}
