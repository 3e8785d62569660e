import CRDT
import DQL

/// A tentative write to a projection: a statement's writes stay in memory, over a snapshot.
public typealias ProjectionDraft = WriteDraft

extension ProjectionSnapshot: DraftBase {
    /// A chain of drafts on this snapshot.
    func chain(
        as actor: ActorID, sequence: SequenceNumber, wallMilliseconds: @escaping () -> UInt64
    ) throws -> DraftChain {
        DraftChain(
            on: self, as: actor, sequence: sequence, after: try clock(), wallMilliseconds: wallMilliseconds,
            refuse: Self.refusal)
    }

    /// A draft on this snapshot, whose errors are the projection's.
    func draft(
        as actor: ActorID, sequence: SequenceNumber, wallMilliseconds: UInt64
    ) throws -> ProjectionDraft {
        WriteDraft(
            on: self, as: actor, sequence: sequence, after: try clock(), wallMilliseconds: wallMilliseconds,
            refuse: Self.refusal)
    }

    /// Refuses an operation that names a collection without a table if the role may not make one: in the log
    /// it would hold up everything after it.
    /// - Throws: `PROJ-0205`.
    func checkTables(of operation: Operation) throws {
        var known: CollectionName?
        var isNew = false
        for change in operation.changes where change.collection != known {
            known = change.collection
            isNew = try table(change.collection) == nil
            if isNew { break }
        }
        guard isNew else { return }
        let schema = ProjectionNames.schema(generation)
        let rows = try query(
            """
            SELECT has_schema_privilege('\(schema)', 'CREATE'), CASE WHEN v.oid IS NULL
                THEN has_database_privilege(current_database(), 'CREATE')
                ELSE has_schema_privilege(v.oid, 'CREATE') END
            FROM mimeo_projection.databases d LEFT JOIN pg_namespace v ON v.nspname = d.view_schema
            WHERE d.generation = $1::int4
            """, [.int8(Int64(generation))])
        guard rows.count == 1, !rows.bool(0, 0) || !rows.bool(0, 1) else { return }
        throw ProjectionError(
            .rightMissing,
            "the role may not make the table of a new collection: it lacks CREATE on the schema "
                + (rows.bool(0, 0) ? "of the views, or on the database" : schema))
    }

    private static func refusal(_ refusal: DraftRefusal) -> any Error {
        switch refusal {
        case .collectionName(let bytes):
            ProjectionError(
                .invalidCollection,
                "a collection name has 1 to \(CRDT.Limits.collectionNameBytes) bytes, not \(bytes)")
        case .documentTooLarge(let reason): ProjectionError(.documentTooLarge, reason)
        case .transactionTooLarge(let reason): ProjectionError(.transactionTooLarge, reason)
        case .unreadable(let error):
            ProjectionError(.damaged, "a stored document cannot be read: \(error)")
        case .evict: ProjectionError(.storageFailed, "EVICT does not apply to a projection")
        }
    }
}
