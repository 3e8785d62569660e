/// A document that nobody has written before, as one transaction inserts it: what `DocumentEditor.create`
/// makes of its fields, written straight into state and delta. Nearly every insertion is one, and the trees
/// between the fields and their encodings cost several times as much as the encodings.
///
/// Invariant: state and delta are byte for byte those of the editor.
public struct FreshDocument: Sendable {
    /// The fields.
    public let fields: ObjectValue
    /// Strict mode: an object is one REGISTER.
    public let objectsAreRegisters: Bool
    /// The transaction's stamp.
    public let stamp: Stamp
    /// The encoded state, as `Document.encoded` gives it.
    public let state: [UInt8]
    /// The encoded delta, as `Delta.encoded` gives it.
    public let delta: [UInt8]

    /// nil where a field is an attachment, which the editor knows about. Throws `tooDeep`.
    public init?(_ fields: ObjectValue, objectsAreRegisters: Bool = false, stamp: Stamp) throws(CRDTError) {
        self.fields = fields
        self.objectsAreRegisters = objectsAreRegisters
        self.stamp = stamp
        var writer = FreshWriter(stamp, fields: fields.count, objectsAreRegisters: objectsAreRegisters)
        guard try writer.map(fields, depth: 0) else { return nil }
        state = writer.state.bytes
        delta = writer.delta.bytes
    }

    /// The edits, for whoever edits the document again in the same transaction.
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

/// Writes state and delta in one walk: every key and value is encoded once, for both.
private struct FreshWriter {
    private(set) var state = ByteWriter()
    private(set) var delta = ByteWriter()
    private let objectsAreRegisters: Bool

    init(_ stamp: Stamp, fields: Int, objectsAreRegisters: Bool) {
        self.objectsAreRegisters = objectsAreRegisters
        state.reserve(384 + 32 * fields)
        state.byte(Document.encodingVersion)
        state.byte(0)
        state.vector(VersionVector(ascending: [.init(actor: stamp.actor, time: stamp.time)]))
        // The stamp table: one stamp, of the first actor, at its greatest time.
        state.byte(3)
        state.byte(1)
        state.byte(0)
        state.byte(0)
        delta.reserve(256 + 32 * fields)
        delta.byte(Delta.encodingVersion)
        // Neither base nor seed.
        delta.byte(0)
        delta.byte(0)
    }

    /// A MAP whose presence and fields all have the first stamp of the table. False when there is an
    /// attachment in it.
    mutating func map(_ object: ObjectValue, depth: Int) throws(CRDTError) -> Bool {
        // One presence, by the first stamp; that stamp is the greatest one.
        state.byte(1)
        state.byte(0)
        state.byte(1)
        state.count(object.count)
        delta.byte(EditBits.writesPresence | (object.isEmpty ? 0 : EditBits.fields))
        guard !object.isEmpty else { return true }
        guard depth < Limits.nestingDepth else { throw .tooDeep }
        delta.count(object.count)
        var offsets = state.beginOffsets(object.count)
        let order = object.order
        for index in 0..<object.count {
            let entry = object.entries[order[index]]
            state.place(&offsets)
            let key = state.count
            state.text(entry.key)
            delta.copy(state, from: key)
            if !objectsAreRegisters, case .object(let below) = entry.value {
                guard !AttachmentToken.isMarked(below) else { return false }
                state.byte(SlotBits.map)
                delta.byte(SlotEditBits.map)
                let start = state.beginSized()
                guard try map(below, depth: depth + 1) else { return false }
                state.endSized(start)
            } else {
                try Self.checkDepth(entry.value, depth: depth + 1)
                state.byte(SlotBits.register | SlotBits.inheritsStamp)
                delta.byte(SlotEditBits.register)
                let value = state.count
                state.value(entry.value)
                delta.copy(state, from: value)
            }
        }
        state.endOffsets(offsets)
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
