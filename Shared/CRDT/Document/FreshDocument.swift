/// A document that one transaction inserts and nobody has written before. Writes the result of
/// `DocumentEditor.create` straight into the encoded state. Nearly every insertion is one, and the trees
/// that the editor builds cost several times as much as the encodings.
///
/// Invariant: state and delta are byte for byte those of the editor.
public final class FreshDocument: Sendable {
    /// The fields.
    public var fields: ObjectValue { omitted.map(given.without) ?? given }
    private let given: ObjectValue
    private let omitted: String?
    /// Strict mode: an object is one REGISTER.
    public let objectsAreRegisters: Bool
    /// The transaction's stamp.
    public let stamp: Stamp
    /// The encoded state, as `Document.encoded` gives it.
    public let state: EncodedState
    /// The encoded delta, as `Delta.encoded` gives it. Computed from the state.
    public var delta: EncodedDelta {
        let made = state.bytes.withUnsafeBytes { Insertion.delta(ofState: $0) }
        guard let made else { preconditionFailure("the state just written is not an insertion") }
        return made.delta
    }

    /// Encodes these fields, except `omitted`. Nil when a field is an attachment: use the editor then.
    /// `series` is shared by documents that are inserted one after the other. Throws `tooDeep`.
    public init?(
        _ fields: ObjectValue, without omitted: String? = nil, objectsAreRegisters: Bool = false,
        stamp: Stamp, in series: FreshSeries = FreshSeries()
    ) throws(CRDTError) {
        var writer = FreshWriter(series, stamp, objectsAreRegisters: objectsAreRegisters)
        defer { series.bytes = writer.state }
        guard try writer.map(fields, without: omitted, depth: 0) else { return nil }
        given = fields
        self.omitted = omitted
        self.objectsAreRegisters = objectsAreRegisters
        self.stamp = stamp
        state = EncodedState(writer.state.copy)
    }

    /// The edits, for a further edit of the document in the same transaction.
    public var pending: DocumentEditor.Pending {
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        do {
            try editor.create(fields, objectsAreRegisters: objectsAreRegisters)
        } catch {
            preconditionFailure("the fields were checked: \(error)")
        }
        return editor.pending
    }
}

/// Documents that are inserted one after the other. Nearly all documents of a load have the same keys, and
/// sorting and encoding the keys costs as much as writing the values; so the keys are cached. Belongs to one
/// thread.
public final class FreshSeries {
    /// The keys of a map.
    fileprivate final class Keys {
        let keys: [String]
        /// The places of the pairs in canonical order, without the omitted one.
        let order: [Int]
        private let omitted: String?
        /// The encoded keys in that order, and the end of each.
        let encoded: [UInt8]
        let ends: [Int]

        init(_ object: ObjectValue, without omitted: String?) {
            keys = object.entries.map { $0.key }
            self.omitted = omitted
            let sorted = object.order
            var order: [Int] = []
            var writer = ByteWriter()
            var ends: [Int] = []
            for index in 0..<object.count {
                let place = sorted[index]
                if let omitted, utf8Equal(keys[place], omitted) { continue }
                order.append(place)
                writer.text(keys[place])
                ends.append(writer.count)
            }
            (self.order, self.ends, encoded) = (order, ends, writer.bytes)
        }

        @inline(__always)
        func isWithout(_ key: String?) -> Bool {
            guard let omitted, let key else { return omitted == nil && key == nil }
            return utf8Equal(omitted, key)
        }

        @inline(__always)
        func areThose(of object: ObjectValue) -> Bool {
            guard keys.count == object.count else { return false }
            for index in 0..<keys.count where !utf8Equal(keys[index], object.entries[index].key) {
                return false
            }
            return true
        }
    }

    /// The keys of the last document's maps, in the order of the walk.
    private var known: [Keys] = []
    /// The buffer into which documents are written.
    fileprivate var bytes = ByteScratch()

    /// A series without documents.
    public init() {}

    deinit { bytes.deallocate() }

    /// The number of maps in a document whose keys are kept.
    private static let maps = 16

    fileprivate func keys(of object: ObjectValue, without omitted: String?, at place: Int) -> Keys {
        if place < known.count, known[place].areThose(of: object), known[place].isWithout(omitted) {
            return known[place]
        }
        let keys = Keys(object, without: omitted)
        if place < known.count {
            known[place] = keys
        } else if place == known.count, place < Self.maps {
            known.append(keys)
        }
        return keys
    }
}

/// Writes the state in one walk.
private struct FreshWriter {
    private(set) var state: ByteScratch
    private let series: FreshSeries
    private let objectsAreRegisters: Bool
    /// The number of maps with fields begun so far.
    private var maps = 0

    init(_ series: FreshSeries, _ stamp: Stamp, objectsAreRegisters: Bool) {
        self.series = series
        self.objectsAreRegisters = objectsAreRegisters
        state = series.bytes
        state.clear()
        state.byte(Document.encodingVersion)
        state.byte(0)
        // The vector, and the stamp table: one stamp, of the first actor, at its greatest time.
        state.byte(1)
        state.fixed64(stamp.actor.rawValue)
        state.fixed64(stamp.time)
        state.byte(3)
        state.byte(1)
        state.byte(0)
        state.byte(0)
    }

    /// Writes a MAP whose presence and fields all have the first stamp of the table. Returns false when it
    /// contains an attachment.
    mutating func map(
        _ object: ObjectValue, without omitted: String? = nil, depth: Int
    ) throws(CRDTError) -> Bool {
        // One presence, with the first stamp of the table, which is also the greatest.
        state.byte(1)
        state.byte(0)
        state.byte(1)
        guard !object.isEmpty else {
            state.byte(0)
            return true
        }
        let keys = series.keys(of: object, without: omitted, at: maps)
        let number = keys.order.count
        state.varint(UInt64(number))
        guard number > 0 else { return true }
        maps += 1
        guard depth < Limits.nestingDepth else { throw .tooDeep }
        var table = state.beginOffsets(number)
        for index in 0..<number {
            state.place(&table)
            state.raw(keys.encoded, from: index == 0 ? 0 : keys.ends[index - 1], to: keys.ends[index])
            guard try field(object.entries[keys.order[index]].value, depth: depth) else { return false }
        }
        state.endOffsets(table)
        return true
    }

    @inline(__always)
    private mutating func field(_ value: Value, depth: Int) throws(CRDTError) -> Bool {
        let head = SlotBits.register | SlotBits.inheritsStamp
        switch value {
        case .null, .bool, .int, .double, .string, .binary: state.byte(head)
        case .object(let below) where !objectsAreRegisters:
            guard !AttachmentToken.isMarked(below) else { return false }
            state.byte(SlotBits.map)
            let start = state.beginSized()
            guard try map(below, depth: depth + 1) else { return false }
            state.endSized(start)
            return true
        case .array, .object:
            try Self.checkDepth(value, depth: depth + 1)
            state.byte(head)
        }
        state.value(value)
        return true
    }

    private static func checkDepth(_ value: Value, depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        switch value {
        case .object(let object):
            for entry in object.entries { try checkDepth(entry.value, depth: depth + 1) }
        case .array(let elements):
            for element in elements { try checkDepth(element, depth: depth + 1) }
        default: break
        }
    }
}
