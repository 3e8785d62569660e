import CRDT
import DQL
import TestSupport

@testable import Sync

/// One server log behind two instances, and peers that edit, subscribe, lose their connections and come
/// back: chaos from a seed, then healing, then everything must agree.
struct World {
    static let hidden = "secrets"
    static let creditBytes = 600
    static let batchBytes = 200
    static let statements = [
        "SELECT * FROM cars", "SELECT * FROM cars WHERE color = 'red'",
        "SELECT * FROM cars WHERE color = 'blue'",
        "SELECT * FROM boats", "SELECT * FROM boats WHERE color = 'red'", "SELECT * FROM secrets",
    ]

    var generator: SplitMix64
    var log: ServerLog
    var instances: [ServerInstance]
    var peers: [PeerReplica]
    var links: [Int: Link] = [:]
    var origins: [ServerInstance.Origin: UInt64] = [:]
    /// What every folded operation did, for the question what may be sent of it.
    var folded: [Stamp: LiveOperation] = [:]
    /// Documents each peer has written: it may be told of them outside its subscriptions (rule 16).
    var written: [Int: Set<DocumentKey>] = [:]
    /// Documents a peer held, and showed as matching, while a subscription had no cursor: nothing in the
    /// protocol tells it that they have stopped matching at the server.
    private(set) var unsettled: [Int: Set<DocumentKey>] = [:]
    /// Documents a peer evicted that its subscriptions did not match there: a write of its own, still under
    /// way, may have made them leave.
    private(set) var released: [Int: Set<DocumentKey>] = [:]
    let queries: [SubscriptionQuery]
    private(set) var restores = 0
    private var sessions: UInt64 = 0
    private var wall: UInt64 = 1_700_000_000_000
    private(set) var steps = 0

    init(seed: UInt64) throws {
        generator = SplitMix64(seed: seed)
        guard let id = LogID(bytes: generator.bytes(count: 16)) else {
            throw Violation("a log id has 16 bytes")
        }
        log = ServerLog(id: id)
        let start = log
        instances = (0..<2).map { _ in ServerInstance(log: start, liveOperations: 6) }
        peers = (0..<(2 + generator.below(4))).map { PeerReplica(number: $0 + 1) }
        queries = try Self.statements.map { try SubscriptionQuery(statement: $0) }
    }

    /// Chaos for `count` steps, then healing, then the checks.
    mutating func run(steps count: Int, restores allowsRestores: Bool) throws {
        for _ in 0..<count { try chaos(allowsRestores) }
        try heal()
        try checkConvergence()
    }

    private mutating func chaos(_ allowsRestores: Bool) throws {
        let peer = generator.below(peers.count)
        switch generator.below(100) {
        case 0..<12: try edit(peer)
        case 12..<14: try evict(peer)
        case 14..<18: try toggleSubscription(peer)
        case 18..<23: if links[peer] == nil { try connect(peer) }
        case 23..<25: try cut(peer)
        case 25..<30: try fold(generator.below(2), count: 1 + generator.below(4))
        case 30 where allowsRestores && generator.chance(15): try restore()
        default: try progress()
        }
    }

    // MARK: What applications do

    private mutating func edit(_ peer: Int) throws {
        wall += UInt64(generator.below(50))
        var keys: [DocumentKey] = []
        for _ in 0...generator.pick([0, 0, 0, 1, 2]) {
            let collection = generator.pick(["cars", "cars", "boats", Self.hidden])
            let key = DocumentKey(
                collection: collection, id: try DocumentID(.int(Int64(generator.below(6)))))
            if !keys.contains(key) { keys.append(key) }
        }
        let choice = generator.below(10)
        let color = generator.pick(["red", "blue", "green"])
        let number = Int64(generator.below(100))
        let actor = try peers[peer].write(keys, wallMilliseconds: wall) { editor in
            switch choice {
            case 0: editor.delete()
            case 1: try editor.unset(["color"])
            case 2...5:
                editor.create()
                try editor.set(["color"], .string(color))
            default:
                editor.create()
                try editor.set(["n"], .int(number))
                if choice == 9 { try editor.set(["color"], .string(color)) }
            }
        }
        guard let actor else { return }
        written[peer, default: []].formUnion(keys)
        try noteUnsettled(peer)
        links[peer]?.tellPeer(.ownOperationAdded(actor))
    }

