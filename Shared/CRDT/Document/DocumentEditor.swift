/// Collects the edits of one transaction to one document, and shows the state with the edits so far.
///
/// The editor works under the transaction's stamp. `pending` carries the edits from one statement of the
/// transaction to the next; at commit it becomes the document's delta.
public struct DocumentEditor: Sendable {
    /// The edits of an open transaction to one document.
    public struct Pending: Sendable, Equatable {
        /// The document's vector when the transaction first touched it, plus the stamp of the seed it wrote.
        public internal(set) var base: VersionVector
        var root = MapEdit()
        var seed: MapEdit?

        /// No edits yet on a document with this vector.
        public init(base: VersionVector) { self.base = base }

        /// True if there is no edit.
        public var isEmpty: Bool { root.isEmpty && seed == nil }

        /// The delta of these edits under the transaction's stamp; nil when nothing was edited.
        public func delta(stamp: Stamp) -> Delta? {
            if isEmpty { return nil }
            return Delta(
                stamp: stamp, base: root.isEmpty ? VersionVector() : base, root: root, seed: seed)
        }
    }

    /// The document with all edits so far.
    public internal(set) var document: Document
    /// The edits so far.
    public internal(set) var pending: Pending
    /// The transaction's stamp.
    public let stamp: Stamp

    /// An editor on a document as the transaction sees it now; `pending` holds the transaction's earlier
    /// edits.
    ///
    /// Precondition: the stamp exceeds every timestamp in the document's base (rule 1).
    public init(document: Document, pending: Pending? = nil, stamp: Stamp) {
        let pending = pending ?? Pending(base: document.vector)
        precondition(
            pending.base.greatestTime.map { $0 < stamp.time } ?? true,
            "a stamp must exceed everything its author has seen")
        self.document = document
        self.pending = pending
        self.stamp = stamp
    }

    /// True if the document is live with the edits so far.
    public var exists: Bool { document.isLive }
    /// True if there is an edit.
    public var hasChanges: Bool { !pending.isEmpty }

    // MARK: Writing

    /// Writes the document's presence, the first step of INSERT.
    public mutating func create() { perform(MapEdit(writesPresence: true)) }

    /// Writes the document's presence and its fields, like `create` and a `set` of each field. Takes one
    /// step when nobody has written the document yet. `declared` is the declaration of the whole document.
    /// Throws as `set`.
    public mutating func create(
        _ fields: ObjectValue, declared: TypeDeclaration? = nil, objectsAreRegisters: Bool = false
    ) throws(CRDTError) {
        guard document.vector.isEmpty, pending.isEmpty else {
            create()
            for field in fields.entries {
                try set(
                    [field.key], field.value, declared: declared?[field.key],
                    objectsAreRegisters: objectsAreRegisters)
            }
            return
        }
        let plan = WritePlan(objectsAreRegisters: objectsAreRegisters, stamp: stamp)
        for field in fields.entries { try plan.check(field.value, declared?[field.key], depth: 1) }
        perform(plan.map(fields, declared, seeing: WritePlan.Seen()))
    }

    /// Writes a value. Without a declaration an object becomes a MAP that is merged key by key, an object
    /// that is marked as an attachment token an ATTACHMENT, anything else a REGISTER. A declaration
    /// overrides that, below the path too. A value written to a COUNTER restarts it. Creates missing maps on
    /// the way.
    ///
    /// Throws `invalidPath` for an empty path, `unsupportedKind` for a value that its declaration cannot
    /// hold, `tooDeep`.
    public mutating func set(
        _ path: [String], _ value: Value, declared: TypeDeclaration? = nil, objectsAreRegisters: Bool = false
    ) throws(CRDTError) {
        try Self.check(path)
        let plan = WritePlan(objectsAreRegisters: objectsAreRegisters, stamp: stamp)
        try plan.check(value, declared, depth: path.count)
        write(path, plan) { slot, seen in plan.put(value, declared, into: &slot, seeing: seen) }
    }

