import CRDT
import DQL
import Exchange
import Identity
import Replica
import ServiceKit

/// The changes that a consumer asked for and may see, and the lines that show them.
struct ChangeFilter: Sendable {
    /// The values that a line has.
    enum Values: String, Sendable, CaseIterable {
        case new, both, none
        /// The fields that differ, with their kinds.
        case changes
    }

    /// The collections; nil for all.
    var collections: [CollectionName]?
    /// A condition over the new value, or over the old one of a document that was removed.
    var condition: DocumentCondition?
    var values = Values.new
    let rules: CompiledRules

    /// Returns whether documents of a collection are wanted and may be seen at all.
    func wants(_ collection: CollectionName) -> Bool {
        (collections?.contains(collection) ?? true) && rules.allowsAny(of: collection)
    }

    /// One line for each change of an operation that is wanted, in its order, as JSON; the last one says so.
    /// - Throws: `cancelled` or `timeout` when the evaluation ends, and `unreadableDocument`.
    func lines(
        of operation: FoldedOperation, author: String, in evaluation: Evaluation
    ) throws -> [String] {
        var lines: [ObjectValue] = []
        for (index, change) in operation.changes.enumerated() {
            try evaluation.checkEnd()
            // A reaped tombstone has no state, and nobody saw it before.
            guard change.gone == nil, wants(change.key.collection), rules.allows(change.key),
                var line = try line(of: change, in: evaluation)
            else { continue }
            line["transactionId"] = .int(Int64(clamping: operation.position.offset.rawValue))
            line["index"] = .int(Int64(index))
            ChangeAuthor(operation.stamp, author).describe(in: &line)
            lines.append(line)
        }
        if !lines.isEmpty { lines[lines.count - 1]["last"] = true }
        return lines.map { JSONText.print(.object($0)) }
    }

    /// Nil for a change that nobody can see, and for one that the condition leaves out.
    private func line(
        of change: FoldedOperation.Change, in evaluation: Evaluation
    ) throws -> ObjectValue? {
        if let before = change.before, before == change.after { return nil }
        let key = change.key
        let (was, lives) = (try change.before.map(Self.isLive) ?? false, try Self.isLive(change.after))
        guard was || lives else { return nil }
        let decisive = lives ? change.after : change.before
        if let decisive, try !holds(for: key.id, decisive, in: evaluation) { return nil }
        var line = ObjectValue([
            (key: "collection", value: .string(key.collection.text)), (key: "id", value: key.id.value),
            (key: "method", value: .string(was ? lives ? "update" : "remove" : "insert")),
        ])
        if values == .new || values == .both {
            line["value"] = try change.after.visibleDocument(key.id) ?? .null
        }
        if values == .both {
            line["oldValue"] = try change.before.flatMap { try $0.visibleDocument(key.id) } ?? .null
        }
        if values == .changes || (was && lives) {
            let earlier = try change.before.map { try Document(decoding: $0) } ?? Document()
            let difference = try Document(decoding: change.after).diff(from: earlier)
            if was, lives { line["changed"] = .array(Self.paths(difference).map { .string($0) }) }
            if values == .changes {
                line["changes"] = .array(difference.changes.map { .object($0.described) })
            }
        }
        line.noteUnwritableNumber()
        return line
    }

    private func holds(
        for id: DocumentID, _ state: EncodedState, in evaluation: Evaluation
    ) throws -> Bool {
        guard let condition else { return true }
        return try condition.holds(for: id, state) { evaluation.interruption() }
    }

    /// The line of a document in a snapshot; nil if it is not wanted. Throws as `lines`.
    func snapshotLine(
        of key: DocumentKey, _ state: EncodedState, at offset: Offset, in evaluation: Evaluation
    ) throws -> ObjectValue? {
        try evaluation.checkEnd()
        guard rules.allows(key), try Self.isLive(state), try holds(for: key.id, state, in: evaluation) else {
            return nil
        }
        var line = ObjectValue([
            (key: "collection", value: .string(key.collection.text)), (key: "id", value: key.id.value),
            (key: "method", value: "snapshot"),
            (key: "transactionId", value: .int(Int64(clamping: offset.rawValue))),
        ])
        switch values {
        case .new, .both: line["value"] = try state.visibleDocument(key.id) ?? .null
        case .changes:
            let difference = try Document(decoding: state).diff(from: Document())
            line["changes"] = .array(difference.changes.map { .object($0.described) })
        case .none: break
        }
        line.noteUnwritableNumber()
        return line
    }

    private static func isLive(_ state: EncodedState) throws -> Bool {
        try state.withUnsafeBytes { try DocumentReader($0).isLive }
    }

    /// The paths under which a reader can tell the two states apart: `a.b`.
    private static func paths(_ difference: DocumentDiff) -> [String] {
        var paths: [String] = []
        for change in difference.changes where !change.path.isEmpty {
            let path = change.path.joined(separator: ".")
            if paths.last != path { paths.append(path) }
        }
        return paths
    }
}

extension DocumentDiff.Change {
    /// The change for people and programs. A value that another kind hides says so.
    var described: ObjectValue {
        var item = ObjectValue([
            (key: "path", value: .array(path.map { .string($0) })),
            (key: "action", value: .string(action.rawValue)), (key: "kind", value: .string("\(kind)")),
        ])
        if let before {
            item["old"] = before.value
            if !before.isShown { item["oldHidden"] = true }
        }
        if let after {
            item["new"] = after.value
            if !after.isShown { item["newHidden"] = true }
        }
        return item
    }
}

extension ObjectValue {
    /// Adds the warning of a number in it that JSON cannot hold, in whose place null will stand.
    mutating func noteUnwritableNumber() {
        guard let number = Value.object(self).unwritableNumber else { return }
        self["warnings"] = .array([
            .string("a value is \(number), which JSON cannot hold: null stands in its place")
        ])
    }
}

/// Whoever wrote an operation, as far as the log knows.
struct ChangeAuthor {
    private let stamp: Stamp
    private let author: String

    init(_ stamp: Stamp, _ author: String) { (self.stamp, self.author) = (stamp, author) }

    /// Adds `time`, `user`, `peer` and `actor`. A write over HTTP has neither user nor peer: its service
    /// wrote it under a lease.
    func describe(in line: inout ObjectValue) {
        let milliseconds = HybridClock.milliseconds(of: stamp.time)
        line["time"] = .string(RFC3339.text(clamping: milliseconds))
        let isUser = author.hasPrefix("user:") || author.hasPrefix("api-key:")
        let isPeer = !isUser && !author.isEmpty && !author.hasPrefix("leased:")
        line["user"] = isUser ? .string(author) : .null
        line["peer"] = isPeer ? .string(author) : .null
        let digits = String(stamp.actor.rawValue, radix: 16)
        line["actor"] = .string(String(repeating: "0", count: 16 - digits.count) + digits)
    }
}
