import CRDT
import DQL
import Exchange
import GRDB

extension Replica {
    /// Stores a server message, all or nothing. Throws CRDT errors for bytes that do not decode: nothing is
    /// stored then.
    public func receive(_ reception: Reception) throws -> ReceptionOutcome {
        precondition(role == .peer, "a materialization changes by folding its log only")
        return try committing { database, state in
            for own in reception.acknowledges {
                for key in try unsubscribed(own.actor, through: own.through, database) {
                    try Unanswered.note(key, own.offset, database)
                }
                try OwnOperations.forget(own.actor, through: own.through, state.actor, database)
            }
            var merger = Merger(database: database, state: state, liveQueries: liveQueries)
            try take(reception, &merger, database)
            guard merger.missing.isEmpty else {
                for key in merger.missing { try Wanted.note(key, database) }
                return (.wanting(merger.missing), nil)
            }
            state = merger.state
            let outcome =
                merger.returning.isEmpty
                ? ReceptionOutcome.stored : .returning(Array(merger.returning))
            guard !merger.changed.isEmpty || !merger.wanted.isEmpty else { return (outcome, nil) }
            state.head += 1
            let commit = Commit(
                number: state.head, documents: merger.changed, actor: nil, wanted: merger.wanted)
            return (outcome, commit)
        }
    }
}

extension Replica {
    /// Merges a reception and moves what it moves; nothing of that where the merger misses a base.
    func take(_ reception: Reception, _ merger: inout Merger, _ database: Database) throws {
        try database.inPart {
            if let key = reception.publishes { try merger.mergeStaged(key) }
            let answered = Set(reception.settles)
            if let position = reception.answeredAt {
                let seen = try Seen.position(database)
                merger.areAnswersLatest =
                    seen?.logID == position.logID && seen?.offset ?? 0 <= position.offset
            }
            for update in reception.updates {
                if answered.contains(update.key) {
                    try merger.mergeAnswer(update, presumesHeld: reception.presumesHeld)
                } else {
                    try merger.merge(update, presumesHeld: reception.presumesHeld)
                }
            }
            try merger.forgetTold()
            guard merger.missing.isEmpty else { return false }
            if !reception.hides.isEmpty { try Cursors.forgetAll(but: liveKeys, database) }
            try merger.hide(reception.hides)
            // An answer may be older than what was written here before its document was evicted.
            for key in reception.settles where !merger.isStale.contains(key) {
                try Wanted.settle(key, database)
            }
            for cursor in reception.cursors where keepsCursor(of: cursor.key) {
                let replaces = cursor.key == reception.publishes
                try Cursors.advance(
                    cursor.key, to: cursor.position, replaces: replaces,
                    rights: replaces ? reception.rights ?? [] : nil, database)
            }
            for key in reception.distrusts { try Cursors.distrust(key, database) }
            if let position = reception.seen { try Seen.note(position, replaces: false, database) }
            if let offset = reception.streamed { try Unanswered.settle(through: offset, database) }
            return true
        }
    }
}

/// Merges what others wrote into the documents tables, within one transaction.
struct Merger {
    let database: Database
    var state: StoreState
    private var collections = Collections()
    /// Documents whose stored state changed.
    private(set) var changed: [DocumentKey] = []
    /// Documents with a delta whose base is not covered, each once.
    private(set) var missing: [DocumentKey] = []
    private var isMissing: Set<DocumentKey> = []
    /// Documents that are gone, with own writes that the server does not have. They are asked for too: those
    /// may be acknowledged before a repair begins, or in a later session, and then it has nothing to move.
    private(set) var returning: Set<DocumentKey> = []
    /// Documents of which the server's present state is asked for.
    private(set) var wanted: [DocumentKey] = []
    /// Those of them that have come without what was written to them here, or in an older state than was
    /// here.
    private(set) var isStale: Set<DocumentKey> = []
    /// Whether nothing that came before the answers can be later than they are.
    var areAnswersLatest = false
    /// What is gone of documents, until their states come behind it.
    private var told: [DocumentKey: [UInt8]] = [:]
    private var toldOrder: [DocumentKey] = []
    /// The documents of own writes that the server does not have; read when it matters.
    private var pending: Set<DocumentKey>?
    /// Whether any evicted document is remembered; nil until it is asked.
    private var hasEvictions: Bool?

