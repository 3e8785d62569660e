import CRDT
import GRDB

/// What a store needs to get back in line with its server (rules 9, 20 and 21).
public struct RepairRequest: Sendable {
    /// An operation that the server refused.
    public struct Refused: Sendable {
        /// Its actor.
        public let actor: ActorID
        /// Its sequence.
        public let sequence: UInt64
        /// Why, in the server's words.
        public let code: String
        /// For a person.
        public let message: String
        /// Only its base was missing: it is moved when it rests on another one that is moved or set aside.
        public let isForItsBase: Bool

        /// A refusal of this operation.
        public init(actor: ActorID, sequence: UInt64, code: String, message: String, isForItsBase: Bool) {
            self.actor = actor
            self.sequence = sequence
            self.code = code
            self.message = message
            self.isForItsBase = isForItsBase
        }
    }

    /// Per own actor the greatest sequence that the server has.
    public var admitted: [ActorID: UInt64]
    /// Operations to set aside.
    public var refused: [Refused]
    /// Documents that are gone at the server: what is not acknowledged of these is moved too.
    public var gone: Set<DocumentKey>
    /// The position of the server's log that the states kept aside stand for.
    public var seen: LogPosition?

    /// A request of these parts.
    public init(
        admitted: [ActorID: UInt64], refused: [Refused], gone: Set<DocumentKey> = [], seen: LogPosition?
    ) {
        self.admitted = admitted
        self.refused = refused
        self.gone = gone
        self.seen = seen
    }
}

/// What became of a repair.
public enum RepairOutcome: Sendable {
    /// Nothing was done yet: the server's states of these documents must be kept aside first (`stageRepair`).
    case needs([DocumentKey])
    /// Done and durable: the actor that writes from now on, and the operations that were set aside.
    case repaired(ActorID, refused: [(actor: ActorID, sequence: UInt64)])
}

extension Replica {
    /// Keeps the server's states of documents aside for a repair; nil for a document that it does not have.
    public func stageRepair(_ states: [(key: DocumentKey, state: [UInt8]?)]) throws {
        let empty = Document().encoded()
        try stage(
            states.map { DocumentUpdate(key: $0.key, content: .state($0.state ?? empty)) },
            for: Repairer.subscription)
    }

