import CRDT
import OperationLog

/// A writer's knowledge of a database from its own appends, valid while head and chain hash are as it left
/// them: only appends move them, and nothing else changes an actor's frontier.
///
/// With it the server checks nothing and updates no index at each group: a group's changes to the tables
/// `actors` and `touched` wait in its operations' rows. They are flushed before the tables are needed, or
/// by the writer when many are outstanding. The first group of a connection knows nothing and flushes
/// everything, so any unflushed operation below a known head is the writer's own.
final class WriterKnowledge {
    /// The last operation of an actor, as its next one must fit it.
    private struct LastOperation {
        let sequence: SequenceNumber
        let authorKey: String
        let timestamp: Timestamp
        let contentHash: UInt64

        init(_ last: PreparedOperation) {
            sequence = last.record.sequence
            authorKey = last.authorKey
            timestamp = last.record.timestamp
            contentHash = last.contentHash
        }
    }

    /// The database's number in the tables.
    let number: Int64
    /// The head as this writer left it.
    private(set) var head: Offset
    /// The chain hash there.
    private(set) var hash: UInt64
    /// True if another writer appended before this one's last group: then asking first costs less than
    /// being refused.
    private(set) var isShared = false
    /// The number of operations and touches that are not flushed.
    private var unflushed = 0
    /// The same, folded: the actors of unflushed operations, and each touch's last offset.
    private var unflushedActors: Set<ActorID> = []
    private var unflushedTouches: [Touch: Offset] = [:]
    private var actors: [ActorID: LastOperation] = [:]

    /// The knowledge after a group that the server flushed.
    init(after plain: PlainAppend, from before: Offset, hash: UInt64, number: Int64, former: Offset?) {
        self.number = number
        self.hash = hash
        head = before.advanced(by: plain.count)
        isShared = former.map { $0 != before } ?? false
        add(plain)
    }

    /// True if the outstanding entries must be flushed before more are added.
    var isFull: Bool { unflushed >= PostgresLimits.unflushedEntries }

    /// Returns whether an operation is its actor's next, under the actor's key; nil if the actor is
    /// unknown.
    func fits(_ operation: PreparedOperation) -> Bool? {
        guard let last = actors[operation.record.actor] else { return nil }
        return last.sequence == operation.record.sequence.previous
            && utf8Equal(last.authorKey, operation.authorKey)
    }

    /// Records a group appended after the head, up to this chain hash.
    func take(_ plain: PlainAppend, hash: UInt64) {
        plain.forEachTouch(behind: head) { unflushedTouches[$0] = $1 }
        for last in plain.lasts { unflushedActors.insert(last.record.actor) }
        head = head.advanced(by: plain.count)
        self.hash = hash
        unflushed += plain.entries
        add(plain)
    }

    /// Records that nothing was appended after `head`, because the head has changed or there was no room.
    func refuse(at head: Offset) {
        // Later groups that were already sent are refused too.
        guard !isShared else { return }
        self.head = head
        isShared = true
    }

    /// Brings the indexes up to the head from the recorded actors and touches, unless the head has changed
    /// by then: the same result as `mimeo_log.settle`, without reading the operations again.
    var flush: Connection.Step {
        let lasts = unflushedActors.compactMap { actor in actors[actor].map { (actor, $0) } }
        return Connection.Step(
            Self.flushStatement,
            [
                .int8(number), .int8(Int64(bitPattern: head.rawValue)), .int8(Int64(bitPattern: hash)),
                .int8Array(lasts.map { Int64(bitPattern: $0.0.rawValue) }),
                .textArray(lasts.map(\.1.authorKey)),
                .int8Array(lasts.map { Int64(bitPattern: $0.1.sequence.rawValue) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.1.timestamp) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.1.contentHash) }),
                .int8Array(unflushedTouches.map { Int64(bitPattern: $0.key.rawValue) }),
                .int8Array(unflushedTouches.map { Int64(bitPattern: $0.value.rawValue) }),
            ])
    }

    /// A step like `flush`, for a connection to prepare.
    static var flushKind: Connection.Step {
        let (number, numbers) = (Parameter.int8(0), Parameter.int8Array([]))
        return Connection.Step(
            flushStatement,
            [
                number, number, number, numbers, .textArray([]), numbers, numbers, numbers, numbers, numbers,
            ])
    }

    /// Returns rows, unlike an append, for which the writer counts the written rows.
    private static let flushStatement = """
        WITH home AS (
            UPDATE mimeo_log.databases d SET settled = d.head
            WHERE d.number = $1 AND d.head = $2 AND d.hash = $3 RETURNING d.number
        ), standing AS (
            INSERT INTO mimeo_log.actors
            SELECT w.number, w.actor, w.key, w.last, w.stamp, w.content
            FROM (
                SELECT home.number, unnest($4) AS actor, unnest($5) AS key, unnest($6) AS last,
                    unnest($7) AS stamp, unnest($8) AS content
                FROM home
            ) AS w
            ON CONFLICT (database, actor) DO UPDATE SET sequence = excluded.sequence,
                "timestamp" = excluded."timestamp", hash = excluded.hash
        ), touching AS (
            INSERT INTO mimeo_log.touched
            SELECT t.number, t.touch, t.place
            FROM (SELECT home.number, unnest($9) AS touch, unnest($10) AS place FROM home) AS t
            ON CONFLICT (database, touch) DO UPDATE SET "offset" = excluded."offset"
        )
        SELECT number FROM home
        """

    /// Records that everything is flushed.
    func noteFlushed() {
        unflushed = 0
        unflushedActors = []
        unflushedTouches.removeAll(keepingCapacity: true)
    }

    private func add(_ plain: PlainAppend) {
        for last in plain.lasts { actors[last.record.actor] = LastOperation(last) }
    }

    /// The number of actors with a known frontier.
    var actorCount: Int { actors.count }
}