    /// Adds to a COUNTER; a new one begins at zero. Creates missing maps on the way.
    ///
    /// Integers add with 64 bits and wrap; a double makes the counter's value a double. Throws
    /// `invalidPath`, `tooDeep`, and `unsupportedKind` for anything but an integer or a finite double.
    public mutating func increment(_ path: [String], by amount: Value) throws(CRDTError) {
        try Self.check(path)
        guard CounterSum.isNumber(amount) else {
            throw CRDTError(.unsupportedKind, "a COUNTER is incremented by a finite number")
        }
        let plan = WritePlan(objectsAreRegisters: false, stamp: stamp)
        write(path, plan) { slot, seen in
            slot.counter = plan.increment(by: amount, seeing: seen)
            plan.uncover(.counter, in: &slot, seeing: seen)
        }
    }

    /// Sets a COUNTER to a value: discards exactly the increments and RESTARTs seen so far. Creates missing
    /// maps on the way.
    ///
    /// Throws as `increment` does.
    public mutating func restart(_ path: [String], with value: Value = .int(0)) throws(CRDTError) {
        try set(path, value, declared: TypeDeclaration(kind: .counter))
    }

    // MARK: Removing

    /// Removes everything under a path, or only one kind.
    public mutating func unset(_ path: [String], kind: FieldKind? = nil) throws(CRDTError) {
        try Self.check(path)
        guard holds(path, kind: kind) else { return }
        let plan = WritePlan(objectsAreRegisters: false, stamp: stamp)
        var step = MapEdit()
        func descend(_ edit: inout MapEdit, _ rest: ArraySlice<String>, _ map: WritePlan.SeenMap) {
            guard let key = rest.first else { return }
            let seen = map[key]
            edit.withSlot(key) { slot in
                guard rest.count > 1 else { return plan.unset(kind, in: &slot, seeing: seen) }
                var below = MapEdit()
                descend(
                    &below, rest.dropFirst(),
                    WritePlan.SeenMap(node: seen.slot?.map, pending: seen.pending?.map))
                slot.map = below
            }
        }
        descend(&step, path[...], seen)
        perform(step)
    }

    /// Removes the whole document as observed.
    public mutating func delete() {
        perform(WritePlan(objectsAreRegisters: false, stamp: stamp).removal(of: seen))
    }

    // MARK: Reading

    /// The newest value at a path with the edits so far, stepping through maps and register objects.
    public func value(at path: [String]) -> Value? {
        guard let first = path.first else { return .object(document.value) }
        var value = document.root[first]?.value
        for key in path.dropFirst() { value = value?[key] }
        return value
    }

    /// Returns whether there is anything under a path of maps, or anything of one kind.
    public func holds(_ path: [String], kind: FieldKind? = nil) -> Bool {
        document.root[path[...]]?.holds(kind) == true
    }

    /// The kind written most recently at a path of maps; nil when there is none.
    public func newestKind(at path: [String]) -> FieldKind? {
        path.isEmpty ? .map : document.root[path[...]]?.newestKind
    }

    // MARK: Steps

    static func check(_ path: [String]) throws(CRDTError) {
        guard !path.isEmpty else { throw CRDTError(.invalidPath, "a path needs at least one name") }
        guard path.count <= Limits.nestingDepth else { throw .tooDeep }
    }

    private var seen: WritePlan.SeenMap { WritePlan.SeenMap(node: document.root, pending: pending.root) }

    private mutating func write(
        _ path: [String], _ plan: WritePlan, _ body: (inout SlotEdit, WritePlan.Seen) -> Void
    ) {
        var step = MapEdit()
        plan.descend(path[...], into: &step, seeing: seen, body)
        perform(step)
    }

    /// Applies one step to the state and adds it to the pending edits.
    mutating func perform(_ step: MapEdit) {
        document.root.apply(step, observed: Observed(base: pending.base, own: stamp), stamp: stamp)
        document.vector.insert(stamp)
        pending.root.compose(step)
    }
}
