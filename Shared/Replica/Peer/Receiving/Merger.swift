import CRDT
import DQL
import Exchange
import GRDB

/// Takes what others sent into the documents, within one transaction. `MergeTable` decides about each thing
/// that comes; Merger has the units and the order (a message, the staged pages of a subscription, void stamps
/// with the state after them), reads the facts that the table asks for, and performs its effects.
struct Merger {
    let database: Database
    /// The sender of what comes.
    let authority: Authority
    var documents: DocumentChanges
    var refetch: Refetch
    var notes: NoteBook
    /// The subscription whose catch-up is published.
    private var published: [UInt8]?
    /// Documents of which the server has told void stamps, and no state after them.
    var expected: Set<DocumentKey> = []
    /// Void stamps that a link tells before the remaining state, for documents that are not here or would be
    /// quarantined by them. Without a state after them they do not count.
    var early: [DocumentKey: VersionVector] = [:]

    /// `milliseconds`: the wall clock, for notes. `tellings`: the link's session.
    init(
        database: Database, state: StoreState, liveQueries: [SubscriptionQuery] = [],
        authority: Authority = .server, recorder: ChangeRecorder? = nil, milliseconds: UInt64 = 0,
        tellings: NoteTellings? = nil
    ) {
        self.database = database
        self.authority = authority
        documents = DocumentChanges(database: database, state: state, recorder: recorder)
        refetch = Refetch(database: database, liveQueries: liveQueries)
        notes = NoteBook(
            database: database, recorder: recorder, milliseconds: milliseconds, tellings: tellings)
    }

    /// The store's state with everything observed.
    var state: StoreState { documents.state }
    /// Documents whose stored state changed.
    var changed: [DocumentKey] { documents.changed }
    /// Documents with a delta whose base is not covered, each once.
    var missing: [DocumentKey] { refetch.missing }
    /// See `NoteBook.toldAgain`.
    var toldAgain: Set<DocumentKey> { notes.toldAgain }
    /// See `Refetch.returning`.
    var returning: Set<DocumentKey> { refetch.returning }
    /// Documents of which the server's present state is asked for.
    var wanted: [DocumentKey] { refetch.wanted }

    /// Returns whether a document is wanted although a state of it has come.
    func isStale(_ key: DocumentKey) -> Bool { refetch.isStale(key) }

    /// Something comes of a document: the table decides, and its effects are performed.
    private mutating func meet(
        _ came: MergeTable.Came, of key: DocumentKey, _ content: Meeting.Content = .nothing,
        presumesHeld: Bool = false
    ) throws {
        try meet(Meeting(came, of: key, content, presumesHeld: presumesHeld))
    }

    private mutating func meet(_ coming: Meeting) throws {
        var meeting = coming
        let effects = try MergeTable.effects(of: meeting.came, by: authority) {
            try holds($0, &meeting)
        }
        for effect in effects { try perform(effect, &meeting) }
    }

    // MARK: What comes

    /// Takes an update of the stream or of a page.
    mutating func merge(_ update: DocumentUpdate, presumesHeld: Bool = false) throws {
        switch update.content {
        case .gone(let vector):
            try meet(published == nil ? .reaping : .listedForgetting, of: update.key, .vector(vector))
        case .void(let vector): try meet(.voidStamps, of: update.key, .vector(vector))
        case .state(let bytes): try take(bytes, of: update.key, as: .state)
        case .delta(let stamp, let bytes):
            _ = try documents.requireTable(of: update.key)
            let delta = try Delta(decoding: bytes, stamp: stamp)
            try meet(.delta, of: update.key, .delta(delta, bytes), presumesHeld: presumesHeld)
        }
    }

    /// Takes a part of an answer: a document's state comes after the word to forget it.
    mutating func mergeAnswer(_ update: DocumentUpdate, presumesHeld: Bool) throws {
        switch update.content {
        case .gone(let vector): try meet(.forgetting, of: update.key, .vector(vector))
        case .state(let bytes): try take(bytes, of: update.key, as: .answer)
        case .void, .delta: try merge(update, presumesHeld: presumesHeld)
        }
    }

    /// All of a message has come: no state comes any more after void stamps that were told.
    mutating func conclude() throws {
        let ended = authority == .server ? expected : Set(changed)
        for key in ended { try meet(.end, of: key) }
        expected = []
    }

    /// Drops documents that may not be read here any more.
    mutating func hide(_ keys: [DocumentKey]) throws {
        for key in keys { try meet(.hiding, of: key) }
    }

    private mutating func take(
        _ bytes: EncodedState, of key: DocumentKey, as came: MergeTable.Came, isChecked: Bool = false
    ) throws {
        let content = Meeting.Content.state(bytes, isChecked: isChecked)
        if came == .answer || !early.isEmpty { try meet(.approach, of: key, content) }
        let table = try documents.requireTable(of: key)
        var meeting = Meeting(came, of: key, content)
        // Mostly a state is of a document that is not here: then nothing is looked up before.
        if !isChecked, let stamp = Insertion.stamp(ofState: bytes), try notes.note(of: key) == nil,
            try documents.add(bytes, key, in: table)
        {
            try documents.observe(stamp.time)
            meeting.inserted()
        }
        try meet(meeting)
        if !early.isEmpty { try meet(.merged, of: key) }
    }

    // MARK: Staged catch-ups

    /// Shows everything that is staged for a subscription.
    mutating func publish(_ subscription: [UInt8]) throws {
        published = subscription
        try showStaged(of: subscription)
        try StagedPages.visit(subscription, database) { entry in
            if entry.isVoid {
                try meet(.voidStamps, of: entry.key, .vector([UInt8](entry.content)))
            } else if entry.isGone {
                try meet(.listedForgetting, of: entry.key, .vector([UInt8](entry.content)))
            } else {
                expected.remove(entry.key)
                let bytes = EncodedState([UInt8](entry.content))
                try take(bytes, of: entry.key, as: .state, isChecked: true)
            }
        }
        try conclude()
        try Staged.discard(subscription, database)
    }

    /// Shows staged documents where they will stay. Only where the collection has got documents, or an index,
    /// in the meantime are they merged with those, one by one.
    private mutating func showStaged(of subscription: [UInt8]) throws {
        guard let staged = try StagedDocuments.find(subscription, database) else { return }
        // Something of them may be void.
        if try !notes.areAny(), try documents.show(staged) {
            for id in try Evicted.documents(of: staged.collection, database) {
                let key = DocumentKey(collection: staged.collection, id: id)
                guard let state = try documents.stored(key)?.state else { continue }
                try meet(.showing, of: key, .state(state, isChecked: true))
            }
        } else {
            try staged.visit(database) { id, state in
                let key = DocumentKey(collection: staged.collection, id: id)
                try take(EncodedState([UInt8](state)), of: key, as: .state, isChecked: true)
            }
        }
        try StagedDocuments.discard(subscription, database)
    }
}
