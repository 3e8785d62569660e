/// A change that inserts a document as a whole, read straight from its encoding. For a document that nobody
/// has written before, nearly every change is one. The trees between delta and state cost several times as
/// much as the encodings, so they are built only when the insertion has to be merged with something else.
///
/// Invariant: `state` is byte for byte the result of applying the decoded delta to no document, and all
/// checks of decoding are made. Anything that is not of this plain form is nil here and has to be decoded.
public struct Insertion: Sendable, Equatable {
    /// The operation's stamp, the only one that the document has.
    public let stamp: Stamp
    /// The encoded delta.
    public let delta: EncodedDelta
    /// The encoded state of a document that consists of this insertion only.
    public let state: EncodedState

    /// Nil for a delta that does not insert a plain document or does not decode.
    public init?(delta: EncodedDelta, stamp: Stamp) {
        var writer = ByteWriter()
        writer.reserve(delta.count + delta.count / 2 + 64)
        writer.plainHead(stamp)
        let isOne = delta.bytes.withUnsafeBytes { raw in
            var reader = ByteReader(raw)
            return (try? reader.plainDelta(into: &writer)) != nil
        }
        guard isOne else { return nil }
        self.stamp = stamp
        self.delta = delta
        state = EncodedState(writer.bytes)
    }

    /// Returns whether a delta is such an insertion, without building anything.
    public static func isOne(_ delta: EncodedDelta) -> Bool {
        delta.bytes.withUnsafeBytes { raw in
            var reader = ByteReader(raw)
            return (try? reader.checkPlainDelta()) != nil
        }
    }

    /// The stamp of a state that consists of one insertion. Nil for any other state, and for one that does
    /// not decode.
    public static func stamp(ofState state: EncodedState) -> Stamp? {
        state.bytes.withUnsafeBytes { raw in
            var reader = ByteReader(raw)
            return try? reader.checkPlainState()
        }
    }

    /// The inverse of `state`: the stamp and the encoded delta that gives this state when applied to no
    /// document. Nil for a state that does not consist of one insertion.
    public static func delta(ofState state: UnsafeRawBufferPointer) -> (stamp: Stamp, delta: EncodedDelta)? {
        var writer = ByteWriter()
        writer.reserve(state.count)
        var reader = ByteReader(state)
        guard let stamp = try? reader.plainState(into: &writer) else { return nil }
        return (stamp, EncodedDelta(writer.bytes))
    }

    /// The delta, decoded.
    public func decoded() throws(CRDTError) -> Delta { try Delta(decoding: delta, stamp: stamp) }
}

/// The facts that admission needs about an encoded delta. The delta's edits are checked but not kept.
public struct DeltaReach: Sendable, Equatable {
    /// See `Delta.base`.
    public let base: VersionVector
    /// See `Delta.resultingVector`.
    public let resultingVector: VersionVector
    /// See `Delta.writesStamp`.
    public let writesStamp: Bool

    /// Throws the errors of decoding the delta.
    public init(decoding delta: EncodedDelta, stamp: Stamp) throws(CRDTError) {
        guard !Insertion.isOne(delta) else {
            base = VersionVector()
            resultingVector = VersionVector(ascending: [.init(actor: stamp.actor, time: stamp.time)])
            writesStamp = true
            return
        }
        let delta = try Delta(decoding: delta, stamp: stamp)
        base = delta.base
        resultingVector = delta.resultingVector
        writesStamp = delta.writesStamp
    }
}

/// Ends the reading of plain bytes: they are of another form, or damaged. The decoders tell which.
private var notPlain: CRDTError { CRDTError(.malformed, "not of a plain form") }

extension ByteWriter {
    /// The head of a state before its root: one stamp, by one actor, at its greatest time.
    mutating func plainHead(_ stamp: Stamp) {
        byte(Document.encodingVersion)
        byte(0)
        count(1)
        fixed64(stamp.actor.rawValue)
        fixed64(stamp.time)
        raw(PlainForm.stampTable)
    }
}

private enum PlainForm {
    /// Three bytes: one stamp, of the first actor, at its greatest time.
    static let stampTable: [UInt8] = [3, 1, 0, 0]
    /// One presence, with the first stamp of the table, which is also the greatest.
    static let presence: [UInt8] = [1, 0, 1]
    static let register = SlotBits.register | SlotBits.inheritsStamp
}

// Deltas.

extension ByteReader {
    fileprivate mutating func plainDelta(into writer: inout ByteWriter) throws(CRDTError) {
        try plainDeltaHead()
        try plainEdit(depth: 0, into: &writer)
        try requireEnd()
    }

    fileprivate mutating func checkPlainDelta() throws(CRDTError) {
        try plainDeltaHead()
        try checkPlainEdit(depth: 0)
        try requireEnd()
    }

    /// Neither base nor seed.
    private mutating func plainDeltaHead() throws(CRDTError) {
        guard try byte() == Delta.encodingVersion, try byte() == 0, try byte() == 0 else { throw notPlain }
    }

