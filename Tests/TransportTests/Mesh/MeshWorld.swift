import CRDT
import DQL
import Foundation
import TestSupport

@testable import Replica
@testable import Transport

/// Small peers, their links and their misfortunes, from a seed: real stores on disk and real sessions, whose
/// events and frames are handled in an order that the seed chooses. A seed is one history.
///
/// Two to five peers in a chain, a ring, a star or a clique. Each writes three documents, whose colour says
/// which subscriptions they belong to. Where subscriptions differ, all are linked with all: then what each
/// holds must still be the join of what all hold.
final class MeshWorld {
    struct Fault: Error, CustomStringConvertible {
        let seed: UInt64
        let what: String
        var description: String { "seed \(seed): \(what)" }
    }

    enum Shape: CaseIterable { case chain, ring, star, clique }

    private let seed: UInt64
    private var random: SplitMix64
    private var milliseconds: UInt64 = 1_800_000_000_000
    private let peers: [MeshPeer]
    private let pairs: [(Int, Int)]
    private var links: [Int: MeshLinkRun] = [:]
    private let areAlike: Bool
    private let keys: [DocumentKey]
    /// What has happened, for a failure's message.
    private(set) var history: [String] = []
    private final class Clock: Sendable {
        static func now() -> UInt64 { 1_800_000_000_000 }
    }

    init(seed: UInt64, in folder: URL) throws {
        self.seed = seed
        var random = SplitMix64(seed: seed)
        let count = 2 + random.below(4)
        let shape = random.pick(Shape.allCases)
        areAlike = shape != .clique || random.chance(30)
        keys = try (0..<3).map { DocumentKey(collection: "c", id: try DocumentID(.int(Int64($0)))) }
        pairs =
            switch shape {
            case .chain: (1..<count).map { ($0 - 1, $0) }
            case .ring: count > 2 ? (0..<count).map { ($0, ($0 + 1) % count) } : [(0, 1)]
            case .star: (1..<count).map { (0, $0) }
            case .clique: (0..<count).flatMap { first in (0..<first).map { (first, $0) } }
            }
        peers = try (0..<count).map { place in
            try MeshPeer("p\(place)", in: folder, seed: random.next(), milliseconds: Clock.now)
        }
        self.random = random
        for peer in peers { try peer.subscribe(drawStatement()) }
    }

    private func drawStatement() -> String {
        guard !areAlike else { return "SELECT * FROM c" }
        let colours = (0..<3).filter { _ in random.chance(50) }
        let drawn = colours.isEmpty ? [random.below(3)] : colours
        return "SELECT * FROM c WHERE \(drawn.map { "colour = \($0)" }.joined(separator: " OR "))"
    }

    func close() throws { for peer in peers { try peer.close() } }

    /// The whole history: chaos, then all links until nothing moves.
    func run(steps: Int) async throws {
        for _ in 0..<steps {
            try await step()
            try checkVectors()
        }
        try await settle()
        try checkVectors()
        try checkEnd()
    }

    // MARK: Chaos

    private func step() async throws {
        let peer = random.pick(peers)
        switch random.below(100) {
        case 0..<34: try write(peer)
        case 34..<70: try await pump()
        case 70..<80: connect(random.below(pairs.count))
        case 80..<84: cut(random.below(pairs.count))
        case 84..<90: try evict(peer)
        case 90..<93: try subscribe(peer)
        default: try restart(peer)
        }
    }

    private func write(_ peer: MeshPeer) throws {
        let (id, colour) = (random.below(3), random.below(3))
        let statement =
            switch random.below(10) {
            case 0..<4:
                "INSERT INTO c DOCUMENTS ({'_id': \(id), 'colour': \(colour)}) ON ID CONFLICT DO UPDATE"
            case 4..<6: "UPDATE c SET x = \(random.below(3)) WHERE _id = \(id)"
            case 6..<8: "UPDATE c SET y = \(random.below(3)), colour = \(colour) WHERE _id = \(id)"
            default: "DELETE FROM c WHERE _id = \(id)"
            }
        history.append("\(peer.name) \(statement)")
        try peer.execute(statement)
    }

