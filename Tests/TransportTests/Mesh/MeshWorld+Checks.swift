import Exchange
import TestSupport

@testable import CRDT
@testable import Replica
@testable import Transport

// Checks of a mesh's world: at every step, and at rest.

extension MeshWorld {
    private func content(_ state: EncodedState?) throws -> Document? {
        try state.map { try Document(decoding: $0) }
    }

    func fault(_ what: String) -> Fault { Fault(seed: seed, what: what) }

    /// Invariant 1: equal vectors have equal content, at every step.
    func checkVectors() async throws {
        for key in keys {
            var seen: [[UInt8]: (name: String, root: MapNode)] = [:]
            for peer in left {
                guard try !peer.isQuarantined(key), let document = try content(try peer.state(key)) else {
                    continue
                }
                try compare(key, peer.name, document, &seen)
            }
            if let document = try content(try await server?.state(key)) {
                try compare(key, "the server", document, &seen)
            }
        }
    }

    private func compare(
        _ key: DocumentKey, _ name: String, _ document: Document,
        _ seen: inout [[UInt8]: (name: String, root: MapNode)]
    ) throws {
        guard !document.vector.isEmpty else { return }
        let mark = document.vector.encoded()
        if let other = seen[mark], other.root != document.root {
            let contents = "\(other.root)\n\(document.root)"
            throw fault("\(other.name) and \(name): equal vectors of \(key.id), other content\n\(contents)")
        }
        seen[mark] = (name, document.root)
    }

    /// Invariant 4: every write that the documents know of shows, also if its author was put back or has
    /// evicted the document; in a calm world every write.
    private func checkWrites(of key: DocumentKey, in joined: Document) async throws {
        var made = Document()
        var operations = try peers.flatMap(\.operations).map { try CRDT.Operation(decoding: $0.bytes) }
        operations += try await server?.states() ?? []
        for operation in operations.sorted(by: { $0.timestamp < $1.timestamp }) {
            let stamp = operation.stamp
            let change = operation.changes.first { $0.collection == key.collection && $0.id == key.id }
            guard let change else { continue }
            switch try LoggedChange(decoding: change.delta, stamp: stamp) {
            case .state(let state):
                // A deletion anew, or a document that the server was given.
                if joined.vector.covers(state.vector) { made.merge(state) }
            default:
                guard isCalm || joined.vector.covers(stamp) else { continue }
                let outcome = made.apply(try Delta(decoding: change.delta, stamp: stamp))
                guard outcome == .applied else {
                    throw fault("a write of \(key.id) at \(stamp) is \(outcome)")
                }
            }
        }
        guard made.root == joined.root || !made.isLive && !joined.isLive else {
            throw fault("a write of \(key.id) is lost")
        }
    }

    /// Invariants 3, 4 and 5: what a peer holds that matches is the join of what all hold, and what it shows
    /// matches; the server has it too.
    func checkEnd() async throws {
        // Later stamps wait where a clock can be relied on.
        let latest = (clock.now + ReplicaLimits.aheadMilliseconds) << 16
        // A server that corrects a clock has what was written by it written again.
        let isPlain = isCalm && refused == nil && !waits
        if isPlain, let peer = left.first(where: { $0.replica.actor != $0.firstActor }) {
            throw fault("\(peer.name) writes as somebody else, and nobody gave it a reason")
        }
        // The base of a write may still come, from whoever has it.
        if !wasPutBack, let refusal = peers.flatMap(\.refusals).first(where: { $0.error.isOfBase }) {
            throw fault("the server refuses a write whose base may still come: \(refusal)")
        }
        for (number, key) in keys.enumerated() {
            guard try await !isLeftQuarantined(key) else { continue }
            var among = Document()
            for peer in left {
                if let document = try content(try peer.state(key)) { among.merge(document) }
            }
            var joined = among
            let there = inReach.isEmpty ? Document() : try content(try await server?.state(key)) ?? Document()
            joined.merge(there)
            if try isDisputed(key, joined) { continue }
            if waits, joined.vector.greatestTime ?? 0 > latest { continue }
            if server == nil || isPlain { try await checkWrites(of: key, in: joined) }
            for (place, peer) in peers.enumerated() where place != lost {
                // The server's part does not come to a peer that waits for the server's clock.
                let isServed = !waits(for: place) && !inReach.allSatisfy(waits(for:))
                let own = try content(try peer.state(key))
                let found = try Rest.fault(holding: own, of: isServed ? joined : among) {
                    try peer.matches(key, $0)
                }
                guard let found else { continue }
                throw fault("\(peer.name) \(found.rawValue) \(key.id)\n\(try await copies(of: key))")
            }
            // Documents that nobody in reach may write stay in the mesh.
            let isOpen = number > 0 || inReach.contains { $0 != refused }
            guard isOpen, !inReach.allSatisfy(waits(for:)) else { continue }
            guard there.root != joined.root else { continue }
            // A deletion is told to those who have the document: who never had it does not bring it.
            let isBrought = try inReach.contains { try peers[$0].state(key) != nil }
            guard joined.isLive || isBrought || !there.vector.isEmpty else { continue }
            throw fault("the server lacks something of \(key.id)\n\(try await copies(of: key))")
        }
    }

    /// Where no server can be asked, who has no copy is not believed when it calls a write void (decision
    /// 0083).
    private func isDisputed(_ key: DocumentKey, _ joined: Document) throws -> Bool {
        guard inReach.isEmpty, server != nil else { return false }
        return try left.contains { try $0.state(key) == nil && joined.vector.isQuarantined(by: $0.void(key)) }
    }

    /// Everybody's copy of a document, for a failure's message.
    private func copies(of key: DocumentKey) async throws -> String {
        func line(_ name: String, _ state: EncodedState?) throws -> String {
            "\(name): \(try content(state).map { "\($0.value) \($0.vector)" } ?? "nothing")"
        }
        var lines = try left.map { peer in
            let mark = try peer.isQuarantined(key) ? "quarantined " : ""
            return try line(mark + peer.name, try peer.state(key))
        }
        if let server { lines.append(try line("the server", try await server.state(key))) }
        return lines.joined(separator: "\n")
    }

    /// Invariant 2, at rest: nobody holds what was refused if the server, or another peer, can give a clean
    /// state.
    /// Returns whether some hold it because nobody can.
    private func isLeftQuarantined(_ key: DocumentKey) async throws -> Bool {
        guard let quarantined = try left.first(where: { try $0.isQuarantined(key) }) else { return false }
        let isCleanSomewhere = try left.contains { try $0.state(key) != nil && !$0.isQuarantined(key) }
        guard inReach.isEmpty, !isCleanSomewhere else {
            throw fault("\(quarantined.name) holds what was refused of \(key.id)")
        }
        return true
    }
}
