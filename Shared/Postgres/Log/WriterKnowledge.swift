import CRDT
import OperationLog

/// What a writer knows of a database from its own appends, good for as long as head and chain hash are what
/// it left: appends move them, and nothing else changes where an actor stands.
///
/// With it the server compares nothing and keeps no index up to date at each group: what a group changes in
/// the tables `actors` and `touched` waits in its operations' rows, whoever needs the tables flushes first,
/// and the writer itself does when much waits. The first group of a connection knows nothing and has
/// everything flushed, so what is unflushed below a known head is the writer's own.
final class WriterKnowledge {
    private struct Standing {
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
    /// Whether somebody else had appended before this writer's last group: then asking first costs less than
    /// being refused.
    private(set) var isShared = false
    /// Operations, and what they touched, that wait to be flushed.
    private var unflushed = 0
    /// The same, folded: whose operations wait, and where what they touched was touched last.
    private var unflushedActors: Set<ActorID> = []
    private var unflushedTouches: [Touch: Offset] = [:]
    private var actors: [ActorID: Standing] = [:]

    /// What is known after a group that the server flushed.
    init(after plain: PlainAppend, from before: Offset, hash: UInt64, number: Int64, former: Offset?) {
        self.number = number
        self.hash = hash
        head = before.advanced(by: plain.count)
        isShared = former.map { $0 != before } ?? false
        add(plain)
    }

    /// Whether what waits is to be flushed before more does.
    var isFull: Bool { unflushed >= PostgresLimits.unflushedEntries }

    /// Whether an operation is its actor's next, under the actor's key; nil where that is not known.
    func fits(_ operation: PreparedOperation) -> Bool? {
        guard let standing = actors[operation.record.actor] else { return nil }
        return standing.sequence == operation.record.sequence.previous
            && utf8Equal(standing.authorKey, operation.authorKey)
    }

    /// Takes note of a group behind the head, up to this chain hash.
    func take(_ plain: PlainAppend, hash: UInt64) {
        plain.forEachTouch(behind: head) { unflushedTouches[$0] = $1 }
        for last in plain.lasts { unflushedActors.insert(last.record.actor) }
        head = head.advanced(by: plain.count)
        self.hash = hash
        unflushed += plain.entries
        add(plain)
    }

    /// Takes note that nothing was appended behind `head`, which is another one now, or there was no room.
    func refuse(at head: Offset) {
        // What was sent behind it is refused too.
        guard !isShared else { return }
        self.head = head
        isShared = true
    }

    /// Brings the indexes up to the head by what is known of what waits, unless the head is another one by
    /// then: the same as `mimeo_log.settle` would write, without reading the operations again.
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

    /// Answers rows, unlike an append, of which the writer counts what it has written.
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

    /// Takes note that everything was flushed.
    func noteFlushed() {
        unflushed = 0
        unflushedActors = []
        unflushedTouches.removeAll(keepingCapacity: true)
    }

    private func add(_ plain: PlainAppend) {
        for last in plain.lasts { actors[last.record.actor] = Standing(last) }
    }

    /// Of how many actors it is known where they stand.
    var actorCount: Int { actors.count }
}
