@testable import CRDT

/// A rule that a history's replicas break on purpose, to show that the laws would notice: one or more for
/// every rule of documents. Such a world is judged by what readers see and by equal vectors alone.
enum Sabotage: CaseIterable, Sendable {
    /// Rule 1: a stamp may be before what its author has seen.
    case lowersStamps
    /// Rule 2: only the greatest of several concurrent values is kept.
    case dropsLosers
    /// Rule 3: a delta applies without its base.
    case ignoresBase
    /// Invariant 4: a removal takes with it what only the receiver has seen.
    case widensRemovals
    /// Rule 4: what was counted before a removal is forgotten instead of being kept as a baseline.
    case forgetsBaselines
    /// Rule 4: one total for all instead of one for each actor.
    case sharesTotals
    /// Rule 5: an undeclared UNSET removes the kind that shows, not every kind.
    case unsetsOneKind
    /// Rule 5: writing below a map writes its presence too.
    case writesPresenceBelow
    /// Rule 7: a seed's actor is its writer's invention.
    case scattersSeeds
    /// Rule 10: a store goes on with its actor after an eviction.
    case keepsActor

    /// How many histories find it, with room to spare. A dropped loser is missed only by who removes the
    /// winner without having seen it, and then meets somebody who still has it.
    var isFoundWithin: UInt64 { self == .dropsLosers ? 3_000 : 300 }

    /// The statement as a store that breaks its rule understands it.
    func misread(_ edit: Edit, on editor: DocumentEditor) -> Edit {
        guard self == .unsetsOneKind, case .unset(let path, nil) = edit else { return edit }
        return .unset(path, editor.newestKind(at: path))
    }

    /// The delta as such a store writes it.
    func written(_ delta: Delta, at early: Timestamp) -> Delta {
        switch self {
        case .lowersStamps:
            Delta(
                stamp: Stamp(time: early, actor: delta.stamp.actor), base: delta.base, root: delta.root,
                seed: delta.seed)
        case .writesPresenceBelow:
            Delta(
                stamp: delta.stamp, base: delta.base, root: delta.root.withPresenceBelow, seed: delta.seed)
        default: delta
        }
    }

    /// The document after such a store has applied a delta, its own or another's.
    func received(_ delta: Delta, after: Document, on before: Document) -> Document {
        switch self {
        case .ignoresBase where !before.vector.covers(delta.resultingVector):
            return apply(delta, to: before, observed: Observed(base: delta.base, own: nil))
        case .widensRemovals
        where before.vector.covers(delta.base) && !before.vector.covers(delta.resultingVector):
            return apply(delta, to: before, observed: Observed(base: before.vector, own: nil))
        case .scattersSeeds: return applyScattered(delta, after: after, to: before)
        default:
            var result = before
            if result.apply(delta) == .baseMissing { result.merge(after) }
            return result
        }
    }

    private func apply(_ delta: Delta, to before: Document, observed: Observed) -> Document {
        var result = before
        if let seed = delta.seed, let stamp = delta.seedStamp, !before.vector.covers(stamp) {
            result.root.apply(seed, observed: .nothing, stamp: stamp)
            result.vector.insert(stamp)
        }
        guard delta.writesStamp else { return result }
        result.root.apply(delta.root, observed: observed, stamp: delta.stamp)
        result.vector.insert(delta.stamp)
        return result
    }

    /// The seed's content goes under another actor, at time zero as it should; the vector says both.
    private func applyScattered(_ delta: Delta, after: Document, to before: Document) -> Document {
        var result = before
        guard result.apply(delta) == .applied else {
            if !before.vector.covers(delta.resultingVector) { result.merge(after) }
            return result
        }
        guard let seed = delta.seed, let stamp = delta.seedStamp, !before.vector.covers(stamp) else {
            return result
        }
        let own = Stamp(time: 0, actor: ActorID(delta.stamp.actor.rawValue ^ delta.stamp.time))
        result = before
        result.root.apply(seed, observed: .nothing, stamp: own)
        result.vector.insert(own)
        result.vector.insert(stamp)
        guard delta.writesStamp else { return result }
        var base = delta.base
        base.insert(own)
        result.root.apply(delta.root, observed: Observed(base: base, own: nil), stamp: delta.stamp)
        result.vector.insert(delta.stamp)
        return result
    }

    /// The part of a state that such a store keeps.
    func settled(_ state: Document) -> Document {
        var document = state
        switch self {
        case .dropsLosers: document.root.dropLosers()
        case .forgetsBaselines:
            document.root.changeSlots { $0.counter?.entries.removeAll { !$0.survives } }
        case .sharesTotals: document.root.changeSlots { $0.counter?.shareTotals() }
        default: break
        }
        return document
    }
}

extension MapEdit {
    fileprivate var withPresenceBelow: MapEdit {
        var edit = self
        if !fields.isEmpty, !clears { edit.writesPresence = true }
        for index in edit.fields.indices {
            edit.fields[index].slot.map = edit.fields[index].slot.map?.withPresenceBelow
        }
        return edit
    }
}

extension MapNode {
    fileprivate mutating func dropLosers() {
        presence = presence.suffix(1)
        for index in fields.indices {
            fields[index].slot.register.dropLosers()
            fields[index].slot.attachment.dropLosers()
            fields[index].slot.counter?.restarts.dropLosers()
            fields[index].slot.map?.dropLosers()
        }
    }

    fileprivate mutating func changeSlots(_ change: (inout Slot) -> Void) {
        for index in fields.indices {
            change(&fields[index].slot)
            fields[index].slot.map?.changeSlots(change)
        }
    }
}

extension Leaves {
    fileprivate mutating func dropLosers() {
        if let last { self = Leaves(last) }
    }
}

extension CounterNode {
    fileprivate mutating func shareTotals() {
        guard let last = entries.map(\.point.time).max() else { return }
        let total = entries.reduce(Value.int(0)) { sum, entry in
            Amount.sum(sum, Amount.difference(entry.point.total, entry.baseline?.total ?? 0))
        }
        entries = [Entry(actor: ActorID(0), point: Point(time: last, total: total), baseline: nil)]
    }
}
