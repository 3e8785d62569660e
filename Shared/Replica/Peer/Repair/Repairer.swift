import CRDT
import DQL
import Exchange
import GRDB
import Machine

extension PeerReplica {
    /// Stages the server's states of documents for a repair; nil for a document that it does not have.
    public func stageRepair(_ states: [(key: DocumentKey, state: EncodedState?)]) throws {
        let empty = Document().encoded()
        try committing { database, state in
            for item in states {
                let bytes = item.state ?? empty
                // Checked now, so that the repair cannot fail on what somebody sent.
                if let latest = try Document(decoding: bytes).vector.greatestTime {
                    try state.observe(latest)
                }
                try Staged.insert(item.key, bytes, for: Repairer.subscription, database)
            }
            return ((), nil)
        }
    }

    /// Moves own operations that the server cannot accept as they are to a new actor, and sets the refused
    /// ones aside (`RepairPlan`). The affected documents become the server's, with the kept and the moved
    /// writes on top. All in one transaction.
    public func repair(_ request: RepairRequest) throws -> RepairOutcome {
        return try committing { database, state in
            for (actor, sequence) in request.admitted {
                try OwnOperations.truncate(actor, through: sequence, database)
            }
            var repairer = Repairer(
                database: database, state: state, environment: correctedEnvironment, request,
                liveQueries: liveQueries)
            let missing = try repairer.missing()
            guard missing.isEmpty else { return (.needs(missing), nil) }
            let refused = try repairer.run()
            let noted = try noteVoid(repairer, database)
            if let position = request.seen { try Seen.note(position, replaces: false, database) }
            state = repairer.state
            var changed = repairer.changed.union(noted)
            var merger = Merger(
                database: database, state: state, liveQueries: liveQueries, recorder: recording.recorder,
                milliseconds: store.environment.wallMilliseconds())
            var isFollowed = false
            if let following = request.following {
                try take(following, &merger, database)
                isFollowed = merger.missing.isEmpty
                if isFollowed {
                    state = merger.state
                    changed.formUnion(merger.changed)
                }
            }
            let pending = try OwnOperations.pending(database)
            let left = repairer.left.subtracting(pending + [state.actor])
            let outcome = RepairOutcome.repaired(
                RepairOutcome.Repaired(
                    actor: state.actor, left: left, pending: pending, refused: refused,
                    isFollowed: isFollowed, returning: isFollowed ? Array(merger.returning) : []))
            let wanted = repairer.wanted + (isFollowed ? merger.wanted : [])
            guard !changed.isEmpty || !wanted.isEmpty else { return (outcome, nil) }
            state.advance()
            let keys = Array(changed)
            return (outcome, Commit(number: state.head, documents: keys, actor: nil, wanted: wanted))
        }
    }
}

extension PeerReplica {
    /// Links are told the void stamps of repaired documents, and asked for their own versions.
    /// - Returns: the documents of which that is news, shown or not.
    private func noteVoid(_ repairer: Repairer, _ database: Database) throws -> Set<DocumentKey> {
        guard let recorder = recording.recorder else { return [] }
        var noted: Set<DocumentKey> = []
        var book = NoteBook(
            database: database, recorder: recorder, milliseconds: store.environment.wallMilliseconds())
        for (key, void) in repairer.void {
            var words = try book.note(of: key)?.words ?? VoidNote()
            for entry in void.entries { words.confirm(entry) }
            if try book.setVoid(key, words, at: repairer.state.head + 1) { noted.insert(key) }
        }
        for key in repairer.changed {
            recorder.replace(key)
            try book.tellVoidAgain(key, at: repairer.state.head + 1)
        }
        return noted
    }
}

/// One repair, within its transaction.
struct Repairer {
    /// The key under which the server's states are staged; no subscription's key is this short.
    static let subscription: [UInt8] = [0]

    let database: Database
    private(set) var state: StoreState
    let environment: Environment
    /// Documents whose stored state changed.
    private(set) var changed: Set<DocumentKey> = []
    /// Documents that the store does not show, though a live subscription asks for them.
    private(set) var wanted: [DocumentKey] = []
    /// Stamps that are void because the server has closed their actor, by document.
    private(set) var void: [DocumentKey: VersionVector] = [:]
    private var collections = Collections()
    private var positions: [UInt64] = []
    private var plan: RepairPlan
    /// Where the server's state of a document is staged, and its vector.
    private var places: [DocumentKey: (number: Int64, vector: VersionVector)] = [:]
    /// The documents that are replaced by the server's; and those of them that the store shows.
    private var replaced: Set<DocumentKey> = []
    private var held: Set<DocumentKey> = []
    private let liveQueries: [SubscriptionQuery]
    /// The server's future states of replaced documents that are not shown: what moves later rests on them,
    /// and a live subscription may ask for it.
    private var absent: [DocumentKey: Document] = [:]

