import CRDT
import DQL
import OperationLog
import Replica
import ServiceKit

/// Finds the changes of one document: reads the log, of which only this document's changes are folded, in
/// turns of the evaluation.
struct DocumentHistory: Sendable {
    let key: DocumentKey
    let database: DatabaseID
    let past: Past
    let evaluation: Evaluation

    /// One operation's effect.
    struct Entry: Sendable {
        let offset: Offset
        let stamp: Stamp
        let before: EncodedState?
        let after: EncodedState
    }

    /// The last `limit` changes through an offset, oldest first, the state there, and the offset at which the
    /// log begins. Their states take at most `Limits.historyBytes`, or are those of one change.
    struct Found: Sendable {
        var entries: [Entry] = []
        var state: EncodedState?
        var oldest: Offset
        /// Bytes of the entries' states: each is held once, as the one before of the next entry too.
        var bytes = 0
        /// True if there are entries before these.
        var hasMore = false
    }

    /// - Throws: `QUERY-0503`; `cancelled` or `timeout` when the evaluation ends.
    func find(through last: Offset, limit: Int) async throws -> Found {
        let oldest = try await PastFold.oldest(in: past.log, of: database)
        guard last >= oldest else { throw try await past.gone(database) }
        var found = Found(oldest: oldest)
        if oldest > 0 {
            let key = key
            found.state = try await past.translating(database) {
                try await past.folds.read(database, at: oldest, evaluation) { try $0.state(of: key) }
            }
        }
        var place = oldest
        while place < last {
            let reach = min(Limits.historyStep, place.distance(to: last))
            let entries: [LogEntry]
            do {
                entries = try await past.log.read(
                    database, after: place, limit: ReadLimit(operations: reach))
            } catch let error as OperationLogError where error.code == .truncated {
                throw try await past.gone(database)
            }
            guard let end = entries.last?.offset else { break }
            let before = found
            found = try await evaluation.run {
                var found = before
                for entry in entries {
                    try evaluation.checkEnd()
                    try fold(entry, limit, &found)
                }
                return found
            }
            place = end
        }
        return found
    }

    private func fold(_ entry: LogEntry, _ limit: Int, _ found: inout Found) throws {
        let operation = try LoggedOperation(decoding: entry.bytes)
        guard let change = operation.changes.first(where: { $0.key == key }) else { return }
        switch try Fold.step(change.content, on: found.state) {
        case .changed(let state, _):
            found.entries.append(
                Entry(offset: entry.offset, stamp: operation.stamp, before: found.state, after: state))
            found.state = state
            found.bytes += state.count
            evaluation.holds(rows: Limits.historyWeight * found.bytes)
        case .reaped(let rest): found.state = rest
        case .duplicate, .void: break
        }
        while found.entries.count > limit || (found.bytes > Limits.historyBytes && found.entries.count > 1) {
            found.bytes -= found.entries.removeFirst().after.count
            found.hasMore = true
        }
    }
}

extension DocumentHistory.Entry {
    /// The entry for people: who, when, and each change of the document. A change that did not know of other
    /// writes of its field names their offsets: both values are kept until a later write.
    /// - Parameter offsets: those of the writes that are known, by their stamps.
    func value(author: String, offsets: [Stamp: Offset]) throws -> Value {
        var entry = ObjectValue([
            (key: "transactionId", value: .int(Int64(clamping: offset.rawValue)))
        ])
        ChangeAuthor(stamp, author).describe(in: &entry)
        let earlier = try before.map { try Document(decoding: $0) } ?? Document()
        let document = try Document(decoding: after)
        let difference = document.diff(from: earlier)
        let mayBeConcurrent = difference.changes.contains { $0.after?.conflicts.isEmpty == false }
        let all = mayBeConcurrent ? document.diff(from: Document()).changes : []
        entry["changes"] = .array(
            difference.changes.map { change in
                var item = change.described
                if let others = Self.beside(change, all), !others.isEmpty {
                    let known = others.compactMap { offsets[$0] }.sorted()
                    item["concurrentWith"] = .array(known.map { .int(Int64(clamping: $0.rawValue)) })
                    if let written = Self.beneath(change) { item["written"] = written }
                }
                return .object(item)
            })
        entry.noteUnwritableNumber()
        return .object(entry)
    }

    /// The value of a concurrent write that does not show, because another one is later by its stamp: `old`
    /// and `new` are the same then. Nil if the written value shows.
    private static func beneath(_ change: DocumentDiff.Change) -> Value? {
        guard let before = change.before, let after = change.after, before.value == after.value else {
            return nil
        }
        var earlier = before.conflicts
        return after.conflicts.first { value in
            guard let place = earlier.firstIndex(of: value) else { return true }
            earlier.remove(at: place)
            return false
        }
    }

    /// The earlier writes whose values a field keeps beside the one of a change; nil if it wrote none.
    /// - Parameter all: the changes from nothing to the state afterwards, so that every stamp is a new one.
    private static func beside(
        _ change: DocumentDiff.Change, _ all: [DocumentDiff.Change]
    ) -> [Stamp]? {
        guard change.after?.conflicts.isEmpty == false, !change.writers.isEmpty else { return nil }
        let whole = all.first { $0.path == change.path && $0.kind == change.kind }
        return whole?.writers.filter { !change.writers.contains($0) }
    }
}
