/// The traps of the modules through which a client's frames, rows and timing go, one by one: the text of
/// each, and why no client reaches it. The order is the file's.
///
/// Events of a session are frames, answers and messages. `Session.dispatch` is the table of legal frames:
/// every other frame is an error of the other side, and no frame leads to an event of the other two kinds. A
/// driver answers each action once (`Session.mayReceive` says which answers may come); the fuzzer gives
/// frames and such answers in any order.
enum TrapLines {
    private static let answer = "an answer of the own driver, which the action was given to"
    private static let message = "a message between machines of a session, sent in the state that it needs"
    private static let machine = "dispatch looks for the machine, and answers come for its own actions"
    private static let invariant = "checkInvariants, which tests and fuzzers alone call"
    private static let pump = "the driver's own order; frames wait in the inbox"
    private static let sequence = "the caller counts from the log's frontier, and at least to 1"
    private static let state = "opening a store writes its state, or fails"
    private static let pipe = "settle reads what a failed caller left, and one caller has the connection"
    private static let group = "the committer finishes groups in the order in which it begins them"
    private static let leader = "the steps of one leader, in the order of its loop"
    private static let numbers = "the planner asks stores alone that number documents"

    /// By file.
    static let rows: [String: [(text: String, reason: String)]] = [
        "Shared/DittoSwift/Attachments/AttachmentFolder.swift": [
            (
                "a stored blob has an id and a length",
                "the id and length are those that the writer has just found"
            )
        ],
        "Shared/DittoSwift/Attachments/AttachmentKeeper.swift": [
            ("the table has a number of seconds", "ALTER SYSTEM refuses a value of another type")
        ],
        "Shared/DittoSwift/Diagnostics/DiskUsagePublisher.swift": [
            ("unavailable", "the declaration is unavailable: no caller compiles")
        ],
        "Shared/DittoSwift/Legacy/Base/LegacyContent.swift": [
            (
                "a document without an id is always written",
                "only a document with a given id can be there already"
            )
        ],
        "Shared/DittoSwift/Store/StoreSettings.swift": [
            ("is no parameter of this type:", "names and values are constants of the SDK")
        ],
        "Shared/Postgres/Connection/Connection.swift": [
            ("a pipeline would read the results of what was sent before", pipe),
            ("a pipeline would read the results of what was sent before", pipe),
            (
                "a statement cannot be prepared while results are to come",
                "each caller asks canSend, or prepares before"
            ),
        ],
        "Shared/Postgres/Connection/ParameterBuffer.swift": [
            ("there is always some memory", "at least one byte is allocated"),
            ("a parameter's size is not what was written", "the length and the bytes are made by one type"),
        ],
        "Shared/Postgres/Connection/Rows.swift": [
            (
                "is no int8",
                "the statement names the type; opening checks the schema, whose columns are NOT NULL"
            )
        ],
        "Shared/Postgres/Log/PostgresLogWriter.swift": [
            ("a caller that commits by itself has begun one group only", group),
            ("groups are finished in the order in which they were begun", group),
        ],
        "Shared/Postgres/Projection/CollectionTables.swift": [
            ("a collection without a table", "require made the table, in the same transaction")
        ],
        "Shared/Postgres/Projection/FoldBatch.swift": [
            ("the first entry has all its states", "the first entry's states are read whatever their size")
        ],
        "Shared/Postgres/Projection/ProjectionSession.swift": [
            ("only a leader folds", leader),
            ("nothing is being built", leader),
            ("nothing is being built", leader),
            ("nothing is being built", leader),
            ("there is nothing to switch to", leader),
        ],
        "Shared/Postgres/Projection/PushedReads.swift": [
            ("a join has two collections", "the translator makes pairs of a join alone")
        ],
        "Shared/Postgres/Projection/SnapshotIndexes.swift": [
            ("a scan is of an index that its snapshot has", "the plan was made on this snapshot"),
            ("documents in PostgreSQL have no numbers", numbers),
            ("documents in PostgreSQL have no numbers", numbers),
            ("documents in PostgreSQL have no numbers", numbers),
        ],
        "Shared/Replica/Index/IndexScanner.swift": [
            (
                "a scan is of an index that its snapshot has",
                "the plan was made in this transaction, from its indexes"
            )
        ],
        "Shared/Replica/Index/SpilledSort.swift": [
            ("this process wrote the value", "a file that has no name, written by this sort")
        ],
        "Shared/Replica/Materialization/Fold/Folder.swift": [
            (
                "only a reaping reaps, and only what is there",
                "the document reaps where the change is a reaping and it is there"
            )
        ],
        "Shared/Replica/Materialization/Fold/WriteChain.swift": [
            ("the sequences of a log begin at 1", sequence),
            ("a draft left no result", "the body gives a result, or the transaction throws"),
        ],
        "Shared/Replica/Materialization/Materialization.swift": [
            ("the sequences of a log begin at 1", sequence),
            ("an open store has a state", state),
            ("a draft left no result", "the body gives a result, or the transaction throws"),
            ("an open store has a state", state),
        ],
        "Shared/Replica/Peer/Feed/FeedIdentity.swift": [
            ("two words are sixteen bytes", "two words of 64 bits")
        ],
        "Shared/Replica/Peer/Feed/PeerFeed.swift": [
            ("a feed was made, and is not there", "begin makes it in the line before")
        ],
        "Shared/Replica/Peer/PeerReplica.swift": [
            (
                "a new actor cannot have written an evicted document",
                "the second attempt has an actor that has written nothing"
            ),
            ("a committed savepoint left no result", "the body gives a result, or the savepoint throws"),
        ],
        "Shared/Replica/Peer/Receiving/MergeTable.swift": [
            ("no row for", "MergeTableTests shows that each situation has a row")
        ],
        "Shared/Replica/Peer/Repair/Repairer.swift": [
            (
                "a staged state is there until its repair ends",
                "its number was read in the same transaction"
            ),
            ("an operation vanished in its transaction", "the position was read in the same transaction"),
        ],
        "Shared/Replica/Peer/Staging/Staging.swift": [
            ("a catch-up page holds no deltas", "FrameDecoding takes full states alone in a page")
        ],
        "Shared/Replica/StatementEnvironment.swift": [
            ("a UUID is a valid id", "a UUID is a text of 36 characters")
        ],
        "Shared/Replica/Store/Collections.swift": [
            ("a maximum is a row", "an aggregate without GROUP BY is one row")
        ],
        "Shared/Replica/Store/DocumentStore.swift": [
            ("a committed opening left no state", "the body sets it, or the transaction throws")
        ],
        "Shared/Replica/Transactions/PendingDocuments.swift": [
            ("nothing is edited after the end", "deltas are made by end, after which nobody edits")
        ],
        "Shared/Replica/Transactions/WriteTransaction.swift": [
            ("a committed savepoint left no result", "the body gives a result, or the savepoint throws")
        ],
        "Shared/Replica/Transactions/WrittenOperation.swift": [
            ("edits are encoded when their transaction ends", "end encodes all edits before"),
            ("edits are encoded when their transaction ends", "end encodes all edits before"),
        ],
        "Shared/Sync/Presence/PresenceGossip.swift": [
            ("a record was written", "publish writes it in the line before")
        ],
        "Shared/Sync/Session/Admitter/Admitter.swift": [
            ("no upload was answered; the admitter is", message),
            ("nothing was compared; the admitter is", answer),
            ("no states were admitted; the admitter is", answer),
            ("nothing was being appended; the admitter is", answer),
            ("nothing may wait; the admitter is", answer),
            ("no token was being checked; the admitter is", answer),
            ("an append whose end was not told on", invariant),
            ("actors are stopped", invariant),
            ("actors wait", invariant),
            ("uploads wait for nothing; the admitter is", invariant),
        ],
        "Shared/Sync/Session/Admitter/HoldingsTaker.swift": [
            ("no page was compared; it is", answer),
            ("no states were admitted; it is", answer),
            ("it goes with its last page", invariant),
            ("a page waits for nothing", invariant),
            ("it asks for nothing", invariant),
        ],
        "Shared/Sync/Session/FlowControl.swift": [
            ("a session opens once; it is", "each machine opens it in a phase that it leaves with that"),
            ("actions of the last event were not handed over", invariant),
            ("bytes that wait", invariant),
        ],
        "Shared/Sync/Session/Publisher/EchoFilter.swift": [
            ("each known document has its place in the order", invariant),
            ("versions are remembered", invariant),
        ],
        "Shared/Sync/Session/Publisher/Listing.swift": [
            ("no page of holdings was compared", answer)
        ],
        "Shared/Sync/Session/Publisher/Publisher.swift": [
            ("was not asked for; the publisher is", answer),
            ("no holdings are compared; the publisher is", answer),
            ("one page is read at a time", invariant),
            ("a subscription waits for a page that nobody reads", invariant),
        ],
        "Shared/Sync/Session/Publisher/StreamProgress.swift": [
            ("operations were not awaited; the stream is", answer),
            ("a position is due, and nothing holds it back", invariant),
        ],
        "Shared/Sync/Session/Queue.swift": [
            ("nothing leaves an empty queue", "each caller has looked at the queue"),
            ("nothing leaves an empty queue", "each caller has looked at the queue"),
            (
                "what is behind the head is there",
                "removeFirst alone empties a slot, and moves the head behind it"
            ),
        ],
        "Shared/Sync/Session/Reader/AskedSubscriptions.swift": [
            ("no holdings were being read", answer),
            ("a key is subscribed once", invariant),
            ("an id is given once", invariant),
        ],
        "Shared/Sync/Session/Reader/FetchQueue.swift": [
            ("no versions were asked for; the request is", answer),
            ("documents at once", invariant),
            ("a document is stale that was not asked for", invariant),
            ("documents for the store, each once", invariant),
        ],
        "Shared/Sync/Session/Reader/Reader.swift": [
            ("the exchange has begun; the reader is", message),
            ("is no message", message),
            (
                "subscriptions are not asked for yet; the reader is",
                "a subscription is announced once the exchange has begun"
            ),
            ("no candidates were looked up; the reader is", answer),
            ("nothing was being stored; the reader is", answer),
            ("a store that wants nothing", "the store wants something, or answers .stored"),
            ("there is nothing to store", "each caller has looked at the queue"),
            ("a list is begun, not stored", "a list is taken out of the queue before"),
            ("nothing was being stored; the reader is", answer),
            (", and there is nothing to store", invariant),
            ("waits for nothing", invariant),
            ("work waits, and nothing is under way", invariant),
        ],
        "Shared/Sync/Session/Reader/StreamQueue.swift": [
            (
                "the stream is lent to one repair at a time",
                "a repair borrows once, and takeBack follows (RepairCase)"
            )
        ],
        "Shared/Sync/Session/Session.swift": [
            ("is handled elsewhere", "the switch before takes every other event"),
            ("this session reads nothing", machine),
            ("this session writes nothing", machine),
            ("this session publishes nothing", machine),
            ("this session admits nothing", machine),
            ("a session is opened once; it is", "the driver opens a session as its first event"),
            ("own actors were not asked for; the session is", answer),
            ("no frontier was asked for; the session is", answer),
            ("nobody was met; the session is", answer),
        ],
        "Shared/Sync/Session/StateAnswers.swift": [
            ("no states were being read", answer),
            ("states were read for nobody", "a want is removed with the last state that answers it"),
            ("documents that the other side wants wait", invariant),
            ("wants wait, and nobody reads", invariant),
        ],
        "Shared/Sync/Session/Writer/DeferredOperations.swift": [
            ("no bases were asked for", answer)
        ],
        "Shared/Sync/Session/Writer/HoldingsGiver.swift": [
            ("no holdings were being read", answer)
        ],
        "Shared/Sync/Session/Writer/LinkGiving.swift": [
            ("nothing that links brought was read", answer)
        ],
        "Shared/Sync/Session/Writer/OwnActors.swift": [
            ("is acknowledged further than sent", invariant),
            ("an actor is pending once", invariant),
        ],
        "Shared/Sync/Session/Writer/RepairCase.swift": [
            ("nothing waits to be repaired; the repair is", message),
            ("the stream was not borrowed; the repair is", message),
            ("nothing was decided; the repair is", answer),
            ("no states were asked for; the repair is", answer),
            ("nothing was being staged; the repair is", answer),
            ("nothing was repaired; the repair is", answer),
        ],
        "Shared/Sync/Session/Writer/Writer.swift": [
            ("no history was compared; the writer is", answer),
            ("a repair that needs nothing", "the store names documents, or answers .repaired"),
            ("is no message", message),
            ("nothing was noted; the writer is", answer),
            ("no holdings were read; the writer is", answer),
            ("no operations were being read; the writer is", answer),
            ("the grant forbids what rests on operations that are not answered", invariant),
        ],
        "Shared/Sync/Wire/FrameEncoding.swift": [
            ("every other frame is encoded above", "the switch before encodes every other frame")
        ],
        "Shared/Transport/Discovery/BeaconSocket.swift": [
            ("a group is an address of IPv4 or IPv6", "the groups are constants")
        ],
        "Shared/Transport/Driver/PeerStore.swift": [
            ("a peer's session asks for nothing else", "a session with a server has these actions alone"),
            (
                "a subscription's arguments are an object",
                "the peer's own subscription, whose arguments its store took as an object"
            ),
        ],
        "Shared/Transport/Driver/PumpMachine.swift": [
            ("a pump runs one session; it is", pump),
            ("a frame is put back while the pump is", pump),
            ("an event is taken while the pump is", pump),
            ("a run ends while the pump is", pump),
            ("a session ends while its pump is", pump),
        ],
        "Shared/Transport/Mesh/MeshFeed.swift": [
            ("a feed that has begun has a head", "begin wrote the head in the line before")
        ],
        "Shared/Transport/Mesh/MeshStore.swift": [
            (
                "nothing is stored before the other side has greeted",
                "the session asks for nothing before the greeting, which names the feed"
            ),
            (
                "a session of two small peers asks for nothing else",
                "a session of two small peers has these actions alone"
            ),
            (
                "a subscription's arguments are an object",
                "the peer's own subscription, whose arguments its store took as an object"
            ),
        ],
    ]
}
