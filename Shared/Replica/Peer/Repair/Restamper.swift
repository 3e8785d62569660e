import CRDT

/// Moves a store's operations that the server does not have to a new actor (rules 9, 20 and 21).
///
/// Used once, with the operations in the order of their commits. Each keeps its edits; its base names,
/// instead of the stamps that were moved, the last stamp of the old actor that the server has in that
/// document and the new actor's previous one. A change whose stamp the server's document covers is there
/// already (a vector covers only merged stamps): it is left out, so nothing is done twice.
struct Restamper {
    /// The fate of the store's own stamps in one document.
    private struct Trace {
        /// The stamps that the server does not have.
        var gone: Set<Stamp> = []
        /// Per old actor its last stamp in the document that the server has.
        var admitted: [ActorID: Timestamp] = [:]
        /// The new actor's last stamp in the document.
        var previous: Timestamp?
    }

    let actor: ActorID
    /// The sequence of the last operation that was moved.
    private(set) var sequence: SequenceNumber = 0
    private var traces: [DocumentKey: Trace] = [:]

    init(actor: ActorID) { self.actor = actor }

    /// Takes note of an operation that is not moved: what rests on it will not any more.
    mutating func withdraw(_ operation: Operation) throws(CRDTError) {
        for change in operation.changes {
            let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
            let key = DocumentKey(collection: change.collection, id: change.id)
            note(delta, in: &traces[key, default: Trace()])
        }
    }

    /// The time that the operation's new timestamp must exceed: the greatest of its bases as they will be.
    func floor(of operation: Operation) throws(CRDTError) -> Timestamp {
        var greatest: Timestamp = 0
        for change in operation.changes {
            let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
            let key = DocumentKey(collection: change.collection, id: change.id)
            let base = lowered(delta.base, in: traces[key] ?? Trace())
            greatest = max(greatest, base.greatestTime ?? 0)
        }
        return greatest
    }

    /// The operation under the new actor, or nil when the server has all of it.
    /// - Parameters:
    ///   - time: exceeds everything in the documents and every earlier stamp of the new actor.
    ///   - isThere: whether the server's state of a document has the operation's change.
    ///   - server: the vector of the server's state of a document, with what is still to be uploaded there.
    ///   - document: the state the change will be applied to.
    mutating func move(
        _ operation: Operation, to time: Timestamp, isThere: (DocumentKey) throws -> Bool,
        server: (DocumentKey) throws -> VersionVector, document: (DocumentKey) throws -> Document
    ) throws -> Operation? {
        let stamp = Stamp(time: time, actor: actor)
        var changes: [Operation.Change] = []
        for change in operation.changes {
            let key = DocumentKey(collection: change.collection, id: change.id)
            guard try !isThere(key) else { continue }
            let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
            let trace = traces[key] ?? Trace()
            let base = try lowered(delta.base, in: trace).limited(to: server(key), besides: actor)
            let moved = delta.restamped(stamp, on: try document(key), base: base)
            note(delta, in: &traces[key, default: Trace()])
            // An operation that only seeds leaves no stamp of its own to rest on (rule 7).
            if moved.writesStamp { traces[key]?.previous = time }
            changes.append(
                Operation.Change(collection: change.collection, id: change.id, delta: moved.encoded()))
        }
        guard !changes.isEmpty else { return nil }
        sequence = sequence.next
        return Operation(
            actor: actor, sequence: sequence, timestamp: time, origin: operation.identity, changes: changes)
    }

    private func note(_ delta: Delta, in trace: inout Trace) {
        let own = delta.stamp.actor
        if let time = delta.base[own], !trace.gone.contains(Stamp(time: time, actor: own)) {
            trace.admitted[own] = time
        }
        trace.gone.insert(delta.stamp)
    }

    private func lowered(_ base: VersionVector, in trace: Trace) -> VersionVector {
        var result = VersionVector()
        for entry in base.entries {
            let isGone = trace.gone.contains(Stamp(time: entry.time, actor: entry.actor))
            guard let time = isGone ? trace.admitted[entry.actor] : entry.time else { continue }
            result.insert(Stamp(time: time, actor: entry.actor))
        }
        if let previous = trace.previous { result.insert(Stamp(time: previous, actor: actor)) }
        return result
    }
}

extension VersionVector {
    /// The part of this vector that another one covers, and this one's entry of an actor: a moved write rests
    /// on nothing that the server does not have. The missing part of a base was removed and reaped there
    /// (rule 14).
    fileprivate func limited(to other: VersionVector, besides own: ActorID) -> VersionVector {
        VersionVector(
            entries.compactMap { entry in
                if entry.actor == own { return entry }
                return other[entry.actor].map { Entry(actor: entry.actor, time: min(entry.time, $0)) }
            })
    }
}
