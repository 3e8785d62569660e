import CRDT
import DQL
import TestSupport

@testable import Sync

/// One server log behind two instances, and peers that edit, subscribe, lose their connections and come
/// back: chaos from a seed, then healing, then everything must agree.
struct World {
    static let hidden: CollectionName = "secrets"
    /// Here the right to read comes and goes.
    static let guarded: CollectionName = "boats"
    /// Nobody may write here.
    static let locked: CollectionName = "locked"
    /// Here every write adds a field of its own, which nothing removes: what is lost shows.
    static let notes: CollectionName = "notes"
    static let dayMilliseconds: Int64 = 86_400_000
    static let creditBytes = 600
    static let batchBytes = 200
    static let statements = [
        "SELECT * FROM cars", "SELECT * FROM cars WHERE color = 'red'",
        "SELECT * FROM cars WHERE color = 'blue'",
        "SELECT * FROM boats", "SELECT * FROM boats WHERE color = 'red'", "SELECT * FROM secrets",
        "SELECT * FROM notes",
    ]

    /// What goes wrong in a world besides lost connections.
    struct Faults: OptionSet {
        let rawValue: Int
        /// The server is put back to an earlier state.
        static let restores = Faults(rawValue: 1)
        /// Stores are put back to an earlier state.
        static let rollBacks = Faults(rawValue: 2)
        /// Applications write what they may not.
        static let refusals = Faults(rawValue: 4)
        /// Clocks jump by a day.
        static let clocks = Faults(rawValue: 8)
        /// The server goes on reading what a lost connection had brought.
        static let ghosts = Faults(rawValue: 16)
        /// Tombstones are reaped, however young.
        static let reaping = Faults(rawValue: 32)
        /// Peers lose the right to read a collection, and get it back.
        static let grants = Faults(rawValue: 64)
    }

    var generator: SplitMix64
    var log: ServerLog
    var instances: [ServerInstance]
    var peers: [PeerReplica]
    var links: [Int: Link] = [:]
    var origins: [ServerInstance.Origin: UInt64] = [:]
    /// What every folded operation did, for the question what may be sent of it.
    var folded: [Stamp: LiveOperation] = [:]
    /// What full states in the log did.
    var merged: [LiveOperation.Change] = []
    /// Peers that may not read `guarded` now.
    var barred: Set<Int> = []
    /// Peers that have forgotten a cursor of theirs: nobody tells them what of `guarded` may not be read.
    var forgetful: Set<Int> = []
    /// Documents each peer has told that it holds: it may be told what became of them.
    var listed: [Int: Set<DocumentKey>] = [:]
    /// Documents each peer has written: it may be told of them outside its subscriptions (rule 16).
    var written: [Int: Set<DocumentKey>] = [:]
    /// Documents a peer evicted that its subscriptions did not match there: a write of its own, still under
    /// way, may have made them leave.
    private(set) var released: [Int: Set<DocumentKey>] = [:]
    let queries: [SubscriptionQuery]
    let faults: Faults
    var restores = 0
    var reapings = 0
    /// A store was put back to before it became another actor, behind a restore: it may bring as states what
    /// it has moved (see the README's gaps).
    private(set) var hasForgottenMoves = false
    var sessions: UInt64 = 0
    /// The servers' clock, and how far each peer's is ahead of it.
    var wall: UInt64 = 1_700_000_000_000
    var skews: [Int64]
    var serverSkew: UInt64 = 0
    var steps = 0
    var book = WriteBook()
    /// What stores once were.
    var earlier: [Int: PeerReplica] = [:]
    /// Connections that are lost to the peer, and not yet to the server.
    var ghosts: [Link] = []

