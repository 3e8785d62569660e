import CRDT
import DQL
import Replica
import Sync
import TestSupport
import Transport

/// What the applications do to their stores.
extension World {
    /// A new device; with `original` one whose store was copied from there.
    func addPeer(_ number: Int, copyOf original: Peer? = nil) throws {
        let folder = "\(folder)/peer-\(number)"
        let disk = try disk("peer-\(number)")
        if let original {
            try Files.copy(from: original.folder, to: folder, prefix: "replica.sqlite", keepsInodes: false)
        }
        let replica = try PeerReplica(
            directory: folder, environment: environment(of: number), logger: Self.logger)
        let peer = Peer(
            number: number, folder: folder, disk: disk, replica: replica,
            holdsEverything: original?.holdsEverything ?? (number < 2))
        peers.append(peer)
        if let original {
            peer.subscriptions = original.subscriptions
            peer.commits = original.commits
            peer.stored = original.stored
            peer.repairedAt = original.repairedAt
            peer.keyNumber = original.keyNumber
            peer.written = original.written
            peer.rights = original.rights
            peer.ungiven = original.ungiven
            peer.isForgetful = true
        } else if peer.holdsEverything {
            try Collections.everything.forEach { try hold($0, peer) }
        }
        peer.skew = Int64(generator.below(4_000)) - 2_000
        if profile.faults.contains(.clocks) { peer.drift = Int64(generator.below(2_000)) - 1_000 }
        try launch(peer)
        planConnect(peer, in: delay(0, 3_000, slow: 0))
        schedule(.act(number), in: delay(0, 2_000, slow: 0))
    }

    private func hold(_ statement: String, _ peer: Peer) throws {
        let held = try LiveSubscription(statement: statement, arguments: ObjectValue())
        peer.subscriptions[held.key] = held
        peer.replica.setLiveQueries(peer.subscriptions.values.map(\.query))
    }

    /// An application starts: it writes its seeds.
    func launch(_ peer: Peer) throws {
        peer.replica.setLiveQueries(peer.subscriptions.values.map(\.query))
        let result = try peer.replica.write { transaction in
            for id in 0..<3 {
                try transaction.edit(CollectionName(Collections.seeds.text), try Self.id(id)) { editor in
                    var content = ObjectValue()
                    content["color"] = .string(id == 0 ? "red" : "blue")
                    content["n"] = .int(Int64(id))
                    _ = try editor.seed(content)
                }
            }
        }
        try wrote(peer, result.operation, result.commit, number: nil)
    }

    static func id(_ number: Int) throws -> DocumentID { try DocumentID(.int(Int64(number))) }

    func act(_ peer: Peer) throws {
        guard !isHealing else { return }
        defer { schedule(.act(peer.number), at: max(now, quietUntil) + delay(1, 600, slow: 3_000)) }
        actsLeft -= 1
        do {
            try use(peer)
        } catch {
            // The power went in the midst of it: nobody knows whether it was stored.
            guard peer.disk.isOff else { throw error }
        }
    }

    /// Somebody else writes what a peer has just evicted and may be asking for.
    func act(_ peer: Peer, on key: DocumentKey) throws {
        guard !isHealing else { return }
        do {
            try write(peer, [key])
        } catch {
            guard peer.disk.isOff else { throw error }
        }
    }

    private func use(_ peer: Peer) throws {
        switch generator.below(100) {
        case 0..<66: try write(peer)
        case 66..<71: try evict(peer)
        case 71..<80: try toggleSubscription(peer)
        case 80..<84: if let link = peer.link, !link.isCut { cut(link) }
        case 84..<90 where profile.faults.contains(.photos): try takePhoto(peer)
        case 90..<100 where profile.reapsSoon: try writeOrDelete(peer)
        default: break
        }
        if generator.chance(15) { try look(peer) }
    }

    // MARK: Writing

    private func write(_ peer: Peer) throws {
        if generator.chance(15) { return try transfer(peer) }
        var collections = ["cars", "cars", "boats", "boats", Collections.seeds, Collections.secrets]
        collections += [Collections.notes, Collections.notes, Collections.notes]
        if profile.faults.contains(.refusals), generator.chance(25) { collections.append(Collections.locked) }
        var keys: [DocumentKey] = []
        for _ in 0...generator.pick([0, 0, 0, 1, 2]) {
            let key = DocumentKey(
                collection: CollectionName(generator.pick(collections).text),
                id: try Self.id(generator.below(5)))
            if !keys.contains(key) { keys.append(key) }
        }
        try write(peer, keys)
    }

    /// Writes or deletes a document that has no counters, so that its deletion may be reaped.
    private func writeOrDelete(_ peer: Peer) throws {
        let key = DocumentKey(
            collection: generator.pick(Collections.plain), id: try Self.id(5 + generator.below(2)))
        try write(peer, [key], as: generator.pick([0, 0, 1, 2, 3, 5, 8]))
    }