    /// What is subscribed to: what is held of it the server follows, or lists.
    private let liveQueries: [SubscriptionQuery]
    /// The subscription whose catch-up is published.
    private var published: [UInt8]?

    init(database: Database, state: StoreState, liveQueries: [SubscriptionQuery] = []) {
        self.database = database
        self.state = state
        self.liveQueries = liveQueries
    }

    mutating func mergeStaged(_ subscription: [UInt8]) throws {
        published = subscription
        try publish(subscription)
        try StagedPages.visit(subscription, database) { entry in
            if entry.isGone {
                tell(entry.key, [UInt8](entry.content))
            } else if let gone = told.removeValue(forKey: entry.key) {
                try replace(entry, under: gone)
            } else {
                try mergeStaged(entry)
            }
        }
        try forgetTold(isListed: true)
        try Staged.discard(subscription, database)
    }

    /// What the server was asked for: the state of a document comes behind what is gone of it.
    mutating func mergeAnswer(_ update: DocumentUpdate, presumesHeld: Bool) throws {
        switch update.content {
        case .gone(let vector): tell(update.key, vector)
        case .state(let bytes):
            guard let gone = told.removeValue(forKey: update.key) else {
                return try merge(update, isAnswer: true)
            }
            if let latest = try Document(decoding: bytes).vector.greatestTime { try state.observe(latest) }
            try bytes.withUnsafeBytes {
                let entry = StagedPages.Entry(key: update.key, content: $0, isGone: false)
                try replace(entry, under: gone)
            }
        case .delta: try merge(update, presumesHeld: presumesHeld)
        }
    }

    private mutating func tell(_ key: DocumentKey, _ vector: [UInt8]) {
        if told.updateValue(vector, forKey: key) == nil { toldOrder.append(key) }
    }

    /// Drops what is gone of documents of which no state came behind it. `isListed` says that it answers what
    /// was held when a list was made, not what is held now.
    mutating func forgetTold(isListed: Bool = false) throws {
        for key in toldOrder {
            if let vector = told[key] { try forget(key, vector, isListed: isListed) }
        }
        told = [:]
        toldOrder = []
    }

    /// The server's state of a document of which something was told that it will never have, a refused write
    /// or what a restored log has lost. Where the document has not moved on since it was told of, the state
    /// takes its place. Where it has, by what the server sent in the meantime, the state is older: it is
    /// merged if the rest is not here any more; else only the whole document undoes that, so it is wanted.
    private mutating func replace(_ entry: StagedPages.Entry, under told: [UInt8]) throws {
        let told = try VersionVector(decoding: told)
        guard let table = try collections.number(of: entry.key.collection, database),
            let stored = try DocumentRows.state(table, entry.key.id, database)
        else { return try mergeStaged(entry) }
        let held = try stored.withUnsafeBytes { try DocumentReader($0).vector() }
        let known = try DocumentReader(entry.content).vector()
        let isHere = held.entries.contains { item in
            item.time > known[item.actor] ?? 0 && item.time <= told[item.actor] ?? 0
        }
        let withheld = try Withheld.actors(of: entry.key.collection, database)
        let isCovered = told.covers(held.without(withheld))
        if try pendingKeys().contains(entry.key) {
            try awaitRepair(entry.key)
        } else if isHere || isCovered {
            try drop(entry.key, table, held)
            if !isCovered { try askAnew(entry.key) }
            let document = try Document(decoding: stored)
            try keepWithheld(withheld, of: document, entry.key, table)
        }
        try mergeStaged(entry)
    }

    /// Shows again what nobody else knows of a document that was dropped.
    private mutating func keepWithheld(
        _ actors: Set<ActorID>, of document: Document, _ key: DocumentKey, _ table: DocumentTable
    ) throws {
        guard document.vector.entries.contains(where: { actors.contains($0.actor) }) else { return }
        let own = try Withheld.operations(of: key.collection, database).flatMap { item in
            let operation = try Operation(decoding: item.bytes)
            return try operation.changes.filter { $0.id == key.id }.map {
                try Delta(decoding: $0.delta, stamp: operation.stamp)
            }
        }
        let kept = document.only(of: actors, replaying: own)
        try DocumentRows.put(
            table, key.id, live: kept.isLive, position: state.head + 1, state: kept.encoded(), database)
    }

