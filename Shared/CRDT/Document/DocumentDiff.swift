/// The changes between two states of a document, made for people: audit trails, the console.
///
/// A change is listed exactly once per path and kind, when a reader could tell the two states apart there:
/// by the value, by the concurrent values, or by which kind shows. States keep no history. So a value that
/// was written and overwritten in between does not appear, nor does a write of the same value.
public struct DocumentDiff: Sendable, Equatable {
    /// The changes, ascending by path (key by key, by bytes), then by kind. A MAP comes before its fields.
    public let changes: [Change]
    /// The writes that the later state has merged and the earlier one had not, ascending by actor.
    public let advances: [Advance]
    /// The writes that the earlier state had merged and the later one has not. Empty when the later state
    /// follows the earlier one. Between states of two replicas: the writes that the later replica still
    /// lacks.
    public let missing: [Advance]

    /// True if the two states are the same: nothing changed, nothing was merged.
    public var isEmpty: Bool { changes.isEmpty && advances.isEmpty && missing.isEmpty }

    /// One actor's writes that one state has merged and the other has not: those after `from`, up to and
    /// including `through`. `HybridClock.milliseconds(of:)` gives their wall-clock time.
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
        /// The value. An empty object for a MAP: its fields are changes of their own.
        public let value: Value
        /// The concurrent values that lost, greatest stamp first. Only for a REGISTER or ATTACHMENT.
        public let conflicts: [Value]
        /// True if a reader without declared types sees this kind under the path: it was written most
        /// recently.
        public let isShown: Bool
    }

    /// The kind of change.
    public enum Action: String, Sendable {
        /// It was not there.
        case added
        /// It has another value or other concurrent values, or began or ceased to show.
        case changed
        /// It is no longer there.
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
        /// The stamps of the writes that are there now and were not before, ascending. Empty when no write
        /// left a stamp: after a removal, and for a kind that shows because another one was removed.
        public let writers: [Stamp]

        /// The kind of this change.
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
}

extension Document {
    /// The changes from an earlier state of the same document to this one. Any two states will do: writes
    /// that this one has not merged are in `missing`, and values that only the earlier one holds count as
    /// removed.
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
