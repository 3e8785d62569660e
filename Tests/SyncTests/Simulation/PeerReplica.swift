import CRDT
import DQL
import Sync

@testable import Replica

/// A peer's store in memory, with the rules of the real one: durable cursors, staged pages, wanted documents,
/// evictions that retire actors, repairs. What moves operations to a new actor is the real one's.
struct PeerReplica {
    struct OwnOperation {
        /// The number of the write in the world; stays when the operation is moved.
        let write: Int
        let sequence: SequenceNumber
        let bytes: [UInt8]
    }

    /// The last operation of an actor that the server has acknowledged.
    struct Acknowledged {
        var sequence: SequenceNumber = 0
        var timestamp: Timestamp = 0
        var hash: UInt64 = 0
    }

    var documents: [DocumentKey: Document] = [:]
    /// What the server has not acknowledged; the rest is not kept.
    var own: [ActorID: [OwnOperation]] = [:]
    var actors: [ActorID] = []
    var acknowledged: [ActorID: Acknowledged] = [:]
    private(set) var cursors: [[UInt8]: LogPosition] = [:]
    private(set) var wanted: [DocumentKey] = []
    /// Those of them that a commit brought up, until somebody tells the session.
    private var announced: [DocumentKey] = []
    private var seen: LogPosition?
    private var staged: [[UInt8]: [DocumentUpdate]] = [:]
    /// What servers gave to go on behind what is staged, and with cursors.
    private(set) var resumptions: [[UInt8]: [UInt8]] = [:]
    private(set) var rights: [[UInt8]: [UInt8]] = [:]
    /// Own writes that the server has, and whose answer has not come, with the offset at which it will have.
    private var unanswered: [DocumentKey: Offset] = [:]
    var repairStates: [DocumentKey: Document] = [:]
    var evictedActors: [DocumentKey: Set<ActorID>] = [:]
    var clock = HybridClock()
    var actor: ActorID
    private var nextActor: UInt64
    /// What the application subscribes to, with its canonical key.
    var subscriptions: [SubscriptionQuery] = []
    /// Writes that the server refused, with the codes.
    var refused: [(write: Int, code: String)] = []
    /// Milliseconds that the server's clock is ahead of this one's, while connected.
    var correction: Int64 = 0

    /// - Parameter number: makes its actors its own.
    init(number: Int) {
        nextActor = UInt64(number) << 32 | 1
        actor = ActorID(nextActor &* 0x9E37_79B9_7F4A_7C15)
    }

    // MARK: The application

    /// One transaction over documents; returns the actor when it became an operation.
    mutating func write(
        _ number: Int, _ keys: [DocumentKey], wallMilliseconds: UInt64,
        _ edit: (DocumentKey, inout DocumentEditor) throws -> Void
    ) throws -> ActorID? {
        // Rule 10 also when the document is back: what came may be older than what was evicted, and then the
        // next stamp's vector would claim writes that are not in it.
        if keys.contains(where: { evictedActors[$0]?.contains(actor) == true }) { renew() }
        let stamp = Stamp(time: clock.next(wallMilliseconds: wallMilliseconds), actor: actor)
        var changes: [Operation.Change] = []
        for key in keys {
            var editor = DocumentEditor(document: documents[key] ?? Document(), stamp: stamp)
            try edit(key, &editor)
            guard let delta = editor.pending.delta(stamp: stamp) else { continue }
            documents[key] = editor.document
            changes.append(Operation.Change(collection: key.collection, id: key.id, delta: delta.encoded()))
        }
        guard !changes.isEmpty else { return nil }
        let sequence = (own[actor]?.last?.sequence ?? acknowledged[actor]?.sequence ?? 0).next
        let operation = Operation(
            actor: actor, sequence: sequence, timestamp: stamp.time, changes: changes)
        if sequence == 1 { actors.append(actor) }
        own[actor, default: []].append(
            OwnOperation(write: number, sequence: sequence, bytes: operation.encoded()))
        return actor
    }

    /// Forgets a document; true when a subscription wants it back.
    mutating func evict(_ key: DocumentKey) throws -> Bool {
        guard let document = documents.removeValue(forKey: key) else { return false }
        evictedActors[key, default: []].formUnion(document.vector.entries.map(\.actor))
        let live = Set(subscriptions.map(\.canonicalKey))
        cursors = cursors.filter { live.contains($0.key) }
        guard try subscriptions.contains(where: { try $0.covers(key, document) }) else { return false }
        if !wanted.contains(key) { wanted.append(key) }
        return true
    }

