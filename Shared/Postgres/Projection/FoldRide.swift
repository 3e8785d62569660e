import CRDT
import Logging
import OperationLog
import Synchronization

/// The fold of operations into the tables that readers use, made before they are appended and committed with
/// them: the writer waits for one commit, and for no leader.
///
/// It is made for the log and the generation as a snapshot has met them at the log's head. Its first step
/// locks the generation, unless a leader or another writer has it, and its last one moves the position. Each
/// fails where anything is not as expected, and with it the whole transaction: then nothing is stored, and
/// the operations are appended by themselves.
///
/// - The generation's row is locked before the log's and before all others of the projection, by every
///   process. Nobody waits for it here, and a leader has no lock of the log, so no two wait for each other.
/// - The chain hash of the log after the append proves that it has these operations, and no others, after the
///   position.
/// - A leader whose generation has moved on goes on after that (`GenerationWriter`). Tables and indexes are
///   made by leaders only. While one builds another generation, it is alone to fold: that one must not be
///   behind when it replaces this one.
public final class FoldRide: AppendRider {
    /// The steps before the append, and those after it.
    let before: [Connection.Step]
    let after: [Connection.Step]
    /// The generation that the fold leaves.
    let result: Generation
    private let isCommitted = Atomic(false)

    /// True once it was committed with its append.
    public var hasArrived: Bool { isCommitted.load(ordering: .acquiring) }

    fileprivate init(
        _ database: DatabaseID, from start: Generation, in schema: Int64, to result: Generation,
        _ writes: [Connection.Step]
    ) {
        before = [Self.lock(start, schema)]
        after = writes + [Self.move(database, to: result)]
        self.result = result
    }

    /// Fails without a row, and tells the server's own log why. The count keeps the planner from evaluating
    /// the text, which is no number.
    private static func require(_ reason: String) -> String {
        "CASE count(*) WHEN 0 THEN ('mimeo: folded later, \(reason): ' || count(*))::int ELSE 1 END"
    }

    /// Notes that its transaction was committed.
    func noteArrival() { isCommitted.store(true, ordering: .releasing) }

    /// The number of the schema tells that the tables are those of the snapshot, also on another server. A
    /// lock that takes long to come is somebody's who appends, or alters a table: the fold would be late.
    private static func lock(_ start: Generation, _ schema: Int64) -> Connection.Step {
        let patience = PostgresLimits.rideLockTimeout.wholeMicroseconds / 1_000
        return Connection.Step(
            """
            WITH free AS MATERIALIZED (
                SELECT 1 FROM mimeo_projection.generations
                WHERE number = $1::int4 AND log_id = $2 AND "offset" = $3 AND hash = $4
                    AND index_version = $5
                    AND to_regnamespace('\(ProjectionNames.schemaPrefix)' || number)::oid::int8 = $6
                FOR UPDATE SKIP LOCKED
            )
            SELECT \(require("another process folds")), set_config('mimeo.projection_format', '2', true),
                set_config('lock_timeout', '\(patience)ms', true)
            FROM free
            """,
            [
                .int8(Int64(start.number)), .bytes(start.position.logID.bytes),
                .int8(Int64(bitPattern: start.position.offset.rawValue)),
                .int8(Int64(bitPattern: start.position.hash)), .int8(Int64(bitPattern: start.indexVersion)),
                .int8(schema),
            ])
    }

    /// A statement of its own, so that it sees whether readers still use the generation, and no other one is
    /// being built: to replace it takes its lock.
    private static func move(_ database: DatabaseID, to result: Generation) -> Connection.Step {
        Connection.Step(
            """
            WITH moved AS (
                UPDATE mimeo_projection.generations g
                SET "offset" = $2, hash = $3, clock = $4, reap_floor = $5
                FROM mimeo_projection.databases d, mimeo_log.databases l
                WHERE g.number = $1::int4 AND d.id = $6 AND d.generation = g.number
                    AND d.building IS NULL
                    AND l.id = $6 AND l.log_id = $7 AND l.head = $2 AND l.hash = $3
                RETURNING 1
            )
            SELECT \(require("the log has moved on")) FROM moved
            """,
            [
                .int8(Int64(result.number)), .int8(Int64(bitPattern: result.position.offset.rawValue)),
                .int8(Int64(bitPattern: result.position.hash)), .int8(Int64(bitPattern: result.clock)),
                .int8(Int64(bitPattern: result.reapFloor.rawValue)), .text(database.text),
                .bytes(result.position.logID.bytes),
            ])
    }
}

extension ProjectionSnapshot {
    /// The fold of operations that are to be appended directly after this snapshot. Nil where a leader has to
    /// fold them: it builds another generation, a collection has no table yet, definitions of indexes change,
    /// an index would say less, a document is damaged, or they are many.
    /// - Parameter definitions: the collection of the definitions of indexes.
    func ride(
        of requests: [AppendRequest], definitions: CollectionName?, _ logger: Logger
    ) throws -> FoldRide? {
        guard case .open(let start) = stage, start.layout == Generation.currentLayout, !isBuilding,
            !requests.isEmpty
        else { return nil }
        do {
            var batch = FoldBatch(after: start)
            let outcomes = (1...requests.count).map {
                AppendOutcome.appended(offset: start.position.offset.advanced(by: $0))
            }
            for entry in LogEntry.added(by: requests, outcomes, after: start.position) {
                try batch.add(entry)
                guard !batch.isFull else { return nil }
            }
            let end = batch.result.position
            var numbers: [CollectionName: Int64] = [:]
            for name in batch.collections.keys {
                guard name != definitions, let number = try number(of: name) else { return nil }
                numbers[name] = number
            }
            let tables = CollectionTables(of: start, numbers, try columns(), connection)
            let reads = batch.reads(tables)
            if let known = readAhead(batch.keys) {
                batch.take(known)
            } else {
                batch.take(try pipeline(reads)[...])
            }
            try batch.fold(logger)
            var writes: [Connection.Step] = []
            let (losses, _) = try batch.write(tables) { writes.append($0) }
            guard losses.isEmpty, batch.result.position == end else { return nil }
            return FoldRide(database, from: start, in: schema, to: batch.result, writes)
        } catch is ProjectionError {
            // The fold from the log meets it again, and says where.
            return nil
        }
    }
}
