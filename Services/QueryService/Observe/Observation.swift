import CRDT
import DQL
import Exchange
import Identity
import Machine
import Replica
import ServiceKit
import Synchronization

/// One live query, evaluated once for all who follow it with equal rights.
///
/// A task follows the database's operations. One that cannot matter runs nothing: the statement is evaluated
/// again only when a document that it may read fulfilled its condition before or after a change. The
/// difference to the rows before is an event. Events wait in `events`, bounded in bytes; a follower reads
/// them at its own pace, and one that is too slow gets the whole result again.
///
/// `state` guards all and is never held across a wait. Events are numbered from 1; event n leads from the
/// rows of version n - 1 to those of version n.
final class Observation: Sendable {
    /// A query as it is shared.
    struct Query: Sendable {
        let statement: PreparedStatement
        let arguments: ObjectValue
        let rights: CompiledGrant
        let observed: ObservedQuery?
        /// The account of its evaluations: the credential of the follower who began it.
        let credential: String
        /// The memory of its statement, if that is long.
        let held: ClientHold
    }

    /// The rows at an offset.
    struct Rows: Sendable {
        let rows: [KeptRow]
        let offset: Offset
        /// Their memory, for as long as somebody has them.
        let held: ClientHold?
    }

    /// A change of the rows, as JSON.
    struct Event: Sendable {
        let offset: Offset
        let json: String
    }

    /// The next step of a follower.
    enum Step: Sendable {
        case events([Event], through: Int)
        /// The events are gone that the follower lacks.
        case behind
        case ended(any HTTPReportable)
    }

    private struct State: Sendable {
        var rows: [KeptRow] = []
        /// The memory of the rows; nil before there are some.
        var held: ClientHold?
        /// The offset up to which the rows are known to be right.
        var offset: Offset = 0
        var version = 0
        var events: [Event] = []
        var bytes = 0
        var end: (any HTTPReportable)?
        /// Grows with each `wake`.
        var wakes: UInt64 = 0
    }

    let query: Query
    private let projection: Projection
    private let state = Monitor(State())
    /// The memory of the events.
    private let kept: ClientHold
    private let begun: Task<Void, any Error>
    private let running = Mutex<Task<Void, Never>?>(nil)

    init(_ query: Query, on projection: Projection) {
        self.query = query
        self.projection = projection
        kept = ClientHold(Account(query.credential, in: projection.database))
        let (first, given) = AsyncThrowingStream.makeStream(of: Rows.self)
        begun = Task { for try await _ in first { return } }
        running.withLock { $0 = Task { [self] in await follow(given) } }
    }

    deinit {
        let (rows, held) = state.read { ($0.rows, $0.held) }
        discard(rows, held)
        if query.statement.text.utf8.count > Limits.plainStatementBytes { discard(query) }
    }

    private func discard(_ rows: [KeptRow], _ held: ClientHold?) {
        if rows.count > Limits.plainAnswerRows { discard(rows as any Sendable, held) }
    }

    /// Lets go of something large in a turn.
    private func discard(_ large: any Sendable, _ held: ClientHold? = nil) {
        let leavings = Leavings(held)
        leavings.add(large)
        projection.discard(leavings, of: query.credential)
    }

    /// Returns when the first evaluation has succeeded.
    /// - Throws: its error.
    func begin() async throws { try await begun.value }

    /// Ends the evaluation; nobody follows any more.
    func stop() { running.withLock { $0 }?.cancel() }

    // MARK: Evaluating

    private func follow(_ begun: AsyncThrowingStream<Rows, any Error>.Continuation) async {
        let follower = projection.recent.follow()
        do {
            let first = try await projection.rows(of: query, from: nil)
            state.change { ($0.rows, $0.offset, $0.held) = (first.rows, first.offset, first.held) }
            begun.yield(first)
        } catch {
            begun.finish(throwing: error)
            return end(error)
        }
        begun.finish()
        do {
            var seen = state.read { $0.offset }
            while !Task.isCancelled, !follower.isOver {
                let (through, matters) = try await news(after: seen)
                if matters {
                    let now = try await projection.rows(of: query, from: through)
                    try await publish(now)
                    seen = max(through, now.offset)
                } else if through > seen {
                    seen = through
                    state.change { $0.offset = max($0.offset, through) }
                } else {
                    await projection.recent.wait(beyond: seen)
                }
            }
            end(QueryError(.unavailable, "the projection was closed"))
        } catch {
            end(error)
        }
    }

    /// The offset of the last operation, and whether one of those after `offset` can have changed the rows.
    private func news(after offset: Offset) async throws -> (through: Offset, matters: Bool) {
        var place = offset
        while true {
            guard case .operations(let operations) = projection.recent.read(after: place) else {
                return (projection.recent.end, true)
            }
            guard let last = operations.last else { return (place, false) }
            place = last.position.offset
            // The evaluation has all later operations too.
            if try await matter(operations) { return (max(place, projection.recent.end), true) }
        }
    }

    /// Returns whether any operation can change the rows. The condition is evaluated in a turn.
    private func matter(_ operations: [FoldedOperation]) async throws -> Bool {
        guard operations.contains(where: concerns) else { return false }
        guard query.observed != nil else { return true }
        return try await projection.computing(for: query) { [self] evaluation in
            try operations.contains { operation in
                try evaluation.checkEnd()
                return matters(operation)
            }
        }
    }

