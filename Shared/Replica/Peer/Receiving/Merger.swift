import CRDT
import DQL
import Exchange
import GRDB

/// Takes what a server sent into the documents, within one transaction: each update goes to the part that
/// decides about it.
///
/// `StateMerge` merges states and deltas, and forgets; `Refetch` names the documents to ask for. Merger
/// decides on units and order: a message, the staged pages of a subscription, void stamps with the state
/// after them.
struct Merger {
    private let database: Database
    private var merging: StateMerge
    /// The subscription whose catch-up is published.
    private var published: [UInt8]?
    private let authority: Authority
    /// Documents of which the server has told void stamps, and no state after them.
    private var voided: Set<DocumentKey> = []
    /// Void stamps that a link tells before the remaining state, for documents that are not here or would be
    /// tainted by them. Without a state after them they do not count.
    private var early: [DocumentKey: VersionVector] = [:]

    /// `authority`: the sender of the updates. `milliseconds`: the wall clock, for notes. `tellings`: the
    /// link's session.
    init(
        database: Database, state: StoreState, liveQueries: [SubscriptionQuery] = [],
        authority: Authority = .server, recorder: ChangeRecorder? = nil, milliseconds: UInt64 = 0,
        tellings: NoteTellings? = nil
    ) {
        self.database = database
        self.authority = authority
        merging = StateMerge(
            documents: DocumentChanges(database: database, state: state, recorder: recorder),
            refetch: Refetch(
                database: database, actor: state.actor, liveQueries: liveQueries, authority: authority),
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
        case .gone(let vector) where published != nil: try merging.forget(update.key, vector, isListed: true)
        case .gone(let vector): try merging.forget(update.key, reapedAt: vector)
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

    /// Takes a part of an answer: a document's state comes after the word to forget it.
    mutating func mergeAnswer(_ update: DocumentUpdate, presumesHeld: Bool) throws {
        switch update.content {
        case .gone(let vector): try merging.forget(update.key, vector)
        case .void(let vector): try void(update.key, vector)
        case .state(let bytes):
            // A tainted document that the server does not confirm is not void.
            try learnLate(update.key, bytes.withUnsafeBytes { try DocumentReader($0).vector() })
            let isConfirmed = voided.remove(update.key) != nil
            if authority == .server, !isConfirmed, try merging.isTainted(update.key) {
                try merging.learn(VersionVector(), of: update.key, from: .server)
            }
            try merging.merge(bytes, of: update.key, StateMerge.Origin(isAnswer: true))
            try learnEarly(update.key)
        case .delta: try merge(update, presumesHeld: presumesHeld)
        }
    }

    /// All of a message has come: no state comes any more after void stamps that were told.
    mutating func conclude() throws {
        // The server has nothing of these beside what is void.
        for key in voided where try merging.isTainted(key) { try merging.replace(key, by: Document()) }
        voided = []
        // (The server's word leads to a repair, which moves them.)
        if authority == .link { for key in Set(changed) { try merging.applyOwnAgain(to: key) } }
    }

    /// Void stamps of a document are told, and maybe a clean state after them.
    private mutating func void(_ key: DocumentKey, _ vector: [UInt8]) throws {
        let told = try VersionVector(decoding: vector)
        guard authority == .link else {
            try merging.learn(told, of: key, from: .server)
            voided.insert(key)
            return
        }
        try merging.leaveVoided(key, told)
        if try merging.hasNothing(of: key) || merging.isTainted(key, by: told) { return early[key] = told }
        try merging.learn(told, of: key, from: .link)
    }

    /// A state has come after what a link says is void of a document that is here: it takes its place, if it
    /// is clean itself, of everything that is then known to be void.
    private mutating func learnLate(
        _ key: DocumentKey, _ left: @autoclosure () throws -> VersionVector
    ) throws {
        guard !early.isEmpty, let told = early[key], try !merging.hasNothing(of: key) else { return }
        early[key] = nil
        guard try !merging.wouldTaint(left(), of: key, told) else { return }
        try merging.learn(told, of: key, from: .link)
    }

    /// A state has come after what a link said is void of a document of which nothing was here. With a state
    /// that is not clean, the word does not count.
    private mutating func learnEarly(_ key: DocumentKey) throws {
        guard let told = early.removeValue(forKey: key), try !merging.isTainted(key, by: told) else {
            return
        }
        try merging.learn(told, of: key, from: .link)
    }

    /// Drops documents that may not be read here any more.
    mutating func hide(_ keys: [DocumentKey]) throws { try merging.hide(keys) }

    // MARK: Staged catch-ups

    /// Shows everything that is staged for a subscription.
    mutating func publish(_ subscription: [UInt8]) throws {
        published = subscription
        try merging.showStaged(of: subscription)
        try StagedPages.visit(subscription, database) { entry in
            if !entry.isVoid, !entry.isGone {
                try learnLate(entry.key, DocumentReader(entry.content).vector())
            }
            if entry.isVoid {
                try void(entry.key, [UInt8](entry.content))
            } else if entry.isGone {
                try merging.forget(entry.key, [UInt8](entry.content), isListed: true)
            } else {
                voided.remove(entry.key)
                try merging.mergeStaged(entry.content, of: entry.key)
            }
            if !entry.isVoid, !entry.isGone { try learnEarly(entry.key) }
        }
        try conclude()
        try Staged.discard(subscription, database)
    }
}