    /// `kind`: which of the writes it is; nil to draw it.
    private func write(_ peer: Peer, _ keys: [DocumentKey], as kind: Int? = nil) throws {
        let (choice, value) = (kind ?? generator.below(14), Int64(generator.below(100)))
        let color = generator.pick(["red", "blue", "green"])
        let tag = generator.pick(["a", "b", "c"])
        let causes = peer.holdsEverything ? Array(try marks(peer).sorted().suffix(6)) : []
        let number = book.begin(peer.number, causes: causes)
        book[number].isForgiven = true
        let result = try peer.replica.write { transaction in
            for key in keys {
                try transaction.edit(key.collection, key.id) { editor in
                    if Collections.isNote(key) {
                        editor.create()
                        try editor.set(["w\(number)"], .bool(true))
                        return try editor.increment(["count"], by: .int(1))
                    }
                    switch choice {
                    case 0: editor.delete()
                    case 1: try editor.unset(["color"])
                    case 2...4:
                        editor.create()
                        try editor.set(["color"], .string(color))
                    case 5, 6:
                        editor.create()
                        try editor.set(["tags", tag], .bool(true))
                    case 7: try editor.unset(["tags", tag])
                    case 8: try editor.unset(["tags"])
                    case 9:
                        editor.create()
                        try editor.increment(["sum"], by: .int(value))
                    case 10: try editor.restart(["sum"], with: .int(value))
                    default:
                        editor.create()
                        try editor.set(["n"], .int(value))
                        if choice == 13 { try editor.set(["color"], .string(color)) }
                    }
                }
            }
        }
        try wrote(peer, result.operation, result.commit, number: number)
    }

    /// Moves an amount from one account to another, in one transaction.
    private func transfer(_ peer: Peer) throws {
        let from = generator.below(4)
        let other = (from + 1 + generator.below(3)) % 4
        let amount = Int64(1 + generator.below(50))
        let result = try peer.replica.write { transaction in
            for (id, change) in [(from, -amount), (other, amount)] {
                try transaction.edit(CollectionName(Collections.accounts.text), try Self.id(id)) { editor in
                    editor.create()
                    try editor.increment(["balance"], by: .int(change))
                }
            }
        }
        try wrote(peer, result.operation, result.commit, number: nil)
    }

    private func wrote(_ peer: Peer, _ operation: Operation?, _ commit: UInt64, number: Int?) throws {
        guard let operation else { return }
        statistics.writes += 1
        let keys = operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
        peer.written.formUnion(keys)
        try noteStamp(operation)
        note(10) {
            "peer \(peer.number) writes \(number.map { "w\($0)" } ?? "") as \(operation.actor) "
                + "\(operation.sequence): \(keys.map { "\($0.collection)/\($0.id)" })"
        }
        guard let number else { return }
        book[number].keys = keys
        book[number].isForgiven = false
        peer.commits[commit] = number
        peer.seenMarks.formUnion(keys.contains(where: Collections.isNote) ? [number] : [])
    }

    /// A document that is too large for one message of a session that has just begun; now and then for a
    /// frame.
    private func takePhoto(_ peer: Peer) throws {
        let key = DocumentKey(
            collection: generator.pick(["cars", "boats"]), id: try Self.id(generator.below(5)))
        let count = generator.chance(10) ? 1_100_000 : 30_000 + generator.below(200_000)
        var pixels = SplitMix64(seed: generator.next())
        let photo = pixels.bytes(count: count)
        let result = try peer.replica.write { transaction in
            try transaction.edit(key.collection, key.id) { editor in
                editor.create()
                try editor.set(["photo"], .binary(photo))
            }
        }
        statistics.photos += 1
        try wrote(peer, result.operation, result.commit, number: nil)
    }

    private func evict(_ peer: Peer) throws {
        let collection = generator.pick(["cars", "boats"] as [CollectionName])
        let id = try Self.id(generator.below(5))
        statistics.evictions += 1
        if collection == Collections.guarded { peer.isForgetful = true }
        note(11) { "peer \(peer.number) evicts \(collection)/\(id)" }
        // What an eviction forgets of cursors, the next subscription asks for.
        willForget(peer)
        _ = try peer.replica.write { try $0.evict(collection, [id]) }
        let evicted = DocumentKey(collection: collection, id: id)
        if try !peer.replica.wanted(limit: 10_000).contains(evicted) { peer.released.insert(evicted) }
        if generator.chance(50) {
            let other = (peer.number + 1 + generator.below(peers.count - 1)) % peers.count
            let key = DocumentKey(collection: collection, id: id)
            schedule(.write(other, key), in: delay(0, 100, slow: 0))
        }
    }

    private func toggleSubscription(_ peer: Peer) throws {
        let statement = generator.pick(Collections.statements)
        if peer.holdsEverything, Collections.everything.contains(statement) { return }
        let held = try LiveSubscription(statement: statement, arguments: ObjectValue())
        let isNew = peer.subscriptions.removeValue(forKey: held.key) == nil
        if isNew { peer.subscriptions[held.key] = held }
        if !isNew, held.query.collection == Collections.guarded { peer.isForgetful = true }
        note(12) { "peer \(peer.number) \(isNew ? "subscribes" : "unsubscribes") \(statement)" }
        peer.replica.setLiveQueries(peer.subscriptions.values.map(\.query))
        guard let link = peer.link, !link.near.isGone else { return }
        guard isNew else { return tell(.unsubscribe(key: held.key), link, false) }
        link.asked.append(held)
        try subscribe(peer, held, link)
    }
}