    private mutating func awaitRepair(_ key: DocumentKey) throws {
        guard returning.insert(key).inserted else { return }
        try askAnew(key)
    }

    /// Asks for a document of which what has come is not the last word.
    private mutating func askAnew(_ key: DocumentKey) throws {
        try Wanted.note(key, database)
        wanted.append(key)
        isStale.insert(key)
    }

    /// Shows what is staged where it will stay. Only where the collection has got documents, or an index, in
    /// the meantime is it merged with them, one by one.
    private mutating func publish(_ subscription: [UInt8]) throws {
        guard let staged = try StagedDocuments.find(subscription, database) else { return }
        if try staged.become(database) {
            collections.forget(staged.collection)
            changed += try staged.ids(database).map {
                DocumentKey(collection: staged.collection, id: $0)
            }
            try askForEvicted(of: staged.collection)
        } else {
            try staged.visit(database) { id, state in
                let key = DocumentKey(collection: staged.collection, id: id)
                try mergeStaged(StagedPages.Entry(key: key, content: state, isGone: false))
            }
        }
        try StagedDocuments.discard(subscription, database)
    }

    /// What is staged was decoded whole when it was.
    private mutating func mergeStaged(_ entry: StagedPages.Entry) throws {
        let table = try collections.requireNumber(of: entry.key.collection, database)
        let bytes = EncodedState([UInt8](entry.content))
        guard try DocumentRows.isLive(table, entry.key.id, database) == nil else {
            return try merge(DocumentUpdate(key: entry.key, content: .state(bytes)))
        }
        let document = try DocumentReader(entry.content)
        guard try !document.vector().isEmpty else { return }
        try DocumentRows.put(
            table, entry.key.id, live: document.isLive, position: state.head + 1, state: bytes, isNew: true,
            database)
        changed.append(entry.key)
        try askIfEvicted(entry.key, bytes)
    }

    /// A document that was not here has come. Its own writes are not sent to a store, so one that it has
    /// evicted, and that comes without them, is asked for: by then the server has them.
    private mutating func askIfEvicted(_ key: DocumentKey, _ state: EncodedState) throws {
        if hasEvictions == nil { hasEvictions = try Evicted.holdsAny(database) }
        guard hasEvictions == true else { return }
        let vector = try state.withUnsafeBytes { try DocumentReader($0).vector() }
        if try Evicted.isMissing(from: vector, of: key, database) { try askAnew(key) }
    }

    /// A state does not say what is gone. Where it lacks something that is shown here, and that nobody has
    /// told of what became of it because it matched nothing here, the document may have been deleted and
    /// reaped meanwhile, and written again (rule 14): the server is asked. It need not be where own writes to
    /// it are pending and all that is lacking is this actor's.
    private mutating func askIfLacking(
        _ incoming: Document, _ key: DocumentKey, _ document: Document, _ stored: EncodedState
    ) throws {
        let lacking = document.vector.entries.filter {
            !incoming.vector.covers(Stamp(time: $0.time, actor: $0.actor))
        }
        // A deletion may be what is gone: a restored log has lost it.
        guard document.isLive || incoming.isLive, !lacking.isEmpty else { return }
        let withheld = try Withheld.actors(of: key.collection, database)
        if lacking.allSatisfy({ withheld.contains($0.actor) }) { return }
        let isFollowed = try stored.withUnsafeBytes { try liveQueries.match(key, try DocumentReader($0)) }
        guard !document.isLive || !isFollowed else { return }
        if lacking.allSatisfy({ $0.actor == state.actor }), try pendingKeys().contains(key) { return }
        try Wanted.note(key, database)
        wanted.append(key)
    }

    /// Whether a document as it is here matches another subscription than the one that is published.
    private func isOfAnother(_ key: DocumentKey, _ document: DocumentReader) throws -> Bool {
        guard let published else { return false }
        return try liveQueries.filter { $0.canonicalKey != published }.match(key, document)
    }