    init(seed: UInt64, faults: Faults) throws {
        self.faults = faults
        generator = SplitMix64(seed: seed)
        guard let id = LogID(bytes: generator.bytes(count: 16)) else {
            throw Violation("a log id has 16 bytes")
        }
        log = ServerLog(id: id)
        let start = log
        instances = (0..<2).map { _ in ServerInstance(log: start, liveOperations: 6) }
        peers = (0..<(2 + generator.below(4))).map { PeerReplica(number: $0 + 1) }
        skews = peers.map { _ in 0 }
        queries = try Self.statements.map { try SubscriptionQuery(statement: $0) }
    }

    /// Chaos for `count` steps, then healing, then the checks.
    mutating func run(steps count: Int) throws {
        for _ in 0..<count { try chaos() }
        try heal()
        try checkConvergence()
        try checkWrites()
        try checkCounts()
    }

    private mutating func chaos() throws {
        let peer = generator.below(peers.count)
        switch generator.below(100) {
        case 0..<12: try edit(peer)
        case 12..<14: try evict(peer)
        case 14..<18: try toggleSubscription(peer)
        case 18..<23: if links[peer] == nil { try connect(peer) }
        case 23..<25: try cut(peer)
        case 25..<30: try fold(generator.below(2), count: 1 + generator.below(4))
        case 30: try misfortune(peer)
        default: try progress()
        }
    }

    private mutating func misfortune(_ peer: Int) throws {
        if faults.contains(.restores), generator.chance(15) { try restore() }
        if faults.contains(.rollBacks), generator.chance(40) { try rollBack(peer) }
        if faults.contains(.clocks), generator.chance(40) {
            skews[peer] = generator.pick([0, -Self.dayMilliseconds, Self.dayMilliseconds])
            // What a server admits while its clock is ahead must bar nobody when that is over.
            // (A restored log does not have them any more: see the gaps in the README.)
            if !faults.contains(.restores), generator.chance(30) {
                serverSkew = generator.pick([0, UInt64(Self.dayMilliseconds)])
            }
        }
        if faults.contains(.reaping), generator.chance(60) { try reap() }
        if faults.contains(.grants), generator.chance(60) { try toggleGrant(peer) }
    }

    /// What a peer may read now.
    func access(of peer: Int) -> ReadAccess {
        let isBarred = barred.contains(peer)
        return ReadAccess(collection: {
            $0 != Self.hidden && !(isBarred && $0 == Self.guarded)
        })
    }

    private mutating func toggleGrant(_ peer: Int) throws {
        guard var link = links[peer] else {
            barred.formSymmetricDifference([peer])
            return
        }
        // What is under way was sent while it might be.
        for frame in link.near.inbox.dropFirst(link.checked) { try checkSent(frame, link) }
        link.checked = link.near.inbox.count
        barred.formSymmetricDifference([peer])
        link.tellServer(.grantChanged(access(of: peer)))
        links[peer] = link
    }

    /// The server forgets some of the deletions there are.
    private mutating func reap() throws {
        try fold(0, count: .max)
        // Sorted before anything is drawn: a dictionary's order is another one in every process.
        let doomed = instances[0].documents.filter { $0.value.isReapable }
            .sorted { ($0.key.collection, $0.key.id) < ($1.key.collection, $1.key.id) }
            .filter { _ in generator.chance(70) }
        guard !doomed.isEmpty else { return }
        let actor = ActorID(99)
        let operation = Operation(
            actor: actor, sequence: (log.frontier[actor]?.sequence ?? 0).next,
            timestamp: max(wall << 16, (log.frontier[actor]?.timestamp ?? 0) + 1),
            changes: doomed.map {
                Operation.Change(
                    collection: $0.key.collection, id: $0.key.id,
                    delta: ReapingChange.encode(at: $0.value.vector))
            })
        guard log.append(operation, operation.encoded()) == .appended else {
            throw Violation("a server cannot append its own operation")
        }
        reapings += 1
    }

    /// The servers' clock, as they have it.
    var serverWall: UInt64 { wall + serverSkew }

    func wall(of peer: Int) -> UInt64 { UInt64(Int64(wall) + skews[peer]) }