    mutating func renew() {
        nextActor += 1
        actor = ActorID(nextActor &* 0x9E37_79B9_7F4A_7C15)
    }

    /// The store becomes what it was; only its randomness goes on.
    mutating func rollBack(to earlier: PeerReplica) {
        let next = nextActor
        let asked = subscriptions
        self = earlier
        nextActor = next
        subscriptions = asked
    }

    /// A session begins: what an earlier one staged stays where the server can go on behind it.
    mutating func discardStaged() {
        let live = Set(subscriptions.map(\.canonicalKey))
        resumptions = resumptions.filter { live.contains($0.key) }
        staged = staged.filter { resumptions[$0.key] != nil }
        repairStates = [:]
        correction = 0
    }

    // MARK: The session's actions

    mutating func perform(_ action: Action, wallMilliseconds: UInt64) throws -> Event? {
        switch action {
        case .readOwnActors:
            let known = actors.compactMap { actor in
                acknowledged[actor].map { Frame.Acknowledgement(actor: actor, sequence: $0.sequence) }
            }
            return .ownActors(OwnHistory(heads: heads, acknowledged: known, seen: seen))
        case .compareHistory(let heads, let hashes):
            return .historyCompared(
                heads.map { head in standing(of: head, hashes.first { $0.actor == head.actor }) })
        case .readOwnOperations(let actor, let after, let maxBytes):
            return .ownOperations(actor: actor, operations(of: actor, after: after, maxBytes: maxBytes))
        case .store(let batch): return try store(batch)
        case .stage(let page):
            staged[page.subscription, default: []] += page.updates
            if let token = page.resume { resumptions[page.subscription] = token }
            if let position = page.seen { see(position) }
            hide(page.hides)
            return .stored
        case .unstage(let key):
            discardStaged(key)
            return .stored
        case .startOver(let key):
            discardStaged(key)
            rights[key] = nil
            return .stored
        case .hide(let collection, let key):
            cursors[key] = nil
            discardStaged(key)
            for query in subscriptions where query.collection == collection {
                rights[query.canonicalKey] = nil
            }
            hide(documents.keys.filter { $0.collection == collection })
            return .stored
        case .findOutdated(let candidates, let key):
            return .outdated(try candidates.filter { try isOutdated($0, key) }.map(\.key))
        case .readHeld(let request, let last, let isWhole): return try held(request, last, isWhole)
        case .acknowledge(let actor, let sequence, let offset):
            return try acknowledged(actor, sequence, offset)
        case .askForAnswers(let offset): return wantUnanswered(through: offset)
        case .readVectors(let keys):
            return .vectors(
                keys.compactMap { key in
                    guard let document = documents[key], document.isLive else { return nil }
                    return Frame.Candidate(key: key, vector: document.vector.encoded())
                })
        case .settle(let keys, let distrusted):
            for key in distrusted { rights[key] = nil }
            wanted.removeAll { keys.contains($0) }
            return nil
        case .report(.connected(let difference)):
            correction = difference
            _ = wantUnanswered(through: .max)
            return wanted.isEmpty ? nil : .wanted(wanted)
        case .report: return nil
        default: return try performRepair(action, wallMilliseconds)
        }
    }

    private mutating func performRepair(_ action: Action, _ wallMilliseconds: UInt64) throws -> Event? {
        switch action {
        case .repair(let request): return try repair(request, wallMilliseconds)
        case .stageRepair(let states):
            for item in states {
                repairStates[item.key] = try item.state.map { try Document(decoding: $0) } ?? Document()
            }
            return .repairStaged
        case .readHoldings(let last): return holdings(after: last)
        case .readStates(let keys, _): return .states(keys.map { ($0, documents[$0]?.encoded()) }, at: nil)
        case .noteSeen(let position, let replaces, _):
            if replaces {
                seen = position
                forgetRetired()
                staged = [:]
                resumptions = [:]
            }
            see(position)
            return .seenNoted
        default: throw Violation("a peer's session asks for nothing else")
        }
    }

    mutating func discardStaged(_ key: [UInt8]) {
        staged[key] = nil
        resumptions[key] = nil
    }

    private func isOutdated(_ candidate: Frame.Candidate, _ subscription: [UInt8]) throws -> Bool {
        let vector = try VersionVector(decoding: candidate.vector)
        if let held = documents[candidate.key] { return !held.vector.covers(vector) }
        let last = staged[subscription]?.last { $0.key == candidate.key }
        guard case .state(let bytes)? = last?.content else { return false }
        return try !Document(decoding: bytes).vector.covers(vector)
    }