    /// As `askIfEvicted`, for a collection of which nothing was here.
    private mutating func askForEvicted(of collection: CollectionName) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        for id in try Evicted.documents(of: collection, database) {
            guard let state = try DocumentRows.state(table, id, database) else { continue }
            try askIfEvicted(DocumentKey(collection: collection, id: id), state)
        }
    }

    /// Drops documents that may not be read here any more. What was written here is still uploaded; but the
    /// actor does not write them again (rule 10).
    mutating func hide(_ keys: [DocumentKey]) throws {
        for key in keys {
            guard let table = try collections.number(of: key.collection, database),
                let bytes = try DocumentRows.state(table, key.id, database)
            else { continue }
            try drop(key, table, try bytes.withUnsafeBytes { try DocumentReader($0).vector() })
        }
    }

    private mutating func drop(_ key: DocumentKey, _ table: DocumentTable, _ vector: VersionVector) throws {
        try leave(key, vector)
        try DocumentRows.remove(table, key.id, database)
        changed.append(key)
    }

    /// The actors that write here now do not write again a document that was theirs (rule 10).
    private func leave(_ key: DocumentKey, _ vector: VersionVector) throws {
        if vector[state.actor] != nil { try Evicted.note(key, state.actor, database) }
        try Withheld.leaveActor(of: key.collection, database)
    }

    /// Whatever the vector covers is gone at the server, the tombstone too. A document with own writes that
    /// the server does not have waits for the repair that moves them.
    private mutating func forget(_ key: DocumentKey, _ vector: [UInt8], isListed: Bool = false) throws {
        guard let table = try collections.number(of: key.collection, database),
            let stored = try DocumentRows.state(table, key.id, database)
        else { return }
        let document = try Document(decoding: stored)
        // What was told of and is not here was withdrawn since (a refused write): nobody has it, so no vector
        // may say that it was seen. Seeds are remembered.
        let frontier = VersionVector(
            try VersionVector(decoding: vector).entries.compactMap { entry in
                guard entry.time > 0 else { return entry }
                return document.vector[entry.actor].map {
                    VersionVector.Entry(actor: entry.actor, time: min($0, entry.time))
                }
            })
        guard try !pendingKeys().contains(key) else { return try awaitRepair(key) }
        let isCovered = frontier.covers(document.vector)
        let rest =
            isCovered ? Document(restOf: frontier) : document.gone(frontier: frontier, replaying: [])
        guard rest != document else { return }
        // The vector names the server's own state too, which a list does not bring where it does not match:
        // what has come since rests on that. What is gone of the document as it is now is asked for.
        if isListed, !isCovered { return try askAnew(key) }
        // A list tells of what was held when it was asked for. What has come since, and another subscription
        // has been told of, may go with it: that one says nothing more of it.
        if document.isLive, try stored.withUnsafeBytes({ try isOfAnother(key, try DocumentReader($0)) }) {
            try askAnew(key)
        }
        guard let rest else { return try drop(key, table, document.vector) }
        try leave(key, document.vector)
        try DocumentRows.put(
            table, key.id, live: rest.isLive, position: state.head + 1, state: rest.encoded(), database)
        changed.append(key)
    }

    private mutating func pendingKeys() throws -> Set<DocumentKey> {
        if let pending { return pending }
        var keys: Set<DocumentKey> = []
        let statement = try RawStatement(
            fresh: "SELECT \(StoredOperation.columns) FROM operation", database)
        while try statement.step() {
            let bytes = try StoredOperation(statement).whole(database)
            for change in try Operation(decoding: bytes).changes {
                keys.insert(DocumentKey(collection: change.collection, id: change.id))
            }
        }
        pending = keys
        return keys
    }

    /// - Parameter isAnswer: whether the server was asked for it, and has told what is gone.
    mutating func merge(
        _ update: DocumentUpdate, presumesHeld: Bool = false, isAnswer: Bool = false
    ) throws {
        if case .gone(let vector) = update.content { return try forget(update.key, vector) }
        let table = try collections.requireNumber(of: update.key.collection, database)
        // Mostly a state is of a document that is not here: then nothing is looked up before.
        if case .state(let bytes) = update.content, let stamp = Insertion.stamp(ofState: bytes),
            try DocumentRows.add(
                table, update.key.id, position: state.head + 1, state: bytes, database) != nil
        {
            try state.observe(stamp.time)
            changed.append(update.key)
            return try askIfEvicted(update.key, bytes)
        }
        let stored = try DocumentRows.state(table, update.key.id, database)
        if stored == nil, case .state(let bytes) = update.content {
            return try insert(bytes, update.key, table)
        }
        var document = try stored.map { try Document(decoding: $0) } ?? Document()
        switch update.content {
        case .state(let bytes):
            let incoming = try Document(decoding: bytes)
            let isKnown = document.vector.covers(incoming.vector)
            // A living document that is deleted here: it is from before that, or a restored log has lost it.
            let isAlive = isKnown && incoming.isLive && !document.isLive
            if !isKnown || isAlive, !isAnswer, let stored {
                try askIfLacking(incoming, update.key, document, stored)
            }
            if isKnown, !incoming.vector.holdsSeed { return }
            let before = document
            document.merge(incoming)
            if incoming.vector.holdsSeed,
                try hasLost(incoming, document, before, update.key, isOld: isAnswer && !areAnswersLatest)
            {
                if isAnswer, areAnswersLatest, document.vector == incoming.vector {
                    document = incoming
                } else {
                    try askAnew(update.key)
                }
            }
            // A seed that was reaped elsewhere is gone here too, though no vector says so (rule 7).
            if isKnown, document == before { return }
        case .delta(let stamp, let bytes):
            // What was evicted unnoticed is not here, and a delta that rests on nothing would be all of it.
            let delta = try Delta(decoding: bytes, stamp: stamp)
            switch stored == nil && presumesHeld ? .baseMissing : document.apply(delta) {
            case .applied: break
            case .duplicate: return
            case .baseMissing:
                if isMissing.insert(update.key).inserted { missing.append(update.key) }
                return
            }
        case .gone: return
        }
        if let latest = document.vector.greatestTime { try state.observe(latest) }
        try DocumentRows.put(
            table, update.key.id, live: document.isLive, position: state.head + 1, state: document.encoded(),
            database)
        changed.append(update.key)
    }

    /// Whether seeds that the server shows are gone here, and nothing here says why: what came is from before
    /// they were reaped, or a restored log has lost that. What the server says when it is asked counts.
    /// - Parameter isOld: whether it is an answer that is from before something else that came.
    private mutating func hasLost(
        _ incoming: Document, _ document: Document, _ before: Document, _ key: DocumentKey, isOld: Bool
    ) throws -> Bool {
        if document.vector == incoming.vector { return document != incoming }
        guard document.hasLostSeeds, !incoming.hasLostSeeds else { return false }
        if isOld { return true }
        // Own writes onto what is left of them, which the server does not have yet.
        guard try pendingKeys().contains(key) else { return false }
        let own = try OwnOperations.actors(database).union([state.actor])
        return before.vector.entries.allSatisfy {
            own.contains($0.actor) || incoming.vector.covers(Stamp(time: $0.time, actor: $0.actor))
        }
    }

    /// A document that is not here becomes what came: bytes that decode encode to themselves.
    private mutating func insert(_ bytes: EncodedState, _ key: DocumentKey, _ table: DocumentTable) throws {
        var isLive = true
        if let stamp = Insertion.stamp(ofState: bytes) {
            try state.observe(stamp.time)
        } else {
            let document = try Document(decoding: bytes)
            guard let latest = document.vector.greatestTime else { return }
            try state.observe(latest)
            isLive = document.isLive
        }
        try DocumentRows.put(
            table, key.id, live: isLive, position: state.head + 1, state: bytes, isNew: true,
            database)
        changed.append(key)
        try askIfEvicted(key, bytes)
    }
}

extension [SubscriptionQuery] {
    /// Whether a document matches one of them.
    func match(_ key: DocumentKey, _ document: DocumentReader) throws -> Bool {
        let record = DocumentRecord(id: key.id, document: document)
        return try contains { try $0.collection == key.collection && $0.matches(record) }
    }
}