    init(
        database: Database, state: StoreState, environment: Environment, _ request: RepairRequest,
        liveQueries: [SubscriptionQuery]
    ) {
        self.liveQueries = liveQueries
        self.database = database
        self.state = state
        self.environment = environment
        plan = RepairPlan(request, wallMilliseconds: environment.wallMilliseconds())
    }

    /// The actors of which something did not stay.
    var left: Set<ActorID> { plan.left }

    /// The documents whose states are not staged yet; reads what there is to do.
    mutating func missing() throws -> [DocumentKey] {
        try readStaged()
        let all = try RawStatement(
            fresh: "SELECT \(StoredOperation.columns) FROM operation ORDER BY position", database)
        while try all.step() {
            let stored = StoredOperation(all)
            positions.append(stored.position)
            try plan.take(try Operation(decoding: stored.whole(database)))
        }
        replaced = Set(plan.documents)
        return Array(plan.documents.filter { places[$0] == nil }.prefix(ReplicaLimits.repairDocuments))
    }

    private mutating func readStaged() throws {
        let statement = try RawStatement(
            fresh: "SELECT number, collection, id, state FROM staged WHERE subscription = ? ORDER BY number",
            database, Self.subscription)
        while try statement.step() {
            let key = statement.key(1)
            places[key] = (statement.int(0), try DocumentReader(statement.blob(3)).vector())
        }
    }

    mutating func run() throws -> [Refusal] {
        try replaceDocuments()
        try resetClock()
        // Also where only others' operations move: what the present actor writes later may rest on them, and
        // an actor's operations are uploaded in one go.
        let renews = plan.moves || plan.left.contains(state.actor)
        if renews { try state.renewActor(environment, database) }
        var restamper = Restamper(actor: state.actor)
        var setAside: [Refusal] = []
        for (position, fate) in zip(positions, plan.fates) {
            let bytes = try self.bytes(at: position)
            let operation = try Operation(decoding: bytes)
            noteVoid(operation, fate)
            switch fate {
            case .stays:
                let changes = operation.changes.filter {
                    replaced.contains(DocumentKey(collection: $0.collection, id: $0.id))
                }
                try replay(operation, changes)
            case .moves: try move(operation, at: position, &restamper)
            case .there:
                try restamper.withdraw(operation)
                try put(nil, at: position)
            case .refused(let refusal):
                try restamper.withdraw(operation)
                try RefusedWrites.insert(
                    position, bytes, code: refusal.error.code, message: refusal.error.message,
                    at: environment.wallMilliseconds(), database)
                try put(nil, at: position)
                setAside.append(refusal)
            }
        }
        try replayWithheld()
        try wantAbsent()
        if renews { state.wrote(restamper.sequence) }
        try RefusedWrites.trim(database)
        try OwnOperations.forgetRetired(but: state.actor, keeping: ReplicaLimits.retiredActors, database)
        let removal = try RawStatement(cached: "DELETE FROM staged WHERE subscription = ?", database)
        removal.bind(1, Self.subscription)
        try removal.run()
        return setAside
    }

    /// Stamps that do not stay, of an actor that the server has closed, are void wherever they went.
    private mutating func noteVoid(_ operation: Operation, _ fate: RepairPlan.Fate) {
        if case .stays = fate { return }
        guard plan.closesForGood(operation.actor) else { return }
        for change in operation.changes {
            let key = DocumentKey(collection: change.collection, id: change.id)
            // One that is not shown here, and of which the server has more, would be told as empty.
            let server = places[key]?.vector ?? VersionVector()
            if absent[key] != nil, !server.isEmpty { continue }
            // The first of several counts, unless the server has later ones from elsewhere.
            let first = void[key]?[operation.actor] ?? operation.timestamp - 1
            let seen = server[operation.actor] ?? 0
            void[key, default: VersionVector()].insert(
                Stamp(time: max(first, seen), actor: operation.actor))
        }
    }

    /// Shows the server's states. A document that this store does not show (it was evicted) stays away.
    private mutating func replaceDocuments() throws {
        for (key, place) in places where replaced.contains(key) {
            guard let table = try collections.number(of: key.collection, database),
                let before = try DocumentRows.state(table, key.id, database)
            else {
                absent[key] = try Document(decoding: staged(place.number))
                continue
            }
            held.insert(key)
            if place.vector.isEmpty {
                try DocumentRows.remove(table, key.id, database)
            } else {
                let staged = try staged(place.number)
                guard staged != before else { continue }
                try show(try Document(decoding: staged), key)
            }
            changed.insert(key)
        }
    }

