// INITIAL documents (rule 7): content that every store may write by itself, at every launch, and that is
// still one write. Its stamp is older than any other and derived from its content.

extension DocumentEditor {
    /// Writes a document's INITIAL content with its presence; returns whether it did.
    ///
    /// Does nothing and returns false on a live document, and where the document's vector covers this very
    /// content, so that a deleted seed stays deleted. Values become variants as in `set`; a declaration is
    /// of the whole document. Throws as `set` does.
    ///
    /// Regular writes beat seeds. After other edits of its own transaction (a DELETE, say) the content is
    /// also written as a regular insert, because a delta's seed comes before its edits.
    public mutating func seed(
        _ value: ObjectValue, declared: TypeDeclaration? = nil, objectsAreRegisters: Bool = false
    ) throws(CRDTError) -> Bool {
        let plan = WritePlan(objectsAreRegisters: objectsAreRegisters, stamp: stamp)
        for entry in value.entries { try plan.check(entry.value, declared?[entry.key], depth: 1) }
        var edit = plan.map(value, declared, seeing: WritePlan.Seen())
        edit.writesPresence = true
        let seedStamp = edit.seedStamp
        guard !exists, !document.vector.covers(seedStamp) else { return false }
        let isFirst = pending.root.isEmpty && pending.seed == nil
        if pending.seed == nil {
            pending.seed = edit
            pending.base.insert(seedStamp)
            document.vector.insert(seedStamp)
        }
        if isFirst {
            document.root.apply(edit, observed: .nothing, stamp: seedStamp)
        } else {
            // On a document that is not live, clearing removes nothing more than the seed itself.
            pending.root.clears = true
            let seen = WritePlan.Seen(
                slot: Slot(map: document.root), pending: SlotEdit(map: pending.root))
            var step = plan.map(value, declared, seeing: seen)
            step.writesPresence = true
            perform(step)
        }
        return true
    }
}
