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

    /// nil where a field is an attachment, which the editor knows about. Throws `tooDeep`.
    public init?(_ fields: ObjectValue, objectsAreRegisters: Bool = false, stamp: Stamp) throws(CRDTError) {
        self.fields = fields
        self.objectsAreRegisters = objectsAreRegisters
        self.stamp = stamp
        let plan = WritePlan(objectsAreRegisters: objectsAreRegisters, stamp: stamp)
        for entry in fields.entries {
            guard objectsAreRegisters || !Self.holdsAttachment(entry.value, depth: 1) else { return nil }
            try plan.check(entry.value, nil, depth: 1)
        }
    }

    /// Whether an object is marked as a token at a place where that makes it an ATTACHMENT. What lies deeper
    /// than documents may is refused elsewhere.
    private static func holdsAttachment(_ value: Value, depth: Int) -> Bool {
        guard case .object(let object) = value, depth <= Limits.nestingDepth else { return false }
        if AttachmentToken.isMarked(object) { return true }
        return object.entries.contains { holdsAttachment($0.value, depth: depth + 1) }
    }

    /// The encoded state, as `Document.encoded` gives it.
    public func state() -> [UInt8] {
        var writer = ByteWriter()
        writer.reserve(256 + 32 * fields.count)
        writer.plainHead(stamp)
        writer.freshMap(fields, objectsAreRegisters)
        return writer.bytes
    }

    /// The encoded delta, as `Delta.encoded` gives it.
    public func delta() -> [UInt8] {
        var writer = ByteWriter()
        writer.reserve(128 + 32 * fields.count)
        writer.byte(Delta.encodingVersion)
        // Neither base nor seed.
        writer.raw([0, 0])
        writer.freshEdit(fields, objectsAreRegisters)
        return writer.bytes
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

extension ByteWriter {
    /// A MAP whose presence and fields all have the first stamp of the table.
    fileprivate mutating func freshMap(_ object: ObjectValue, _ objectsAreRegisters: Bool) {
        // One presence, by the first stamp; that stamp is the greatest one.
        raw([1, 0, 1])
        count(object.count)
        guard !object.isEmpty else { return }
        var offsets = beginOffsets(object.count)
        for entry in object.sorted {
            place(&offsets)
            text(entry.key)
            if !objectsAreRegisters, case .object(let below) = entry.value {
                byte(SlotBits.map)
                let start = beginSized()
                freshMap(below, objectsAreRegisters)
                endSized(start)
            } else {
                byte(SlotBits.register | SlotBits.inheritsStamp)
                value(entry.value)
            }
        }
        endOffsets(offsets)
    }

    fileprivate mutating func freshEdit(_ object: ObjectValue, _ objectsAreRegisters: Bool) {
        byte(EditBits.writesPresence | (object.isEmpty ? 0 : EditBits.fields))
        guard !object.isEmpty else { return }
        count(object.count)
        for entry in object.sorted {
            text(entry.key)
            if !objectsAreRegisters, case .object(let below) = entry.value {
                byte(SlotEditBits.map)
                freshEdit(below, objectsAreRegisters)
            } else {
                byte(SlotEditBits.register)
                value(entry.value)
            }
        }
    }
}
