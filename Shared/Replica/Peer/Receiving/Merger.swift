import CRDT
import DQL
import Exchange
import GRDB

/// Takes what a server sent into the documents, within one transaction: each update goes to the part that
/// decides about it.
///
/// `StateMerge` merges states and deltas, `PurgeNotices` keeps purges until the states after them have come,
/// `Refetch` says what must be asked for. Here is what concerns several of them: a purge is applied, a staged
/// catch-up is shown, a right was revoked.
struct Merger {
    private let database: Database
    private var merging: StateMerge
    private var notices = PurgeNotices()
    /// The subscription whose catch-up is published.
    private var published: [UInt8]?
    /// False for what a link brings.
    private let hasAuthority: Bool
    /// Documents of which the server has told void stamps, and no state after them.
    private var voided: Set<DocumentKey> = []
    /// Void stamps that a link tells before what is left: of documents of which nothing is here, or which
    /// they would taint. Without a state after them they do not count.
    private var early: [DocumentKey: VersionVector] = [:]

    /// `hasAuthority`: what comes is from the server, which is asked about the rest. `milliseconds`: the wall
    /// clock, for notes. `tellings`: the link's session.
    init(
        database: Database, state: StoreState, liveQueries: [SubscriptionQuery] = [],
        hasAuthority: Bool = true, recorder: ChangeRecorder? = nil, milliseconds: UInt64 = 0,
        tellings: NoteTellings? = nil
    ) {
        self.database = database
        self.hasAuthority = hasAuthority
        merging = StateMerge(
            documents: DocumentChanges(database: database, state: state, recorder: recorder),
            refetch: Refetch(
                database: database, actor: state.actor, liveQueries: liveQueries, asks: hasAuthority),
            notes: NoteBook(
                database: database, recorder: recorder, milliseconds: milliseconds, tellings: tellings))
    }

    /// The store's state with everything observed.
    var state: StoreState { merging.documents.state }
    /// Documents whose stored state changed.
    var changed: [DocumentKey] { merging.documents.changed }
    /// Documents with a delta whose base is not covered, each once.
    var missing: [DocumentKey] { merging.refetch.missing }
    /// See `NoteBook.toldAgain`.
    var toldAgain: Set<DocumentKey> { merging.notes.toldAgain }
    /// See `Refetch.returning`.
    var returning: Set<DocumentKey> { merging.refetch.returning }
    /// Documents of which the server's present state is asked for.
    var wanted: [DocumentKey] { merging.refetch.wanted }
    /// True if nothing that came before the answers can be later than they are.
    var areAnswersLatest: Bool {
        get { merging.areAnswersLatest }
        set { merging.areAnswersLatest = newValue }
    }

    /// Returns whether a document is wanted although a state of it has come.
    func isStale(_ key: DocumentKey) -> Bool { merging.refetch.isStale(key) }

    // MARK: What comes

    /// Takes an update of the stream or of a page.
    mutating func merge(_ update: DocumentUpdate, presumesHeld: Bool = false) throws {
        switch update.content {
        case .gone(let vector): try purge(update.key, vector)
        case .void(let vector): try void(update.key, vector)
        case .state(let bytes):
            try learnLate(update.key, bytes.withUnsafeBytes { try DocumentReader($0).vector() })
            try merging.merge(bytes, of: update.key)
            try learnEarly(update.key)
        case .delta(let stamp, let bytes):
            try merging.apply(
                bytes, at: stamp, to: update.key, StateMerge.Origin(presumesHeld: presumesHeld))
        }
    }

    /// Takes a part of an answer: a document's state comes after what is purged of it.
    mutating func mergeAnswer(_ update: DocumentUpdate, presumesHeld: Bool) throws {
        switch update.content {
        case .gone(let vector): notices.note(update.key, vector)
        case .void(let vector): try void(update.key, vector)
        case .state(let bytes):
            // A tainted document that the server does not confirm is not void.
            try learnLate(update.key, bytes.withUnsafeBytes { try DocumentReader($0).vector() })
            let isConfirmed = voided.remove(update.key) != nil
            if hasAuthority, !isConfirmed, try merging.isTainted(update.key) {
                try merging.learn(VersionVector(), of: update.key, isAuthority: true)
            }
            guard let purged = notices.take(update.key) else {
                try merging.merge(bytes, of: update.key, StateMerge.Origin(isAnswer: true))
                return try learnEarly(update.key)
            }
            if let latest = try Document(decoding: bytes).vector.greatestTime {
                try merging.documents.observe(latest)
            }
            try bytes.withUnsafeBytes { try replace(update.key, by: $0, under: purged) }
            try learnEarly(update.key)
        case .delta: try merge(update, presumesHeld: presumesHeld)
        }
    }