    mutating func expectAnswer(_ key: DocumentKey, _ offset: Offset) {
        unanswered[key] = max(unanswered[key] ?? 0, offset)
    }

    /// What a commit has brought up to be asked for.
    mutating func takeAnnounced() -> Event? {
        defer { announced = [] }
        return announced.isEmpty ? nil : .wanted(announced)
    }

    mutating func want(_ keys: [DocumentKey]) -> Event? {
        for key in keys where !wanted.contains(key) { wanted.append(key) }
        return keys.isEmpty ? nil : .wanted(keys)
    }

    mutating func wantUnanswered(through offset: Offset) -> Event? {
        let keys = unanswered.filter { $0.value <= offset }.keys.sorted {
            ($0.collection, $0.id) < ($1.collection, $1.id)
        }
        for key in keys { unanswered[key] = nil }
        return want(keys)
    }

    mutating func see(_ position: LogPosition) {
        if seen.map({ $0.offset < position.offset }) ?? true { seen = position }
    }

    private var heads: [Frame.ActorHead] {
        actors.map { actor in
            let last = own[actor]?.last
            return Frame.ActorHead(
                actor: actor, sequence: last?.sequence ?? acknowledged[actor]?.sequence ?? 0,
                hash: last?.hash ?? acknowledged[actor]?.hash ?? 0)
        }
    }

    private func operations(
        of actor: ActorID, after: SequenceNumber, maxBytes: Int
    ) -> [(sequence: SequenceNumber, bytes: [UInt8])] {
        var found: [(sequence: SequenceNumber, bytes: [UInt8])] = []
        var size = 0
        for operation in own[actor] ?? [] where operation.sequence > after && size < maxBytes {
            size += operation.bytes.count
            found.append((operation.sequence, operation.bytes))
        }
        return found
    }

    private mutating func store(_ batch: Batch) throws -> Event {
        for own in batch.acknowledges { _ = try acknowledged(own.actor, own.through, own.offset) }
        var changed = self
        var missing: [DocumentKey] = []
        var told = Told()
        if let key = batch.publishes {
            for update in changed.staged[key] ?? [] { try changed.mergeTold(update, &told, &missing) }
            try changed.forget(&told, isListed: true)
            changed.discardStaged(key)
            changed.rights[key] = batch.rights
        }
        for update in batch.updates {
            if batch.settles.contains(update.key) {
                try changed.mergeTold(update, &told, &missing)
            } else {
                try changed.merge(update, &missing, &told)
            }
        }
        try changed.forget(&told)
        guard missing.isEmpty else {
            wanted += missing.filter { !wanted.contains($0) }
            return .wanting(missing)
        }
        changed.wanted.removeAll { batch.settles.contains($0) }
        _ = changed.want(told.stale)
        changed.announced += told.stale
        let live = Set(subscriptions.map(\.canonicalKey))
        for (key, position) in batch.cursors where live.contains(key) {
            let held = changed.cursors[key]
            let isLater = held.map { $0.logID == position.logID && $0.offset < position.offset } ?? true
            if isLater || key == batch.publishes { changed.cursors[key] = position }
        }
        for key in batch.distrusts { changed.rights[key] = nil }
        if let position = batch.seen { changed.see(position) }
        if let offset = batch.streamed {
            changed.unanswered = changed.unanswered.filter { $0.value > offset }
        }
        changed.hide(batch.hides)
        self = changed
        return told.returning.isEmpty ? .stored : .returning(told.returning)
    }

    mutating func merge(
        _ update: DocumentUpdate, _ missing: inout [DocumentKey], _ told: inout Told
    ) throws {
        if case .gone(let vector) = update.content {
            return try forget(update.key, VersionVector(decoding: vector), &told)
        }
        var document = documents[update.key] ?? Document()
        switch update.content {
        case .state(let bytes):
            document.merge(try Document(decoding: bytes))
        case .delta(let stamp, let bytes):
            guard document.apply(try Delta(decoding: bytes, stamp: stamp)) != .baseMissing else {
                if !missing.contains(update.key) { missing.append(update.key) }
                return
            }
        case .gone: return
        }
        documents[update.key] = document
        if let latest = document.vector.greatestTime { clock.observe(latest) }
    }
}

extension PeerReplica.OwnOperation {
    var hash: UInt64 { bytes.withUnsafeBytes { hash64($0, seed: 0) } }
}
