import CRDT
import DQL
import Sync

/// A peer's store in memory, with the rules of the real one: durable cursors, staged pages, wanted
/// documents, evictions that retire actors.
struct PeerReplica {
    struct OwnOperation {
        let sequence: UInt64
        let bytes: [UInt8]
    }

    private(set) var documents: [DocumentKey: Document] = [:]
    private(set) var own: [ActorID: [OwnOperation]] = [:]
    private(set) var actors: [ActorID] = []
    private(set) var acknowledged: [ActorID: UInt64] = [:]
    private(set) var cursors: [[UInt8]: LogPosition] = [:]
    private(set) var wanted: [DocumentKey] = []
    private var staged: [[UInt8]: [DocumentUpdate]] = [:]
    private var evictedActors: [DocumentKey: Set<ActorID>] = [:]
    private var clock = HybridClock()
    private var actor: ActorID
    private var nextActor: UInt64
    /// What the application subscribes to, with its canonical key.
    var subscriptions: [SubscriptionQuery] = []

    /// - Parameter number: makes its actors its own.
    init(number: Int) {
        nextActor = UInt64(number) << 32 | 1
        actor = ActorID(nextActor &* 0x9E37_79B9_7F4A_7C15)
    }

    // MARK: The application

    /// One transaction over documents; returns the actor when it became an operation.
    mutating func write(
        _ keys: [DocumentKey], wallMilliseconds: UInt64, _ edit: (inout DocumentEditor) throws -> Void
    ) throws -> ActorID? {
        // Rule 10 also when the document is back: what came may be older than what was evicted, and then the
        // next stamp's vector would claim writes that are not in it.
        if keys.contains(where: { evictedActors[$0]?.contains(actor) == true }) { renew() }
        let stamp = Stamp(time: clock.next(wallMilliseconds: wallMilliseconds), actor: actor)
        var changes: [Operation.Change] = []
        for key in keys {
            var editor = DocumentEditor(document: documents[key] ?? Document(), stamp: stamp)
            try edit(&editor)
            guard let delta = editor.pending.delta(stamp: stamp) else { continue }
            documents[key] = editor.document
            changes.append(Operation.Change(collection: key.collection, id: key.id, delta: delta.encoded()))
        }
        guard !changes.isEmpty else { return nil }
        let sequence = UInt64(own[actor]?.count ?? 0) + 1
        let operation = Operation(
            actor: actor, sequence: sequence, timestamp: stamp.time, changes: changes)
        if sequence == 1 { actors.append(actor) }
        own[actor, default: []].append(OwnOperation(sequence: sequence, bytes: operation.encoded()))
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

    private mutating func renew() {
        nextActor += 1
        actor = ActorID(nextActor &* 0x9E37_79B9_7F4A_7C15)
    }

    // MARK: The session's actions

    mutating func perform(_ action: Action) throws -> Event? {
        switch action {
        case .readOwnActors: return .ownActors(heads)
        case .compareHistory(let heads):
            return .historyCompared(
                forked: heads.filter { head in
                    let held = own[head.actor]?.first { $0.sequence == head.sequence }
                    return held.map { $0.bytes.withUnsafeBytes { hash64($0, seed: 0) } } != head.hash
                }.map(\.actor))
        case .readOwnOperations(let actor, let after, let maxBytes):
            return .ownOperations(actor: actor, operations(of: actor, after: after, maxBytes: maxBytes))
        case .store(let batch): return try store(batch)
        case .stage(let updates, let key):
            staged[key, default: []] += updates
            return .stored
        case .unstage(let key):
            staged[key] = nil
            return .stored
        case .findOutdated(let candidates):
            return .outdated(
                try candidates.filter { candidate in
                    guard let held = documents[candidate.key] else { return false }
                    return !held.vector.covers(try VersionVector(decoding: candidate.vector))
                }.map(\.key))
        case .acknowledge(let actor, let sequence):
            acknowledged[actor] = max(acknowledged[actor] ?? 0, sequence)
            return nil
        case .renewActor(let old):
            if old == actor { renew() }
            return nil
        case .settle(let keys):
            wanted.removeAll { keys.contains($0) }
            return nil
        case .report(.connected): return wanted.isEmpty ? nil : .wanted(wanted)
        case .report: return nil
        default: throw Violation("a peer's session asks for nothing else")
        }
    }

    /// A session begins: what an earlier one staged starts over.
    mutating func discardStaged() { staged = [:] }

    private var heads: [Frame.ActorHead] {
        actors.compactMap { actor in
            own[actor]?.last.map {
                Frame.ActorHead(
                    actor: actor, sequence: $0.sequence,
                    hash: $0.bytes.withUnsafeBytes { hash64($0, seed: 0) })
            }
        }
    }

    private func operations(
        of actor: ActorID, after: UInt64, maxBytes: Int
    ) -> [(sequence: UInt64, bytes: [UInt8])] {
        var found: [(sequence: UInt64, bytes: [UInt8])] = []
        var size = 0
        for operation in own[actor]?.dropFirst(Int(after)) ?? [] where size < maxBytes {
            size += operation.bytes.count
            found.append((operation.sequence, operation.bytes))
        }
        return found
    }

    private mutating func store(_ batch: Batch) throws -> Event {
        var changed = self
        var missing: [DocumentKey] = []
        if let key = batch.publishes {
            for update in changed.staged.removeValue(forKey: key) ?? [] {
                try changed.merge(update, &missing)
            }
        }
        for update in batch.updates { try changed.merge(update, &missing) }
        guard missing.isEmpty else {
            wanted += missing.filter { !wanted.contains($0) }
            return .wanting(missing)
        }
        changed.wanted.removeAll { batch.settles.contains($0) }
        let live = Set(subscriptions.map(\.canonicalKey))
        for (key, position) in batch.cursors where live.contains(key) {
            let held = changed.cursors[key]
            let isLater = held.map { $0.logID == position.logID && $0.offset < position.offset } ?? true
            if isLater || key == batch.publishes { changed.cursors[key] = position }
        }
        self = changed
        return .stored
    }

    private mutating func merge(_ update: DocumentUpdate, _ missing: inout [DocumentKey]) throws {
        var document = documents[update.key] ?? Document()
        switch update.content {
        case .state(let bytes):
            document.merge(try Document(decoding: bytes))
        case .delta(let stamp, let bytes):
            guard document.apply(try Delta(decoding: bytes, stamp: stamp)) != .baseMissing else {
                return missing.append(update.key)
            }
        }
        documents[update.key] = document
        if let latest = document.vector.greatestTime { clock.observe(latest) }
    }
}
