import CRDT
import DQL
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

/// Peers, and a server that is a log in memory with a materialization. Everything random comes from the
/// seed.
///
/// Peer 0 is told every operation; the others are told the changes of documents
/// that match their query before or after an operation. Full states come at random times, evictions and
/// restarts too. Clocks differ by hours.
final class World {
    final class Peer {
        let folder: URL
        let environment: TestEnvironment
        /// nil to be told everything.
        let query: SubscriptionQuery?
        var replica: PeerReplica
        /// The offset it was told operations up to.
        var offset: Offset = 0
        /// The documents that it evicted and was not sent whole since.
        var evicted: Set<DocumentKey> = []

        init(_ folder: URL, _ environment: TestEnvironment, _ query: SubscriptionQuery?) throws {
            self.folder = folder
            self.environment = environment
            self.query = query
            replica = try open(folder, environment)
        }
    }

    let peers: [Peer]
    let server: Materialization
    private(set) var log = TestLog()
    private var folded: [FoldedOperation] = []
    private var random: SplitMix64

    init(folder: URL, seed: UInt64, peers count: Int) throws {
        random = SplitMix64(seed: seed)
        server = try openFold(folder.appendingPathComponent("server"))
        peers = try (0..<count).map { number in
            let environment = TestEnvironment(seed: seed &* 1_000 &+ UInt64(number) &+ 1)
            environment.milliseconds += UInt64(number) * 3_600_000
            let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE kind = \(number % 3)")
            return try Peer(
                folder.appendingPathComponent("peer-\(number)"), environment, number == 0 ? nil : query)
        }
    }

    /// One random event at one random peer.
    func step() throws {
        let peer = random.pick(peers)
        peer.environment.milliseconds += UInt64(random.below(50))
        switch random.below(100) {
        case 0..<50: try write(peer)
        case 50..<65: try upload(peer)
        case 65..<85: try download(peer, upTo: Offset(UInt64(random.below(log.operations.count + 1))))
        case 85..<92: try sendStates(to: peer, chance: 30)
        case 92..<96: try evict(peer)
        default: try restart(peer)
        }
    }

    private func write(_ peer: Peer) throws {
        let id = random.below(6)
        let field = random.pick(["a", "b", "m.x", "m.y", "m.z.deep", "kind"])
        let value = random.below(3)
        let statement =
            switch random.below(10) {
            case 0..<3:
                """
                INSERT INTO c DOCUMENTS ({'_id': \(id), 'kind': \(value), 'm': {'x': 1}})
                ON ID CONFLICT DO UPDATE
                """
            case 3..<7: "UPDATE c SET \(field) = \(value) WHERE _id = \(id)"
            case 7: "UPDATE c UNSET \(field) WHERE kind = \(value)"
            case 8: "UPDATE c SET \(field) = {'k\(value)': \(id)} WHERE _id = \(id)"
            default: "DELETE FROM c WHERE _id = \(id)"
            }
        try peer.replica.execute(statement)
    }

    private func evict(_ peer: Peer) throws {
        let id = random.below(6)
        let key = try key("c", .int(Int64(id)))
        guard try peer.replica.state(key) != nil else { return }
        try peer.replica.execute("EVICT FROM c WHERE _id = \(id)")
        peer.evicted.insert(key)
    }

    private func restart(_ peer: Peer) throws {
        try peer.replica.close()
        peer.replica = try open(peer.folder, peer.environment)
    }

    /// Takes a peer's unacknowledged operations to the log, in the order of its commits.
    func upload(_ peer: Peer) throws {
        var pending: [OwnOperation] = []
        for actor in try peer.replica.ownActors() {
            pending += try peer.replica.ownOperations(
                of: actor.actor, after: actor.acknowledged, maxBytes: .max)
        }
        for operation in pending.sorted(by: { $0.commit < $1.commit }) {
            let decoded = try CRDT.Operation(decoding: operation.bytes)
            log.append(decoded)
            folded += try server.fold(log.items(after: log.head.offset.previous))
            try peer.replica.acknowledge(decoded.actor, through: decoded.sequence)
        }
    }

    /// Tells a peer the operations after its offset that concern it; its own ones too, as after a lost
    /// answer.
    func download(_ peer: Peer, upTo end: Offset) throws {
        while peer.offset < end {
            let operation = folded[Int(peer.offset.rawValue)]
            let updates = try operation.changes.filter { try concerns($0, peer.query) }.map {
                DocumentUpdate(key: $0.key, content: .delta(operation.stamp, $0.delta ?? []))
            }
            try deliver(updates, at: operation.position, to: peer)
            peer.offset = peer.offset.next
        }
    }

    /// Sends each document's current state with some probability.
    func sendStates(to peer: Peer, chance: Int) throws {
        for (key, state) in try server.everything().sorted(by: { $0.key.id < $1.key.id })
        where random.chance(chance) {
            try deliver([DocumentUpdate(key: key, content: .state(state))], at: nil, to: peer)
        }
    }

    private func deliver(_ updates: [DocumentUpdate], at position: LogPosition?, to peer: Peer) throws {
        var reception = Reception(
            updates: updates, cursors: position.map { [(key: [1], position: $0)] } ?? [])
        if case .wanting(let keys) = try peer.replica.receive(reception) {
            let states = try keys.map { key in
                DocumentUpdate(key: key, content: .state(try #require(try server.state(key))))
            }
            reception.updates = states + updates
            #expect(try peer.replica.receive(reception) == .stored)
        }
        for update in reception.updates {
            if case .state = update.content { peer.evicted.remove(update.key) }
        }
    }

    private func concerns(_ change: FoldedOperation.Change, _ query: SubscriptionQuery?) throws -> Bool {
        guard let query else { return true }
        return try [change.before, change.after].contains { state in
            try (state ?? []).withUnsafeBytes { raw in
                guard raw.count > 0 else { return false }
                let document = try DocumentReader(raw)
                return try document.isLive
                    && query.matches(DocumentRecord(id: change.key.id, document: document))
            }
        }
    }
}