    private func connect(_ pair: Int) {
        guard links[pair]?.isOver ?? true else { return }
        let (first, second) = (peers[pairs[pair].0], peers[pairs[pair].1])
        history.append("\(first.name) meets \(second.name)")
        links[pair] = random.chance(50) ? MeshLinkRun(first, second) : MeshLinkRun(second, first)
    }

    private func cut(_ pair: Int) {
        guard let link = links.removeValue(forKey: pair) else { return }
        history.append("\(peers[pairs[pair].0].name) loses \(peers[pairs[pair].1].name)")
        link.cut()
    }

    /// Some things happen at some ends, in any order.
    private func pump() async throws {
        for _ in 0..<(1 + random.below(60)) {
            if random.chance(20) {
                _ = random.pick(peers).later.step()
            } else if let pair = links.keys.sorted().randomOne(&random) {
                _ = try await links[pair]?.step(random.below(2))
            }
        }
    }

    private func evict(_ peer: MeshPeer) throws {
        let id = random.below(3)
        guard try peer.state(keys[id]) != nil else { return }
        history.append("\(peer.name) evicts \(id)")
        try peer.execute("EVICT FROM c WHERE _id = \(id)")
    }

    private func subscribe(_ peer: MeshPeer) throws {
        guard !areAlike else { return }
        for statement in peer.statements.keys { try peer.unsubscribe(statement) }
        let statement = drawStatement()
        history.append("\(peer.name) subscribes to \(statement)")
        try peer.subscribe(statement)
    }

    private func restart(_ peer: MeshPeer) throws {
        for (pair, ends) in pairs.enumerated() where peers[ends.0] === peer || peers[ends.1] === peer {
            cut(pair)
        }
        let putsBack = peer.isKept && random.chance(50)
        history.append("\(peer.name) \(putsBack ? "is put back" : "is kept")")
        try peer.restart(putBack: putsBack, keeping: !putsBack)
    }

    // MARK: Rest

    private func settle() async throws {
        history.append("rest")
        for pair in pairs.indices { connect(pair) }
        var quiet = false
        var rounds = 0
        while !quiet {
            quiet = true
            rounds += 1
            guard rounds < 400 else { throw fault("does not come to rest") }
            for peer in peers { while peer.later.step() { quiet = false } }
            for pair in pairs.indices {
                if links[pair]?.isOver ?? true {
                    if let reason = links[pair]?.ends.compactMap(\.reason).first, reason.code != "SYNC-0503" {
                        throw fault("a link ended: \(reason)")
                    }
                    connect(pair)
                }
                for place in [0, 1] {
                    while try await links[pair]?.step(place) ?? false { quiet = false }
                }
            }
        }
    }

    private func fault(_ what: String) -> Fault { Fault(seed: seed, what: what) }

    /// Invariant 1: equal vectors have equal content, at every step.
    private func checkVectors() throws {
        for key in keys {
            var seen: [[UInt8]: (name: String, state: EncodedState)] = [:]
            for peer in peers {
                guard let state = try peer.state(key) else { continue }
                let vector = try state.withUnsafeBytes { try DocumentReader($0).vector().encoded() }
                if let other = seen[vector], other.state != state {
                    throw fault("\(other.name) and \(peer.name): equal vectors, other content")
                }
                seen[vector] = (peer.name, state)
            }
        }
    }

    /// Invariants 3 and 5: what a peer holds that matches is the join of what all hold, and what it shows
    /// matches.
    private func checkEnd() throws {
        for key in keys {
            var joined = Document()
            for peer in peers {
                if let state = try peer.state(key) { joined.merge(try Document(decoding: state)) }
            }
            for peer in peers {
                let own = try peer.state(key).map { try Document(decoding: $0) }
                let isShown = try own.map { try peer.matches(key, $0) } ?? false
                guard try peer.matches(key, joined) || isShown, own != joined else { continue }
                throw fault(
                    isShown && !joined.isLive
                        ? "\(peer.name) shows what was removed of \(key.id)"
                        : "\(peer.name) lacks something of \(key.id)")
            }
        }
    }
}

extension Array {
    fileprivate func randomOne(_ random: inout SplitMix64) -> Element? { isEmpty ? nil : random.pick(self) }
}