    /// Returns whether an operation changes a document that the query may read.
    private func concerns(_ operation: FoldedOperation) -> Bool {
        if readsSystem { return true }
        return operation.changes.contains { change in
            query.statement.collectionsRead.contains(change.key.collection)
                && query.rights.read.allows(change.key) && change.before != change.after
        }
    }

    private var readsSystem: Bool {
        query.statement.collectionsRead.contains { $0.text.hasPrefix("system:") }
    }

    /// Returns whether an operation can change the rows.
    private func matters(_ operation: FoldedOperation) -> Bool {
        let statement = query.statement
        if readsSystem { return true }
        return operation.changes.contains { change in
            let key = change.key
            guard statement.collectionsRead.contains(key.collection), query.rights.read.allows(key),
                change.before != change.after
            else { return false }
            guard let observed = query.observed else { return true }
            return observed.matches(key.id, change.before) || observed.matches(key.id, change.after)
        }
    }

    /// The difference to the rows before; nil if there is none. Many rows are compared in the pool.
    private func event(_ now: Rows) async throws -> Event? {
        let before = state.read { $0.rows }
        let compare: @Sendable () -> Event? = {
            let difference = RowDifference(from: before, to: now.rows)
            return difference.isEmpty ? nil : Event(offset: now.offset, json: Self.json(difference, now))
        }
        guard before.count + now.rows.count > Limits.plainAnswerRows else { return compare() }
        return try await projection.computing(for: query) { _ in compare() }
    }

    private func publish(_ now: Rows) async throws {
        let event = try await event(now)
        try kept.grow(by: event?.json.utf8.count ?? 0)
        let (before, held, gone) = state.change { state -> ([KeptRow], ClientHold?, Int) in
            let (before, held, bytes) = (state.rows, state.held, state.bytes)
            (state.rows, state.held) = (now.rows, now.held)
            state.offset = max(state.offset, now.offset)
            guard let event else { return (before, held, 0) }
            state.version += 1
            state.events.append(event)
            state.bytes += event.json.utf8.count
            while state.bytes > Limits.eventBytes, state.events.count > 1 {
                state.bytes -= state.events.removeFirst().json.utf8.count
            }
            return (before, held, bytes + event.json.utf8.count - state.bytes)
        }
        kept.shrink(by: gone)
        discard(before, held)
    }

    private static func json(_ difference: RowDifference, _ now: Rows) -> String {
        func list(_ indexes: [Int]) -> Value { .array(indexes.map { .int(Int64($0)) }) }
        let changed = (difference.insertions + difference.updates).sorted()
        let rows = changed.map { Value.array([.int(Int64($0)), (try? now.rows[$0].value) ?? .null]) }
        var value = ObjectValue([
            (key: "event", value: "change"),
            (key: "transactionId", value: .int(Int64(clamping: now.offset.rawValue))),
            (key: "insertions", value: list(difference.insertions)),
            (key: "deletions", value: list(difference.deletions)),
            (key: "updates", value: list(difference.updates)),
            (key: "moves", value: .array(difference.moves.map { list([$0.from, $0.to]) })),
            (key: "rows", value: .array(rows)),
        ])
        if let number = Value.array(rows).unwritableNumber {
            value["warnings"] = ObserveStream.warnings(number)
        }
        return JSONText.print(.object(value))
    }

    private func end(_ error: any Error) {
        let reason = ErrorAnswer.reportable(QueryError.translated(error))
        state.change { $0.end = $0.end ?? reason }
    }

    // MARK: Following

    /// The rows now, and the number of the last event that is in them.
    func current() -> (rows: Rows, version: Int) {
        state.read { (Rows(rows: $0.rows, offset: $0.offset, held: $0.held), $0.version) }
    }

    /// Returns whether nothing that the query reads was changed since an offset. False if that is not known.
    func isCurrent(since offset: Offset) async throws -> Bool {
        let now = state.read { $0.offset }
        guard offset <= now else { return false }
        var place = offset
        while place < now {
            guard case .operations(let operations) = projection.recent.read(after: place),
                let last = operations.last
            else { return false }
            if try await matter(operations.filter { $0.position.offset <= now }) { return false }
            place = last.position.offset
        }
        return true
    }

    /// The events after a number.
    func step(after number: Int) -> Step {
        state.read { state in
            if number == state.version, let end = state.end { return .ended(end) }
            let oldest = state.version - state.events.count
            guard number >= oldest else { return .behind }
            return .events(Array(state.events[(number - oldest)...]), through: state.version)
        }
    }

    /// Returns when there is an event after a number, at the end, after `wake`, or when the task is
    /// cancelled.
    func wait(beyond number: Int) async {
        let wakes = state.read { $0.wakes }
        await state.wait(within: nil) { $0.version != number || $0.end != nil || $0.wakes != wakes }
    }

    /// Wakes every follower, so that it looks at its clock, its credential and its client.
    func wake() { state.change { $0.wakes += 1 } }
}

extension ObservedQuery {
    /// Returns whether a state of a document is live and fulfils the condition.
    fileprivate func matches(_ id: DocumentID, _ state: EncodedState?) -> Bool {
        guard let state else { return false }
        return state.withUnsafeBytes { bytes in
            // One that cannot be read counts as fulfilling: the evaluation reports it.
            guard let reader = try? DocumentReader(bytes) else { return true }
            return reader.isLive && matches(DocumentRecord(id: id, document: reader))
        }
    }
}