    // MARK: What applications do

    private mutating func edit(_ peer: Int) throws {
        wall += UInt64(generator.below(50))
        var collections = ["cars", "cars", "boats", "boats", Self.hidden, Self.notes]
        if faults.contains(.refusals), generator.chance(25) { collections.append(Self.locked) }
        var keys: [DocumentKey] = []
        for _ in 0...generator.pick([0, 0, 0, 1, 2]) {
            let key = DocumentKey(
                collection: CollectionName(generator.pick(collections).text),
                id: try DocumentID(.int(Int64(generator.below(6)))))
            if !keys.contains(key) { keys.append(key) }
        }
        let choice = generator.below(10)
        let color = generator.pick(["red", "blue", "green"])
        let value = Int64(generator.below(100))
        let number = book.begin(peer)
        let corrected = UInt64(Int64(wall(of: peer)) + peers[peer].correction)
        let actor = try peers[peer].write(number, keys, wallMilliseconds: corrected) { key, editor in
            if key.collection == Self.notes {
                editor.create()
                try editor.set(["w\(number)"], .bool(true))
                return try editor.increment(["count"], by: .int(1))
            }
            switch choice {
            case 0: editor.delete()
            case 1: try editor.unset(["color"])
            case 2...5:
                editor.create()
                try editor.set(["color"], .string(color))
            default:
                editor.create()
                try editor.set(["n"], .int(value))
                if choice == 9 { try editor.set(["color"], .string(color)) }
            }
        }
        guard let actor else { return }
        let bytes = peers[peer].own[actor]?.last?.bytes ?? []
        book.written(number, try Operation(decoding: bytes).keys, bytes)
        written[peer, default: []].formUnion(keys)
        links[peer]?.tellPeer(.ownOperationAdded(actor))
    }

