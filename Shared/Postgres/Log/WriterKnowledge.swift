import CRDT
import OperationLog

/// What a writer knows of a database from its own appends, good for as long as the head is where it left it:
/// appends move the head, and nothing else changes where an actor stands.
///
/// With it the server compares nothing and keeps no index up to date at each group: what a group changes in
/// the tables `actors` and `touched` waits in one row of `unsettled`, whoever needs the tables settles first,
/// and at the latest the writer does after some groups. The first group of a connection knows nothing and has
/// everything settled, so what is unsettled below a known head is the writer's own.
struct WriterKnowledge {
    private struct Standing {
        let sequence: UInt64
        let authorKey: String
    }

    /// The head as this writer left it.
    private(set) var head: UInt64
    private var actors: [ActorID: Standing] = [:]
    private var unsettledGroups = 0
    private var unsettledOperations = 0

    /// What is known after a writer's first group.
    init(after plain: PlainAppend, from before: UInt64) {
        head = before
        add(plain)
    }

    /// Where the next group is to wait; 0 when everything is to be settled before.
    var slot: Int {
        unsettledGroups < PostgresLimits.unsettledGroups
            && unsettledOperations < PostgresLimits.unsettledOperations ? unsettledGroups : 0
    }

    /// Whether an operation is its actor's next, under the actor's key; nil where that is not known.
    func fits(_ operation: PreparedOperation) -> Bool? {
        guard let standing = actors[operation.record.actor] else { return nil }
        return standing.sequence == operation.record.sequence - 1
            && utf8Equal(standing.authorKey, operation.authorKey)
    }

    /// Takes note of a group that was appended behind `before`.
    mutating func take(_ plain: PlainAppend, from before: UInt64) {
        if before != head || slot == 0 { (unsettledGroups, unsettledOperations) = (0, 0) }
        if before != head { actors = [:] }
        head = before
        add(plain)
    }

    private mutating func add(_ plain: PlainAppend) {
        head += UInt64(plain.count)
        unsettledGroups += 1
        unsettledOperations += plain.count
        for last in plain.lasts {
            actors[last.record.actor] = Standing(
                sequence: last.record.sequence, authorKey: last.authorKey)
        }
    }

    /// Whether more is known than should be kept.
    var isTooMuch: Bool { actors.count > PostgresLimits.knownActors }
}
