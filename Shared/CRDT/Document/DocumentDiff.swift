/// What changed between two states of a document, told for people: audit trails, the console.
///
/// A change is named per path and kind, exactly once, when a reader could tell the two states apart there: by
/// its value, by the concurrent values beside it, or by which kind shows. States keep no history, so a value
/// that was written and overwritten in between does not appear, and neither does a write of the same value.
public struct DocumentDiff: Sendable, Equatable {
    /// The changes, ascending by path (key by key, by bytes), then by kind. A MAP comes before its fields.
    public let changes: [Change]
    /// What the later state has merged and the earlier one had not, ascending by actor.
    public let advances: [Advance]
    /// What the earlier state had merged and the later one has not. Empty when the later state follows the
    /// earlier one; between states of two replicas, what the later replica still misses.
    public let missing: [Advance]

    /// Whether the two states are one: nothing changed, nothing was merged.
    public var isEmpty: Bool { changes.isEmpty && advances.isEmpty && missing.isEmpty }

    /// One actor's writes that one state has merged and the other has not: those after `from`, up to and
    /// including `through`. When that was by the wall clock, `HybridClock.milliseconds(of:)` says.
    public struct Advance: Sendable, Equatable {
        /// The writer.
        public let actor: ActorID
        /// The last timestamp of the actor that both states have merged; nil when there is none.
        public let from: Timestamp?
        /// The last timestamp of the actor that one state has merged.
        public let through: Timestamp
    }

    /// One kind of value under one path, as a reader sees it in one state.
    public struct Side: Sendable, Equatable {
        /// The value. Of a MAP an empty object: its fields are changes of their own.
        public let value: Value
        /// The concurrent values that lost, greatest stamp first; only of a REGISTER or ATTACHMENT.
        public let conflicts: [Value]
        /// Whether a reader without declared types sees this kind under the path: it was written most
        /// recently.
        public let isShown: Bool
    }

    /// What happened to a path and kind.
    public enum Action: String, Sendable {
        /// It was not there.
        case added
        /// It is another value, has other concurrent values, or shows where it did not (or the reverse).
        case changed
        /// It is not there any more.
        case removed
    }

    /// A change under one path of one kind.
    public struct Change: Sendable, Equatable {
        /// The keys from the root; empty for the document itself, which is added when it is created and
        /// removed when it is deleted.
        public let path: [String]
        /// The kind.
        public let kind: FieldKind
        /// The earlier state's side; nil when the kind was not there.
        public let before: Side?
        /// The later state's side; nil when the kind is not there.
        public let after: Side?
        /// Who wrote what is there now and was not before, and when; ascending. Empty when nothing was left
        /// behind that tells: of a removal, and of a kind that shows because another one was removed.
        public let writers: [Stamp]

        /// What happened.
        public var action: Action {
            switch (before, after) {
            case (nil, _): .added
            case (_, nil): .removed
            default: .changed
            }
        }

        /// Same path by bytes, same kind, sides and writers.
        public static func == (left: Change, right: Change) -> Bool {
            left.path.elementsEqual(right.path, by: utf8Equal) && left.kind == right.kind
                && left.before == right.before && left.after == right.after && left.writers == right.writers
        }
    }

    /// The writes that a change may be owed to: its writers where they are known, otherwise the latest write
    /// of every actor whose writes the later state has newly merged. A removal leaves no stamp of its own.
    public func candidates(for change: Change) -> [Stamp] {
        guard change.writers.isEmpty else { return change.writers }
        return advances.map { Stamp(time: $0.through, actor: $0.actor) }.sorted()
    }
}

extension Document {
    /// What changed from an earlier state of the same document to this one. Any two states will do: what this
    /// one has not merged yet is in `missing`, and what only the earlier one holds counts as removed.
    public func diff(from earlier: Document) -> DocumentDiff {
        var walk = DiffWalk()
        walk.root(earlier.root, root)
        return DocumentDiff(
            changes: walk.changes, advances: vector.advances(over: earlier.vector),
            missing: earlier.vector.advances(over: vector))
    }
}

extension VersionVector {
    fileprivate func advances(over other: VersionVector) -> [DocumentDiff.Advance] {
        entries.compactMap { entry in
            let from = other[entry.actor]
            guard from.map({ $0 < entry.time }) ?? true else { return nil }
            return DocumentDiff.Advance(actor: entry.actor, from: from, through: entry.time)
        }
    }
}