    /// Applies the purges after which no state came. `isListed` says that they answer what was held when a
    /// list was made, not what is held now.
    mutating func purgeNoticed(isListed: Bool = false) throws {
        // The server has nothing of these beside what is void.
        for key in voided where try merging.isTainted(key) { try merging.replace(key, by: Document()) }
        voided = []
        // (The server's word leads to a repair, which moves them.)
        if !hasAuthority { for key in Set(merging.documents.changed) { try merging.applyOwnAgain(to: key) } }
        for notice in notices.takeRest() { try purge(notice.key, notice.vector, isListed: isListed) }
    }

    /// Void stamps of a document are told, and maybe a clean state after them.
    private mutating func void(_ key: DocumentKey, _ vector: [UInt8]) throws {
        let told = try VersionVector(decoding: vector)
        guard !hasAuthority else {
            try merging.learn(told, of: key, isAuthority: true)
            voided.insert(key)
            return
        }
        try merging.leaveVoided(key, told)
        if try merging.hasNothing(of: key) || merging.isTainted(key, by: told) { return early[key] = told }
        try merging.learn(told, of: key, isAuthority: false)
    }

    /// A state has come after what a link says is void of a document that is here: it takes its place, if it
    /// is clean itself, of everything that is then known to be void.
    private mutating func learnLate(
        _ key: DocumentKey, _ left: @autoclosure () throws -> VersionVector
    ) throws {
        guard !early.isEmpty, let told = early[key], try !merging.hasNothing(of: key) else { return }
        early[key] = nil
        guard try !merging.wouldTaint(left(), of: key, told) else { return }
        try merging.learn(told, of: key, isAuthority: false)
    }

    /// A state has come after what a link said is void of a document of which nothing was here. With a state
    /// that is not clean, the word does not count.
    private mutating func learnEarly(_ key: DocumentKey) throws {
        guard let told = early.removeValue(forKey: key), try !merging.isTainted(key, by: told) else {
            return
        }
        try merging.learn(told, of: key, isAuthority: false)
    }

    /// Drops documents that may not be read here any more. What was written here is still uploaded; but the
    /// actor does not write them again (rule 10).
    mutating func hide(_ keys: [DocumentKey]) throws {
        for key in keys {
            guard let (table, bytes) = try merging.documents.stored(key) else { continue }
            let vector = try bytes.withUnsafeBytes { try DocumentReader($0).vector() }
            try merging.documents.drop(key, table, vector)
        }
    }

    // MARK: Staged catch-ups

    /// Shows everything that is staged for a subscription.
    mutating func publish(_ subscription: [UInt8]) throws {
        published = subscription
        try showDocuments(of: subscription)
        try StagedPages.visit(subscription, database) { entry in
            if !entry.isVoid, !entry.isGone {
                try learnLate(entry.key, DocumentReader(entry.content).vector())
            }
            if entry.isVoid {
                try void(entry.key, [UInt8](entry.content))
            } else if entry.isGone {
                notices.note(entry.key, [UInt8](entry.content))
            } else if voided.remove(entry.key) != nil, try merging.isTainted(entry.key) {
                try merging.mergeStaged(entry.content, of: entry.key)
            } else if let purged = notices.take(entry.key) {
                try replace(entry.key, by: entry.content, under: purged)
            } else {
                try merging.mergeStaged(entry.content, of: entry.key)
            }
            if !entry.isVoid, !entry.isGone { try learnEarly(entry.key) }
        }
        try purgeNoticed(isListed: true)
        try Staged.discard(subscription, database)
    }

    /// Shows staged documents where they will stay. Only where the collection has got documents, or an index,
    /// in the meantime are they merged with those, one by one.
    private mutating func showDocuments(of subscription: [UInt8]) throws {
        guard let staged = try StagedDocuments.find(subscription, database) else { return }
        // A note may cover some of them.
        if try !merging.notes.areAny(), try merging.documents.show(staged) {
            try askForEvicted(of: staged.collection)
        } else {
            try staged.visit(database) { id, state in
                try merging.mergeStaged(state, of: DocumentKey(collection: staged.collection, id: id))
            }
        }
        try StagedDocuments.discard(subscription, database)
    }

    /// As `Refetch.askIfEvicted`, for a collection of which nothing was here.
    private mutating func askForEvicted(of collection: CollectionName) throws {
        guard let table = try merging.documents.table(of: collection) else { return }
        for id in try Evicted.documents(of: collection, database) {
            guard let state = try DocumentRows.state(table, id, database) else { continue }
            try merging.refetch.askIfEvicted(DocumentKey(collection: collection, id: id), state)
        }
    }

    // MARK: Purges