    private mutating func plainEdit(depth: Int, into writer: inout ByteWriter) throws(CRDTError) {
        let number = try plainEditHead(depth: depth)
        writer.raw(PlainForm.presence)
        writer.count(number)
        guard number > 0 else { return }
        var offsets = writer.beginOffsets(number)
        var last: UnsafeRawBufferPointer?
        for _ in 0..<number {
            writer.place(&offsets)
            let key = place
            try checkKey(after: &last)
            writer.raw(UnsafeRawBufferPointer(rebasing: bytes[key..<place]))
            switch try byte() {
            case SlotEditBits.register:
                let value = place
                try checkValue(depth: depth + 1)
                writer.byte(PlainForm.register)
                writer.raw(UnsafeRawBufferPointer(rebasing: bytes[value..<place]))
            case SlotEditBits.map:
                writer.byte(SlotBits.map)
                let start = writer.beginSized()
                try plainEdit(depth: depth + 1, into: &writer)
                writer.endSized(start)
            default: throw notPlain
            }
        }
        writer.endOffsets(offsets)
    }

    private mutating func checkPlainEdit(depth: Int) throws(CRDTError) {
        var last: UnsafeRawBufferPointer?
        for _ in 0..<(try plainEditHead(depth: depth)) {
            try checkKey(after: &last)
            switch try byte() {
            case SlotEditBits.register: try checkValue(depth: depth + 1)
            case SlotEditBits.map: try checkPlainEdit(depth: depth + 1)
            default: throw notPlain
            }
        }
    }

    /// The number of fields of an edit that creates its map.
    private mutating func plainEditHead(depth: Int) throws(CRDTError) -> Int {
        guard depth <= Limits.nestingDepth else { throw notPlain }
        switch try byte() {
        case EditBits.writesPresence: return 0
        case EditBits.writesPresence | EditBits.fields:
            let number = try count(unit: 2)
            guard number > 0 else { throw notPlain }
            return number
        default: throw notPlain
        }
    }
}

// States.

extension ByteReader {
    fileprivate mutating func checkPlainState() throws(CRDTError) -> Stamp {
        let stamp = try plainStateHead()
        try checkPlainMap(depth: 0)
        try requireEnd()
        return stamp
    }

    fileprivate mutating func plainState(into writer: inout ByteWriter) throws(CRDTError) -> Stamp {
        let stamp = try plainStateHead()
        writer.byte(Delta.encodingVersion)
        // Neither base nor seed.
        writer.byte(0)
        writer.byte(0)
        try plainMap(depth: 0, into: &writer)
        try requireEnd()
        return stamp
    }

    private mutating func plainStateHead() throws(CRDTError) -> Stamp {
        guard try byte() == Document.encodingVersion, try byte() == 0, try count(unit: 16) == 1 else {
            throw notPlain
        }
        let actor = ActorID(try fixed64())
        let time = try fixed64()
        try expect(PlainForm.stampTable)
        return Stamp(time: time, actor: actor)
    }

    /// Converts the MAP into the edit that creates it. Does not check the values: a store reads only states
    /// that it has written.
    private mutating func plainMap(depth: Int, into writer: inout ByteWriter) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw notPlain }
        try expect(PlainForm.presence)
        let number = try count(unit: 3)
        writer.byte(EditBits.writesPresence | (number == 0 ? 0 : EditBits.fields))
        guard number > 0 else { return }
        writer.count(number)
        let width = Int(try byte())
        guard width == 2 || width == 4 else { throw notPlain }
        _ = try run(number * width)
        for _ in 0..<number {
            let key = place
            _ = try run(try count())
            writer.raw(UnsafeRawBufferPointer(rebasing: bytes[key..<place]))
            switch try byte() {
            case PlainForm.register:
                writer.byte(SlotEditBits.register)
                let value = place
                try skipValue()
                writer.raw(UnsafeRawBufferPointer(rebasing: bytes[value..<place]))
            case SlotBits.map:
                writer.byte(SlotEditBits.map)
                let end = try count() + place
                try plainMap(depth: depth + 1, into: &writer)
                guard place == end else { throw notPlain }
            default: throw notPlain
            }
        }
    }

    private mutating func checkPlainMap(depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw notPlain }
        try expect(PlainForm.presence)
        let number = try count(unit: 3)
        guard number > 0 else { return }
        let width = Int(try byte())
        guard width == 2 || width == 4 else { throw notPlain }
        var offsets = self
        _ = try run(number * width)
        let start = place
        var last: UnsafeRawBufferPointer?
        for _ in 0..<number {
            guard try offsets.fixed(width: width) == place - start else { throw notPlain }
            try checkKey(after: &last)
            switch try byte() {
            case PlainForm.register: try checkValue(depth: depth + 1)
            case SlotBits.map:
                let end = try count() + place
                try checkPlainMap(depth: depth + 1)
                guard place == end else { throw notPlain }
            default: throw notPlain
            }
        }
        guard (place - start <= 0xFFFF) == (width == 2) else { throw notPlain }
    }

    private mutating func expect(_ expected: [UInt8]) throws(CRDTError) {
        for byte in expected { guard try self.byte() == byte else { throw notPlain } }
    }
}
