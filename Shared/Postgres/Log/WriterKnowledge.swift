import CRDT
import OperationLog

/// What a writer knows of a database from its own appends, good for as long as head and chain hash are what
/// it left: appends move them, and nothing else changes where an actor stands.
///
/// With it the server compares nothing and keeps no index up to date at each group: what a group changes in
/// the tables `actors` and `touched` waits in its operations' rows, whoever needs the tables settles first,
/// and the writer itself does when much waits. The first group of a connection knows nothing and has
/// everything settled, so what is unsettled below a known head is the writer's own.
struct WriterKnowledge {
    private struct Standing {
        let sequence: UInt64
        let authorKey: String
    }

    /// The database's number in the tables.
    let number: Int64
    /// The head as this writer left it.
    private(set) var head: UInt64
    /// The chain hash there.
    private(set) var hash: UInt64
    /// Whether somebody else had appended before this writer's last group: then asking first costs less than
    /// being refused.
    private(set) var isShared = false
    /// Operations, and what they touched, that wait to be settled.
    private var unsettled = 0
    private var actors: [ActorID: Standing] = [:]

    /// What is known after a group that the server settled.
    init(after plain: PlainAppend, from before: UInt64, hash: UInt64, number: Int64, former: UInt64?) {
        self.number = number
        self.hash = hash
        head = before + UInt64(plain.count)
        isShared = former.map { $0 != before } ?? false
        add(plain)
    }

    /// Whether what waits is to be settled before more does.
    var isFull: Bool { unsettled >= PostgresLimits.unsettledEntries }

    /// Whether an operation is its actor's next, under the actor's key; nil where that is not known.
    func fits(_ operation: PreparedOperation) -> Bool? {
        guard let standing = actors[operation.record.actor] else { return nil }
        return standing.sequence == operation.record.sequence - 1
            && utf8Equal(standing.authorKey, operation.authorKey)
    }

    /// Takes note of a group behind the head, up to this chain hash.
    mutating func take(_ plain: PlainAppend, hash: UInt64) {
        head += UInt64(plain.count)
        self.hash = hash
        unsettled += plain.entries
        add(plain)
    }

    /// Takes note that nothing was appended behind `head`, which is another one now, or there was no room.
    mutating func refuse(at head: UInt64) {
        // What was sent behind it is refused too.
        guard !isShared else { return }
        self.head = head
        isShared = true
    }

    /// Takes note that everything is settled.
    mutating func settle() { unsettled = 0 }

    private mutating func add(_ plain: PlainAppend) {
        for last in plain.lasts {
            actors[last.record.actor] = Standing(
                sequence: last.record.sequence, authorKey: last.authorKey)
        }
    }

    /// Whether more is known than should be kept.
    var isTooMuch: Bool { actors.count > PostgresLimits.knownActors }
}