    /// The server's state of a document of which something was told that it will never have, a refused write
    /// or a part that a restored log has lost. Where the document has not moved on since it was told of, the
    /// state takes its place. Where it has, by what the server sent in the meantime, the state is older: it
    /// is merged if the rest is not here any more; else only the whole document undoes that, so it is
    /// wanted.
    private mutating func replace(
        _ key: DocumentKey, by state: UnsafeRawBufferPointer, under purged: [UInt8]
    ) throws {
        let purged = try VersionVector(decoding: purged)
        if try merging.isTainted(key) {
            try merging.mergeStaged(state, of: key)
            if !hasAuthority { _ = try merging.notes.join(key, purged, at: merging.documents.position) }
            return
        }
        if merging.notes.isKept {
            if hasAuthority, try merging.documents.stored(key) == nil {
                return try merging.mergeStaged(state, of: key)
            }
            if hasAuthority, try merging.refetch.hasPendingWrites(key) {
                try merging.refetch.awaitRepair(key)
                return try merging.mergeStaged(state, of: key)
            }
            return try merging.drop(
                purged, of: key, keeping: try Document(decoding: EncodedState([UInt8](state))),
                isAuthority: hasAuthority)
        }
        guard let (table, stored) = try merging.documents.stored(key) else {
            return try merging.mergeStaged(state, of: key)
        }
        let held = try stored.withUnsafeBytes { try DocumentReader($0).vector() }
        let known = try DocumentReader(state).vector()
        let isHere = held.entries.contains { item in
            item.time > known[item.actor] ?? 0 && item.time <= purged[item.actor] ?? 0
        }
        let withheld = try Withheld.actors(of: key.collection, database)
        let isCovered = purged.covers(held.without(withheld))
        if try merging.refetch.hasPendingWrites(key) {
            try merging.refetch.awaitRepair(key)
        } else if isHere || isCovered {
            try merging.documents.drop(key, table, held)
            if !isCovered { try merging.refetch.askAgain(key) }
            try keepWithheld(withheld, of: try Document(decoding: stored), key, table)
        }
        try merging.mergeStaged(state, of: key)
    }

    /// Shows again the parts of a dropped document that nobody else knows.
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
        try merging.documents.putBack(document.only(of: actors, replaying: own), key, in: table)
    }

    /// Everything that the vector covers is gone at the server, the tombstone too. A document with own writes
    /// that the server does not have waits for the repair that moves them.
    private mutating func purge(_ key: DocumentKey, _ vector: [UInt8], isListed: Bool = false) throws {
        // A state without the void stamps comes first.
        if try merging.isTainted(key) { return }
        if !hasAuthority {
            let gone = try VersionVector(decoding: vector)
            return try merging.drop(gone, of: key, keeping: Document(), isAuthority: false)
        }
        guard let (table, stored) = try merging.documents.stored(key) else { return }
        let document = try Document(decoding: stored)
        // A write told of that is not here was withdrawn since (it was refused): nobody has it, so no vector
        // may say that it was seen. Seeds are remembered.
        let frontier = VersionVector(
            try VersionVector(decoding: vector).entries.compactMap { entry in
                guard entry.time > 0 else { return entry }
                return document.vector[entry.actor].map {
                    VersionVector.Entry(actor: entry.actor, time: min($0, entry.time))
                }
            })
        guard try !merging.refetch.hasPendingWrites(key) else { return try merging.refetch.awaitRepair(key) }
        if merging.notes.isKept {
            // A list does not bring a state that does not match, but names its vector too.
            if isListed { return try merging.refetch.askAgain(key) }
            return try merging.drop(frontier, of: key, keeping: Document(), isAuthority: true)
        }
        let isCovered = frontier.covers(document.vector)
        let rest =
            isCovered ? Document(restOf: frontier) : document.gone(frontier: frontier, replaying: [])
        guard rest != document else { return }
        // The vector names the server's own state too, which a list does not bring where it does not match:
        // what has come since rests on that. What is gone of the document as it is now is asked for.
        if isListed, !isCovered { return try merging.refetch.askAgain(key) }
        // A list tells of what was held when it was asked for. What has come since, and another subscription
        // has been told of, may go with it: that one says nothing more of it.
        if document.isLive, try isOfAnother(key, stored) { try merging.refetch.askAgain(key) }
        guard let rest else { return try merging.documents.drop(key, table, document.vector) }
        try merging.documents.leave(key, document.vector)
        try merging.documents.put(rest.encoded(), key, in: table, isLive: rest.isLive)
    }

    /// Returns whether a document as it is here matches another subscription than the one that is published.
    private func isOfAnother(_ key: DocumentKey, _ stored: EncodedState) throws -> Bool {
        guard let published else { return false }
        return try stored.withUnsafeBytes {
            try merging.refetch.isOfAnother(than: published, key, try DocumentReader($0))
        }
    }
}