    /// A clock that is further ahead than the server admits follows what the server has admitted instead: no
    /// document here has a later stamp any more.
    private mutating func resetClock() throws {
        let wall = environment.wallMilliseconds()
        guard HybridClock.isTooFarAhead(state.clock.latest, wallMilliseconds: wall) else { return }
        var latest: Timestamp = 0
        for name in try Collections.names(database) {
            guard let table = try collections.number(of: name, database) else { continue }
            let statement = try RawStatement(fresh: "SELECT state FROM documents_\(table)", database)
            while try statement.step() {
                latest = max(latest, try DocumentReader(statement.blob(0)).vector().greatestTime ?? 0)
            }
        }
        // The operations that stay may be of documents that are not here any more.
        for (position, fate) in zip(positions, plan.fates) {
            guard case .stays = fate else { continue }
            latest = max(latest, try OperationHeader.peek(bytes(at: position)).timestamp)
        }
        state.resetClock(to: latest)
    }

    private mutating func move(
        _ operation: Operation, at position: UInt64, _ restamper: inout Restamper
    ) throws {
        state.observeOwn(try restamper.floor(of: operation))
        let time = state.drawTime(environment)
        var collections = collections
        let moved = try restamper.move(
            operation, to: time,
            isThere: {
                self.plan.isThere(operation.stamp, in: $0, self.places[$0]?.vector ?? VersionVector())
            },
            server: { self.plan.reachable(in: $0, self.places[$0]?.vector ?? VersionVector()) },
            document: { key in
                let table = try collections.number(of: key.collection, self.database)
                let shown = try table.flatMap { try DocumentRows.state($0, key.id, self.database) }
                return try shown.map { try Document(decoding: $0) } ?? self.absent[key] ?? Document()
            })
        try put(moved, at: position)
        if let moved { try replay(moved, moved.changes) }
    }

    /// Shows changes again, on the server's states. Where the document is not shown, or cannot be without a
    /// right to read it, their actor must not write it again (rule 10).
    private mutating func replay(_ operation: Operation, _ changes: [Operation.Change]) throws {
        for change in changes {
            let key = DocumentKey(collection: change.collection, id: change.id)
            guard held.contains(key) else {
                _ = absent[key]?.apply(try Delta(decoding: change.delta, stamp: operation.stamp))
                try Evicted.note(key, operation.actor, at: operation.timestamp, database)
                continue
            }
            let table = try collections.requireNumber(of: key.collection, database)
            let stored = try DocumentRows.state(table, key.id, database)
            var document = try stored.map { try Document(decoding: $0) } ?? Document()
            switch document.apply(try Delta(decoding: change.delta, stamp: operation.stamp)) {
            case .applied:
                changed.insert(key)
                try show(document, key)
            // A seed, or a state that the server was given, is here already.
            case .duplicate: break
            case .baseMissing: try Evicted.note(key, operation.actor, database)
            }
        }
    }

    /// A document evicted because no live subscription matched it here, while one does as it is at the
    /// server, is asked for.
    private mutating func wantAbsent() throws {
        let all = absent.sorted { ($0.key.collection, $0.key.id) < ($1.key.collection, $1.key.id) }
        for (key, document) in all where document.isLive {
            let state = document.encoded()
            let matches = try state.withUnsafeBytes { try liveQueries.match(key, try DocumentReader($0)) }
            guard matches else { continue }
            try Wanted.note(key, database)
            wanted.append(key)
        }
    }

    /// A withheld write is shown again where it rests on nothing that was moved; the rest when it is
    /// uploaded.
    private mutating func replayWithheld() throws {
        for (_, bytes) in try Withheld.operations(database) {
            let operation = try Operation(decoding: bytes)
            let changes = operation.changes.filter {
                replaced.contains(DocumentKey(collection: $0.collection, id: $0.id))
            }
            guard let collection = changes.first?.collection else { continue }
            try Withheld.leaveActor(of: collection, database)
            try replay(operation, changes)
        }
    }

    private mutating func show(_ document: Document, _ key: DocumentKey) throws {
        let table = try collections.requireNumber(of: key.collection, database)
        try DocumentRows.put(
            table, key.id, live: document.isLive, position: state.head + 1, state: document.encoded(),
            database)
    }

    private func staged(_ number: Int64) throws -> EncodedState {
        let statement = try RawStatement(
            cached: "SELECT state FROM staged WHERE subscription = ? AND number = ?", database,
            Self.subscription, number)
        guard try statement.step() else {
            preconditionFailure("a staged state is there until its repair ends")
        }
        return EncodedState(statement.bytes(0))
    }

    private func bytes(at position: UInt64) throws -> [UInt8] {
        let statement = try RawStatement(
            cached: "SELECT \(StoredOperation.columns) FROM operation WHERE position = ?", database,
            position)
        guard try statement.step() else { preconditionFailure("an operation vanished in its transaction") }
        return try StoredOperation(statement).whole(database)
    }

    /// Puts a moved operation in its commit's place, or leaves that empty.
    private func put(_ moved: Operation?, at position: UInt64) throws {
        let removal = try RawStatement(cached: "DELETE FROM operation WHERE position = ?", database)
        removal.bind(1, bits: position)
        try removal.run()
        guard let moved else { return }
        try OwnOperations.insert(moved, moved.encoded(), position: position, database)
    }
}