    private mutating func evict(_ peer: Int) throws {
        let keys = peers[peer].documents.keys.sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }
        guard !keys.isEmpty else { return }
        let key = generator.pick(keys)
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
            links[peer]?.tellPeer(.unsubscribe(key: query.canonicalKey))
        } else {
            peers[peer].subscriptions.append(query)
            try noteUnsettled(peer)
            links[peer]?.asked.append(query)
            let request = request(peer, query)
            links[peer]?.tellPeer(.subscribe(request))
        }
    }

    private mutating func noteUnsettled(_ peer: Int) throws {
        for query in peers[peer].subscriptions where peers[peer].cursors[query.canonicalKey] == nil {
            for (key, document) in peers[peer].documents where try query.covers(key, document) {
                unsettled[peer, default: []].insert(key)
            }
        }
    }

    private func request(_ peer: Int, _ query: SubscriptionQuery) -> SubscriptionRequest {
        let index = queries.firstIndex { $0.canonicalKey == query.canonicalKey } ?? 0
        return SubscriptionRequest(
            key: query.canonicalKey, statement: Self.statements[index], arguments: .object(ObjectValue()),
            cursor: peers[peer].cursors[query.canonicalKey])
    }

    // MARK: What the network and the servers do

    private mutating func connect(_ peer: Int) throws {
        sessions += 1
        peers[peer].discardStaged()
        var link = Link(
            peer: peer, instance: generator.below(2), number: sessions, batchBytes: Self.batchBytes,
            creditBytes: Self.creditBytes, hidden: Self.hidden)
        link.asked = peers[peer].subscriptions
        try noteUnsettled(peer)
        for query in peers[peer].subscriptions { link.tellPeer(.subscribe(request(peer, query))) }
        link.tellPeer(.opened)
        link.tellServer(.opened)
        links[peer] = link
    }

    /// Breaks a connection anywhere: what was asked of the stores may still be done, nobody hears of it.
    mutating func cut(_ peer: Int) throws {
        guard var link = links.removeValue(forKey: peer) else { return }
        link.near.actions.removeAll { _ in generator.chance(50) }
        for action in link.near.actions { _ = try peers[peer].perform(action) }
        for action in link.far.actions where generator.chance(50) {
            if case .append(let operations) = action { _ = try admit(operations, link) }
        }
        try checkCursors(peer)
    }

    private mutating func fold(_ index: Int, count: Int) throws {
        for operation in try instances[index].fold(log, count: count, origins: origins) {
            folded[operation.stamp] = operation
        }
    }

    /// The server's log is put back to what it was earlier; what is appended next makes its hashes differ.
    private mutating func restore() throws {
        for peer in peers.indices { try cut(peer) }
        log = log.restored(to: generator.below(log.entries.count + 1))
        let now = log
        instances = instances.map { _ in ServerInstance(log: now, liveOperations: 6) }
        restores += 1
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
        let able = links.keys.sorted().filter { links[$0].map { !enabled($0).isEmpty } ?? false }
        guard !able.isEmpty else { return false }
        let peer = generator.pick(able)
        guard var link = links[peer] else { return false }
        steps += 1
        switch generator.pick(enabled(link)) {
        case .frameToPeer:
            let frame = link.near.inbox.removeFirst()
            try checkSent(frame, link)
            link.tellPeer(.frame(frame))
        case .frameToServer: link.tellServer(.frame(link.far.inbox.removeFirst()))
        case .peerAction:
            let action = link.near.actions.remove(at: generator.below(link.near.actions.count))
            if let answer = try peers[peer].perform(action) { link.near.answers.append(answer) }
            try noteUnsettled(peer)
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

    /// A session may end only for what a restored log explains.
    private mutating func ended(_ link: Link) throws {
        let reason = link.far.closed ?? link.near.closed
        let explained = [SyncErrorCode.baseNotCovered.rawValue]
        guard restores > 0, let reason, explained.contains(reason.code) else {
            throw Violation("a session ended: \(reason.map { "\($0)" } ?? "without a reason")")
        }
        try cut(link.peer)
    }

    // MARK: The server's store

    private mutating func perform(_ action: Action, _ link: Link) throws -> Event? {
        let index = link.instance
        switch action {
        case .readFrontier(let actors):
            let heads = actors.compactMap { actor in
                log.frontier[actor].map {
                    Frame.ActorHead(actor: actor, sequence: $0.sequence, hash: $0.hash)
                }
            }
            return .frontier(heads, head: instances[index].position)
        case .readPage(let id, let query, let start):
            return .page(subscription: id, try page(query, start, index))
        case .awaitOperations(let offset):
            return instances[index].operations(after: offset, atMost: 1 + generator.below(4))
        case .append(let operations): return try admit(operations, link)
        case .readStates(let keys):
            try fold(index, count: .max)
            return .states(keys.map { ($0, instances[index].documents[$0]?.encoded()) })
        case .report: return nil
        default: throw Violation("a server's session asks for nothing else")
        }
    }

    private mutating func page(
        _ query: SubscriptionQuery, _ start: PageStart, _ index: Int
    ) throws -> CatchUpPage {
        let count = 1 + generator.below(4)
        switch start {
        case .cursor(let cursor):
            let isKnown = log.position(at: cursor.offset) == cursor
            if isKnown, instances[index].position.offset < cursor.offset { try fold(index, count: .max) }
            return try instances[index].page(
                of: query, after: isKnown ? cursor.offset : 0, namesAfter: 0, count: count)
        case .offset(let offset, let namesAfter):
            if offset == 0 { try fold(index, count: .max) }
            return try instances[index].page(of: query, after: offset, namesAfter: namesAfter, count: count)
        }
    }

    private mutating func admit(_ uploads: [[UInt8]], _ link: Link) throws -> Event {
        var reached: [ActorID: UInt64] = [:]
        func acknowledgements() -> [Frame.Acknowledgement] {
            reached.map { Frame.Acknowledgement(actor: $0.key, sequence: $0.value) }
        }
        for bytes in uploads {
            let operation = try Operation(decoding: bytes)
            if try !isCovered(operation, link.instance) { try fold(link.instance, count: .max) }
            guard try isCovered(operation, link.instance) else {
                return .refused(acknowledgements(), refusal(operation, .baseNotCovered))
            }
            let origin = ServerInstance.Origin(actor: operation.actor, sequence: operation.sequence)
            switch log.append(operation, bytes) {
            case .appended:
                origins[origin] = link.number
                reached[operation.actor] = operation.sequence
            case .duplicate(let through):
                reached[operation.actor] = max(reached[operation.actor] ?? 0, through)
            case .gap: return .refused(acknowledgements(), refusal(operation, .sequenceGap))
            }
            // An instance may fold an operation before its append is answered.
            if generator.chance(30) { try fold(link.instance, count: .max) }
        }
        return .appended(acknowledgements())
    }

    private func isCovered(_ operation: Operation, _ index: Int) throws -> Bool {
        try operation.changes.allSatisfy { change in
            let key = DocumentKey(collection: change.collection, id: change.id)
            let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
            return instances[index].vector(of: key).covers(delta.base)
        }
    }

    private func refusal(_ operation: Operation, _ code: SyncErrorCode) -> Frame.Refusal {
        Frame.Refusal(
            actor: operation.actor, sequence: operation.sequence, error: SyncError(code, "in the simulation"))
    }

    // MARK: Healing

    /// Connects everybody and lets everything that can happen happen, until nothing can.
    private mutating func heal() throws {
        for _ in 0..<60 {
            for peer in peers.indices where links[peer] == nil { try connect(peer) }
            for _ in 0..<20_000 {
                for index in instances.indices { try fold(index, count: .max) }
                if try !progress() { break }
            }
            let isQuiet = links.count == peers.count && links.values.allSatisfy { enabled($0).isEmpty }
            if isQuiet, !instances.contains(where: { $0.position != log.head }) { return }
        }
        throw Violation("no rest after healing")
    }
}