    private mutating func evict(_ peer: Int) throws {
        let keys = peers[peer].documents.keys.filter { $0.collection != Self.notes }
            .sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }
        guard !keys.isEmpty else { return }
        let key = generator.pick(keys)
        forgetful.insert(peer)
        if try peers[peer].evict(key) {
            links[peer]?.tellPeer(.wanted([key]))
        } else {
            released[peer, default: []].insert(key)
        }
    }

    private mutating func toggleSubscription(_ peer: Int) throws {
        let query = generator.pick(queries)
        let held = peers[peer].subscriptions.firstIndex { $0.canonicalKey == query.canonicalKey }
        if let held {
            peers[peer].subscriptions.remove(at: held)
            forgetful.insert(peer)
            links[peer]?.tellPeer(.unsubscribe(key: query.canonicalKey))
        } else {
            peers[peer].subscriptions.append(query)
            links[peer]?.asked.append(query)
            let request = request(peer, query)
            links[peer]?.tellPeer(.subscribe(request))
        }
    }

    private func request(_ peer: Int, _ query: SubscriptionQuery) -> SubscriptionRequest {
        let index = queries.firstIndex { $0.canonicalKey == query.canonicalKey } ?? 0
        return SubscriptionRequest(
            key: query.canonicalKey, statement: Self.statements[index], arguments: .object(ObjectValue()),
            cursor: peers[peer].cursors[query.canonicalKey], rights: peers[peer].rights[query.canonicalKey],
            resume: peers[peer].resumptions[query.canonicalKey],
            holds: peers[peer].documents.keys.contains { $0.collection == query.collection })
    }

    // MARK: What the network and the servers do

    private mutating func connect(_ peer: Int) throws {
        sessions += 1
        peers[peer].discardStaged()
        var link = Link(
            peer: peer, instance: generator.below(2), number: sessions, batchBytes: Self.batchBytes,
            creditBytes: Self.creditBytes, access: access(of: peer), walls: (wall(of: peer), serverWall))
        link.asked = peers[peer].subscriptions
        for query in peers[peer].subscriptions { link.tellPeer(.subscribe(request(peer, query))) }
        link.tellPeer(.opened)
        link.tellServer(.opened)
        links[peer] = link
    }

    /// Breaks a connection anywhere: what was asked of the stores may still be done, nobody hears of it.
    mutating func cut(_ peer: Int) throws {
        guard var link = links.removeValue(forKey: peer) else { return }
        link.near.actions.removeAll { _ in generator.chance(50) }
        for action in link.near.actions { try perform(action, at: peer) }
        peers[peer].correction = 0
        if faults.contains(.ghosts), generator.chance(50), link.far.closed == nil {
            ghosts.append(link)
        } else {
            for action in link.far.actions where generator.chance(50) {
                if case .append(let operations, _) = action { _ = try admit(operations, link) }
            }
        }
        try checkCursors(peer)
    }

    /// Performs an action of a peer's session on its store.
    @discardableResult
    private mutating func perform(_ action: Action, at peer: Int) throws -> Event? {
        // A copy of the store in the midst of a repair, to be put back when it is over.
        if case .repair = action, faults.contains(.rollBacks), generator.chance(30) {
            earlier[peer] = peers[peer]
        }
        let answer = try peers[peer].perform(action, wallMilliseconds: wall(of: peer))
        if case .repair = action {
            for operation in peers[peer].pending { book.moved(operation.write, operation.bytes) }
            for refusal in peers[peer].refused { book.refused(refusal.write, refusal.code) }
        }
        return answer
    }

    mutating func fold(_ index: Int, count: Int) throws {
        for operation in try instances[index].fold(log, count: count, origins: origins) {
            // The record of a refusal bears the stamp of the operation before it.
            if !operation.changes.isEmpty { folded[operation.stamp] = operation }
            merged += operation.changes.filter { $0.delta == nil }
        }
    }

    /// The server's log is put back to what it was earlier; what is appended next makes its hashes differ.
    private mutating func restore() throws {
        for peer in peers.indices { try cut(peer) }
        ghosts = []
        log = log.restored(to: generator.below(log.entries.count + 1))
        let now = log
        instances = instances.map { _ in ServerInstance(log: now, liveOperations: 6) }
        restores += 1
    }

    /// A store is put back to what it was; or what it is now is kept for later.
    private mutating func rollBack(_ peer: Int) throws {
        guard let then = earlier.removeValue(forKey: peer) else {
            earlier[peer] = peers[peer]
            return
        }
        try cut(peer)
        if restores > 0, peers[peer].actor != then.actor { hasForgottenMoves = true }
        peers[peer].rollBack(to: then)
        book.rolledBack(peer, kept: Set(then.pending.map(\.write)))
        forgetful.insert(peer)
    }

    // MARK: One step of a session

    private enum Step {
        case frameToPeer, frameToServer, peerAction, serverAction, peerAnswer, serverAnswer
    }

    private func enabled(_ link: Link) -> [Step] {
        var steps: [Step] = []
        if !link.near.inbox.isEmpty { steps.append(.frameToPeer) }
        if !link.far.inbox.isEmpty { steps.append(.frameToServer) }
        if !link.near.actions.isEmpty { steps.append(.peerAction) }
        if link.far.actions.contains(where: { isReady($0, link) }) { steps.append(.serverAction) }
        if !link.near.answers.isEmpty { steps.append(.peerAnswer) }
        if !link.far.answers.isEmpty { steps.append(.serverAnswer) }
        return steps
    }

    private func isReady(_ action: Action, _ link: Link) -> Bool {
        guard case .awaitOperations(let offset) = action else { return true }
        return offset < instances[link.instance].position.offset
    }

    /// One random step of one random connection; false when nothing can happen.
    @discardableResult
    private mutating func progress() throws -> Bool {
        if !ghosts.isEmpty, generator.chance(20) { return try progressGhost() }
        let able = links.keys.sorted().filter { links[$0].map { !enabled($0).isEmpty } ?? false }
        guard !able.isEmpty else { return false }
        let peer = generator.pick(able)
        guard var link = links[peer] else { return false }
        steps += 1
        switch generator.pick(enabled(link)) {
        case .frameToPeer:
            let frame = link.near.inbox.removeFirst()
            if link.checked > 0 { link.checked -= 1 } else { try checkSent(frame, link) }
            link.tellPeer(.frame(frame))
        case .frameToServer:
            let frame = link.far.inbox.removeFirst()
            try noteListed(frame, link)
            link.tellServer(.frame(frame))
        case .peerAction:
            let action = link.near.actions.remove(at: generator.below(link.near.actions.count))
            if let answer = try perform(action, at: peer) { link.near.answers.append(answer) }
            if let asked = peers[peer].takeAnnounced() { link.near.answers.append(asked) }
        case .serverAction:
            let ready = link.far.actions.indices.filter { isReady(link.far.actions[$0], link) }
            let action = link.far.actions.remove(at: generator.pick(ready))
            if let answer = try perform(action, link) { link.far.answers.append(answer) }
        case .peerAnswer:
            link.tellPeer(link.near.answers.remove(at: generator.below(link.near.answers.count)))
        case .serverAnswer:
            link.tellServer(link.far.answers.remove(at: generator.below(link.far.answers.count)))
        }
        links[peer] = link
        if link.isClosed { try ended(link) }
        return true
    }

    /// One step of a connection that only the server still has.
    private mutating func progressGhost() throws -> Bool {
        let index = generator.below(ghosts.count)
        var link = ghosts[index]
        link.near.inbox = []
        let ready = link.far.actions.indices.filter { isReady(link.far.actions[$0], link) }
        if !link.far.inbox.isEmpty {
            link.tellServer(.frame(link.far.inbox.removeFirst()))
        } else if !ready.isEmpty {
            let action = link.far.actions.remove(at: generator.pick(ready))
            if let answer = try perform(action, link) { link.far.answers.append(answer) }
        } else if !link.far.answers.isEmpty {
            link.tellServer(link.far.answers.removeFirst())
        } else {
            ghosts.remove(at: index)
            return true
        }
        ghosts[index] = link
        if link.far.closed != nil { ghosts.remove(at: index) }
        return true
    }

    /// A session may end only because somebody else has written as its actor (a connection that was lost to
    /// the peer only: the handshake tells them apart), or because a clock jumped after it had been
    /// corrected.
    private mutating func ended(_ link: Link) throws {
        let reason = link.far.closed ?? link.near.closed
        let explained: [SyncErrorCode] =
            (faults.contains(.ghosts) ? [.actorConflict] : [])
            + (faults.contains(.clocks) ? [.clockTooFarAhead] : [])
        guard let reason, explained.contains(where: { $0.rawValue == reason.code }) else {
            throw Violation("a session ended: \(reason.map { "\($0)" } ?? "without a reason")")
        }
        try cut(link.peer)
    }

    // MARK: Healing

    /// Connects everybody and lets everything that can happen happen, until nothing can.
    private mutating func heal() throws {
        // The clocks were a day away; from now on time does not run backwards.
        serverSkew = 0
        for peer in peers.indices where faults.contains(.clocks) {
            skews[peer] = generator.pick([0, skews[peer]])
        }
        for _ in 0..<60 {
            for peer in peers.indices where links[peer] == nil { try connect(peer) }
            for _ in 0..<20_000 {
                for index in instances.indices { try fold(index, count: .max) }
                wall += 1
                if try !progress() { break }
            }
            let isQuiet =
                ghosts.isEmpty && links.count == peers.count
                && links.values.allSatisfy { enabled($0).isEmpty }
            if isQuiet, !instances.contains(where: { $0.position != log.head }) { return }
        }
        throw Violation("no rest after healing")
    }
}
