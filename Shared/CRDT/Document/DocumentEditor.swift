/// Puts together what one transaction does to one document, showing the state with the edits so far.
///
/// The editor works under the transaction's stamp. `pending` carries the edits from one statement of the
/// transaction to the next; at commit it becomes the document's delta.
public struct DocumentEditor: Sendable {
    /// The edits of an open transaction to one document.
    public struct Pending: Sendable, Equatable {
        /// The document's vector when the transaction first touched it.
        public let base: VersionVector
        var root: MapEdit

        /// No edits yet on a document with this vector.
        public init(base: VersionVector) {
            self.base = base
            root = MapEdit()
        }

        /// The delta of these edits under the transaction's stamp; nil when nothing was edited.
        public func delta(stamp: Stamp) -> Delta? {
            root.isEmpty ? nil : Delta(stamp: stamp, base: base, root: root)
        }
    }

    /// The document with all edits so far.
    public private(set) var document: Document
    /// The edits so far.
    public private(set) var pending: Pending
    /// The transaction's stamp.
    public let stamp: Stamp

    /// An editor on a document as the transaction sees it now; `pending` is what the transaction did to it
    /// before.
    ///
    /// The stamp must exceed every timestamp in the document's base (rule 1): a precondition.
    public init(document: Document, pending: Pending? = nil, stamp: Stamp) {
        let pending = pending ?? Pending(base: document.vector)
        precondition(
            pending.base.greatestTime.map { $0 < stamp.time } ?? true,
            "a stamp must exceed everything its author has seen")
        self.document = document
        self.pending = pending
        self.stamp = stamp
    }

    /// Whether the document is live with the edits so far.
    public var exists: Bool { document.isLive }
    /// Whether there is an edit.
    public var hasChanges: Bool { !pending.root.isEmpty }

    /// Writes the document's presence: what INSERT does first.
    public mutating func create() {
        perform { $0.writesPresence = true }
    }

    /// Writes a value. Undeclared, an object becomes a MAP that is merged key by key, anything else a
    /// REGISTER; a declaration overrides that, below the path too. Missing maps on the way are created.
    ///
    /// Throws `invalidPath` for an empty path, `unsupportedKind` for a COUNTER or ATTACHMENT declaration,
    /// `tooDeep`.
    public mutating func set(
        _ path: [String], _ value: Value, declared: TypeDeclaration? = nil, objectsAreRegisters: Bool = false
    ) throws(CRDTError) {
        guard !path.isEmpty else { throw CRDTError(.invalidPath, "a path needs at least one name") }
        guard path.count <= Limits.nestingDepth else { throw .tooDeep }
        let plan = WritePlan(objectsAreRegisters: objectsAreRegisters, stamp: stamp)
        try plan.check(value, declared, depth: path.count)
        perform { edit, root in plan.write(path[...], value, declared, into: &edit, seeing: root) }
    }

    /// Removes what is there under a path: every kind, or one.
    public mutating func unset(_ path: [String], kind: FieldKind? = nil) throws(CRDTError) {
        guard let last = path.last else { throw CRDTError(.invalidPath, "a path needs at least one name") }
        guard path.count <= Limits.nestingDepth else { throw .tooDeep }
        guard document.root.holds(path[...], kind) else { return }
        perform { edit in
            func descend(_ edit: inout MapEdit, _ rest: ArraySlice<String>) {
                guard let key = rest.first else {
                    edit.withSlot(last) { $0.unset(kind) }
                    return
                }
                edit.withSlot(key) { slot in
                    var below = slot.map ?? MapEdit()
                    descend(&below, rest.dropFirst())
                    slot.map = below
                }
            }
            descend(&edit, path.dropLast())
        }
    }

    /// Removes the whole document as observed.
    public mutating func delete() {
        pending.root = MapEdit(clears: true)
        document.root.apply(pending.root, observed: observed, stamp: stamp)
        document.vector.insert(stamp)
    }

    /// The newest value at a path with the edits so far, stepping through maps and register objects.
    public func value(at path: [String]) -> Value? {
        guard let first = path.first else { return .object(document.value) }
        var value = document.root[first]?.value
        for key in path.dropFirst() { value = value?[key] }
        return value
    }

    /// The kind written most recently at a path of maps; nil when nothing stands there.
    public func newestKind(at path: [String]) -> FieldKind? {
        guard let last = path.last else { return .map }
        var node = document.root
        for key in path.dropLast() {
            guard let next = node[key]?.map else { return nil }
            node = next
        }
        return node[last]?.newestKind
    }

    private var observed: Observed { Observed(base: pending.base, own: stamp) }

    private mutating func perform(_ body: (inout MapEdit) -> Void) {
        perform { edit, _ in body(&edit) }
    }

    /// Applies one step to the state and adds it to the pending edits.
    private mutating func perform(_ body: (inout MapEdit, MapNode) -> Void) {
        var step = MapEdit()
        body(&step, document.root)
        document.root.apply(step, observed: observed, stamp: stamp)
        document.vector.insert(stamp)
        pending.root.compose(step)
    }
}

extension MapEdit {
    /// Adds a later edit of the same transaction: the result does what both do, one after the other.
    mutating func compose(_ later: MapEdit) {
        if later.clears {
            self = later
            return
        }
        writesPresence = writesPresence || later.writesPresence
        for field in later.fields { withSlot(field.key) { $0.compose(field.slot) } }
    }
}

extension SlotEdit {
    mutating func compose(_ later: SlotEdit) {
        if later.clearsRegister {
            clearsRegister = true
            register = nil
        }
        if let value = later.register { register = value }
        if let below = later.map {
            var composed = map ?? MapEdit()
            composed.compose(below)
            map = composed
        }
    }
}

extension MapNode {
    /// Whether a field of the kind (any kind when nil) stands at the path.
    func holds(_ path: ArraySlice<String>, _ kind: FieldKind?) -> Bool {
        guard let key = path.first, let slot = self[key] else { return false }
        let rest = path.dropFirst()
        guard rest.isEmpty else { return slot.map?.holds(rest, kind) ?? false }
        switch kind {
        case nil: return true
        case .register?: return !slot.register.isEmpty
        case .map?: return slot.map != nil
        default: return false
        }
    }
}