    /// Moves every own operation that the server does not have to a new actor, but sets the refused ones
    /// aside; the documents they touch become the server's, with the moved operations on top. All in one
    /// transaction.
    public func repair(_ request: RepairRequest) throws -> RepairOutcome {
        precondition(role == .peer, "a materialization changes by folding its log only")
        return try committing { database, state in
            for (actor, sequence) in request.admitted {
                try OwnOperations.truncate(actor, through: sequence, database)
            }
            var repairer = Repairer(database: database, state: state, environment: corrected(environment))
            let missing = try repairer.missing()
            guard missing.isEmpty else { return (.needs(missing), nil) }
            let refused = try repairer.run(request)
            if let position = request.seen { try Seen.note(position, replaces: false, database) }
            state = repairer.state
            let outcome = RepairOutcome.repaired(state.actor, refused: refused)
            guard !repairer.changed.isEmpty else { return (outcome, nil) }
            state.head += 1
            let keys = Array(repairer.changed)
            return (outcome, Commit(number: state.head, documents: keys, actor: nil, wanted: []))
        }
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
    private var collections = Collections()
    private var positions: [UInt64] = []
    /// The documents that the moved and refused operations touch: where the server's state is staged, its
    /// vector, and whether the store shows the document.
    private var places: [DocumentKey: (number: Int64, vector: VersionVector)] = [:]
    private var held: Set<DocumentKey> = []

    init(database: Database, state: StoreState, environment: Environment) {
        self.database = database
        self.state = state
        self.environment = environment
    }

    /// The documents whose states are not staged yet; reads what there is to do.
    mutating func missing() throws -> [DocumentKey] {
        try readStaged()
        let all = try RawStatement(fresh: "SELECT position, bytes FROM operation ORDER BY position", database)
        var missing: Set<DocumentKey> = []
        var ordered: [DocumentKey] = []
        while ordered.count < ReplicaLimits.repairDocuments, try all.step() {
            positions.append(all.bits(0))
            for change in try Operation(decoding: all.bytes(1)).changes {
                let key = DocumentKey(collection: change.collection, id: change.id)
                if places[key] == nil, missing.insert(key).inserted { ordered.append(key) }
            }
        }
        return ordered
    }

    private mutating func readStaged() throws {
        let statement = try RawStatement(
            fresh: "SELECT number, collection, id, state FROM staged WHERE subscription = ? ORDER BY number",
            database)
        statement.bind(1, Self.subscription)
        while try statement.step() {
            let key = DocumentKey(collection: statement.text(1), id: DocumentID(trusted: statement.bytes(2)))
            places[key] = (statement.int(0), try DocumentReader(statement.blob(3)).vector())
        }
    }

    mutating func run(_ request: RepairRequest) throws -> [(actor: ActorID, sequence: UInt64)] {
        try replaceDocuments()
        try resetClock()
        try state.renewActor(environment, database)
        var restamper = Restamper(actor: state.actor)
        var setAside: [(actor: ActorID, sequence: UInt64)] = []
        for position in positions {
            let bytes = try self.bytes(at: position)
            let operation = try Operation(decoding: bytes)
            if let refusal = try refusal(of: operation, request, restamper) {
                try restamper.withdraw(operation)
                try RefusedWrites.insert(
                    position, bytes, code: refusal.code, message: refusal.message,
                    at: environment.wallMilliseconds(), database)
                try put(nil, at: position)
                setAside.append((operation.actor, operation.sequence))
            } else {
                try move(operation, at: position, &restamper)
            }
        }
        state.sequence = restamper.sequence
        try RefusedWrites.trim(database)
        try OwnOperations.forgetRetired(but: state.actor, keeping: ReplicaLimits.retiredActors, database)
        let removal = try RawStatement(cached: "DELETE FROM staged WHERE subscription = ?", database)
        removal.bind(1, Self.subscription)
        try removal.run()
        return setAside
    }

    /// Shows the server's states. What this store does not show (it was evicted) stays away.
    private mutating func replaceDocuments() throws {
        for (key, place) in places {
            guard let table = try collections.number(of: key.collection, database),
                let before = try DocumentRows.state(table, key.id, database)
            else { continue }
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
        state.clock = HybridClock(latest: latest)
    }

    private func refusal(
        of operation: Operation, _ request: RepairRequest, _ restamper: Restamper
    ) throws -> RepairRequest.Refused? {
        let found = request.refused.first {
            $0.actor == operation.actor && $0.sequence == operation.sequence
        }
        // A base that the server does not have was moved too, or removed and reaped: then it is let go.
        guard let found, !found.isForItsBase else { return nil }
        return found
    }

    private mutating func move(
        _ operation: Operation, at position: UInt64, _ restamper: inout Restamper
    ) throws {
        state.clock.observe(try restamper.floor(of: operation))
        let time = state.clock.next(wallMilliseconds: environment.wallMilliseconds())
        var collections = collections
        let moved = try restamper.move(
            operation, to: time, server: { self.places[$0]?.vector ?? VersionVector() },
            document: { key in
                let table = try collections.number(of: key.collection, self.database)
                let shown = try table.flatMap { try DocumentRows.state($0, key.id, self.database) }
                let bytes = try shown ?? self.places[key].map { try self.staged($0.number) }
                return try bytes.map { try Document(decoding: $0) } ?? Document()
            })
        try put(moved, at: position)
        guard let moved else { return }
        for change in moved.changes {
            let key = DocumentKey(collection: change.collection, id: change.id)
            try replay(try Delta(decoding: change.delta, stamp: moved.stamp), key)
        }
    }

    /// Shows a moved change again. Where the document is not shown, or cannot be without a right to read
    /// it, the new actor must not write it again (rule 10).
    private mutating func replay(_ delta: Delta, _ key: DocumentKey) throws {
        let table = try collections.requireNumber(of: key.collection, database)
        let stored = try DocumentRows.state(table, key.id, database)
        var document = try stored.map { try Document(decoding: $0) } ?? Document()
        guard held.contains(key) else { return try Evicted.note(key, state.actor, database) }
        switch document.apply(delta) {
        case .applied:
            changed.insert(key)
            try show(document, key)
        // A seed that is here already.
        case .duplicate: break
        case .baseMissing: try Evicted.note(key, state.actor, database)
        }
    }

    private mutating func show(_ document: Document, _ key: DocumentKey) throws {
        let table = try collections.requireNumber(of: key.collection, database)
        try DocumentRows.put(
            table, key.id, live: document.isLive, position: state.head + 1, state: document.encoded(),
            database)
    }

    private func staged(_ number: Int64) throws -> [UInt8] {
        let statement = try RawStatement(
            cached: "SELECT state FROM staged WHERE subscription = ? AND number = ?", database)
        statement.bind(1, Self.subscription)
        statement.bind(2, number)
        guard try statement.step() else {
            preconditionFailure("a staged state is there until its repair ends")
        }
        return statement.bytes(0)
    }

    private func bytes(at position: UInt64) throws -> [UInt8] {
        let statement = try RawStatement(cached: "SELECT bytes FROM operation WHERE position = ?", database)
        statement.bind(1, bits: position)
        guard try statement.step() else { preconditionFailure("an operation vanished in its transaction") }
        return statement.bytes(0)
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
