// A version vector on its own, as sessions exchange it: count, the actors ascending (8 bytes each), their
// times (8 bytes each).

extension VersionVector {
    /// The canonical bytes.
    public func encoded() -> [UInt8] {
        var writer = ByteWriter()
        writer.vector(self)
        return writer.bytes
    }

    /// Decodes canonical bytes; throws `truncated` or `malformed`.
    public init(decoding bytes: [UInt8]) throws(CRDTError) {
        let result = bytes.withUnsafeBytes { raw -> Result<VersionVector, CRDTError> in
            Result { () throws(CRDTError) -> VersionVector in
                var reader = ByteReader(raw)
                let vector = try reader.vector()
                try reader.requireEnd()
                return vector
            }
        }
        self = try result.get()
    }
}

extension ByteWriter {
    mutating func vector(_ vector: VersionVector) {
        count(vector.entries.count)
        for entry in vector.entries { fixed64(entry.actor.rawValue) }
        for entry in vector.entries { fixed64(entry.time) }
    }
}

extension ByteReader {
    mutating func vector() throws(CRDTError) -> VersionVector {
        let number = try count(unit: 16)
        var times = ByteReader(bytes, at: place + 8 * number)
        var entries: [VersionVector.Entry] = []
        entries.reserveCapacity(number)
        for _ in 0..<number {
            let actor = ActorID(try fixed64())
            if let last = entries.last, last.actor >= actor {
                throw .malformed("a vector's actors do not ascend", at: place)
            }
            entries.append(VersionVector.Entry(actor: actor, time: try times.fixed64()))
        }
        self = times
        return VersionVector(ascending: entries)
    }
}
