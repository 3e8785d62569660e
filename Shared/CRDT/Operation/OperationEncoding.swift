// An operation's encoding, version 1:
//
//   byte 0    version (1)
//   byte 1    flags: bit 0 has an origin, others 0 (reserved: partial, signed)
//   actor     8 bytes
//   sequence  varint, from 1
//   timestamp 8 bytes
//   origin    8 bytes, with bit 0
//   varint count of collections, per collection: varint name length, name, varint count of changes, per
//     change:
//             varint id length, id, varint delta length, delta
//
// Consecutive changes of one collection share its name; the changes keep their order and name distinct
// documents. Bytes that decode encode to themselves: the log's hashes chain over them.

extension Operation {
    static let encodingVersion: UInt8 = 1
    /// The flag of an operation that was moved.
    static let originFlag: UInt8 = 1

    /// The bytes that logs store and hash.
    public func encoded() -> [UInt8] {
        var writer = ByteWriter()
        // A change adds two lengths to its id and delta; the first change of a collection also adds the
        // name.
        writer.reserve(
            changes.reduce(64) { $0 + $1.id.bytes.count + $1.delta.count + 16 }
                + (changes.first?.collection.text.utf8.count ?? 0))
        writer.byte(Operation.encodingVersion)
        writer.byte(origin == nil ? 0 : Operation.originFlag)
        writer.fixed64(actor.rawValue)
        writer.varint(sequence.rawValue)
        writer.fixed64(timestamp)
        if let origin { writer.fixed64(origin) }
        let runs = changes.chunkedByCollection()
        writer.count(runs.count)
        for run in runs {
            writer.text(run[run.startIndex].collection.text)
            writer.count(run.count)
            for change in run {
                writer.count(change.id.bytes.count)
                writer.raw(change.id.bytes)
                writer.count(change.delta.count)
                writer.raw(change.delta.bytes)
            }
        }
        return writer.bytes
    }

    /// Decodes an operation and checks its ids. Deltas stay encoded (decode them with
    /// `Delta(decoding:stamp:)`).
    public init(decoding bytes: [UInt8]) throws(CRDTError) {
        let result = bytes.withUnsafeBytes { raw -> Result<Operation, CRDTError> in
            Result { () throws(CRDTError) -> Operation in
                var reader = ByteReader(raw)
                let header = try reader.operationHeader()
                let changes = try reader.changes()
                try reader.requireEnd()
                return Operation(
                    actor: header.actor, sequence: header.sequence, timestamp: header.timestamp,
                    origin: header.origin, changes: changes)
            }
        }
        self = try result.get()
    }
}

extension Operation {
    /// Returns whether `takes` accepts the collection of every change of an encoded operation, read in
    /// place. False for bytes that are no operation.
    public static func isWithin(
        _ bytes: UnsafeRawBufferPointer, _ takes: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        var reader = ByteReader(bytes)
        return (try? reader.collections(takes)) ?? false
    }
}

extension ByteReader {
    fileprivate mutating func collections(
        _ takes: (UnsafeRawBufferPointer) -> Bool
    ) throws(CRDTError) -> Bool {
        _ = try operationHeader()
        for _ in 0..<(try count(unit: 4)) {
            guard takes(try run(try count())) else { return false }
            for _ in 0..<(try count(unit: 3)) {
                _ = try run(try count())
                _ = try run(try count())
            }
        }
        return isAtEnd
    }

    mutating func operationHeader() throws(CRDTError) -> OperationHeader {
        let version = try byte()
        guard version == Operation.encodingVersion else {
            throw CRDTError(.unsupportedVersion, "operation encoding version \(version) is not known here")
        }
        let flags = try byte()
        guard flags & ~Operation.originFlag == 0 else { throw .malformed("unknown operation flags", at: 1) }
        let actor = ActorID(try fixed64())
        let sequence = SequenceNumber(try varint())
        guard sequence > 0 else { throw .malformed("sequences count from 1", at: place) }
        let timestamp = try fixed64()
        let origin = flags == 0 ? nil : try fixed64()
        return OperationHeader(actor: actor, sequence: sequence, timestamp: timestamp, origin: origin)
    }

    fileprivate mutating func changes() throws(CRDTError) -> [Operation.Change] {
        var changes: [Operation.Change] = []
        let runs = try count(unit: 4)
        for _ in 0..<runs {
            let name = try text()
            guard name.utf8.count <= Limits.collectionNameBytes, !name.isEmpty else {
                throw .malformed("a collection name is empty or too long", at: place)
            }
            let collection = CollectionName(name)
            if changes.last?.collection == collection {
                throw .malformed("a collection name is repeated", at: place)
            }
            let number = try count(unit: 3)
            guard number > 0 else { throw .malformed("a collection without changes", at: place) }
            for _ in 0..<number {
                let id = try DocumentID(canonical: [UInt8](try run(try count())))
                let delta = EncodedDelta([UInt8](try run(try count())))
                changes.append(Operation.Change(collection: collection, id: id, delta: delta))
            }
        }
        guard changes.namesDistinctDocuments else {
            throw .malformed("an operation changes a document twice", at: place)
        }
        return changes
    }
}

extension [Operation.Change] {
    fileprivate var namesDistinctDocuments: Bool {
        guard count > 1 else { return true }
        var seen = Set<[UInt8]>(minimumCapacity: count)
        return allSatisfy { change in
            var writer = ByteWriter()
            writer.text(change.collection.text)
            writer.raw(change.id.bytes)
            return seen.insert(writer.bytes).inserted
        }
    }

    fileprivate func chunkedByCollection() -> [ArraySlice<Operation.Change>] {
        var runs: [ArraySlice<Operation.Change>] = []
        var start = startIndex
        for index in indices
        where index + 1 == endIndex || self[index].collection != self[index + 1].collection {
            runs.append(self[start...index])
            start = index + 1
        }
        return runs
    }
}
