import CRDT
import DQL
import Exchange
import Foundation
import TestSupport

@testable import Replica

/// The usual work of a store, one step at a time, the same from the same seed: local writes, a server's
/// operations, pages of a catch-up, acknowledgements, repairs, evictions, checkpoints. It runs twice side by
/// side, on a good disk and on a bad one: the good one tells what the bad one must hold.
struct StoreLoad {
    enum Step: Sendable {
        case insert(Int64, size: Int)
        case update(Int64, Int64)
        case delete(Int64)
        case evict(Int64)
        case several(Int64)
        /// So many at once that their operation refers to them.
        case bulk(ClosedRange<Int64>)
        case receive(Int64, time: UInt64)
        case stage(Int64, time: UInt64)
        case publish
        case acknowledge
        case repair
        case checkpoint(truncates: Bool)
    }

    private var dice: SplitMix64
    private var time: UInt64 = 1_000
    private var nextID: Int64 = 0

    init(seed: UInt64) { dice = SplitMix64(seed: seed) }

    /// The next step; earlier ones may have failed.
    mutating func next() -> Step {
        time += 1
        switch dice.below(20) {
        case 0...5:
            nextID += 1
            return .insert(nextID, size: dice.chance(15) ? 20_000 : dice.below(700))
        case 6...8: return .update(Int64(1 + dice.below(20)), Int64(time))
        case 9: return .delete(Int64(1 + dice.below(20)))
        case 10: return .evict(Int64(1 + dice.below(20)))
        case 11 where dice.chance(60):
            nextID += 20
            return .bulk(nextID - 19...nextID)
        case 11: return .several(Int64(time))
        case 12, 13: return .receive(Int64(1 + dice.below(20)), time: time)
        case 14: return .stage(Int64(100 + dice.below(20)), time: time)
        case 15: return .publish
        case 16: return .acknowledge
        case 17: return .repair
        default: return .checkpoint(truncates: dice.chance(30))
        }
    }

    /// A step of a materialization, which only folds.
    mutating func operation(after offset: Offset) throws -> CRDT.Operation {
        time += 1
        let state = try document(
            "n", .string(String(repeating: "x", count: dice.below(3_000))), by: 5, at: time << 16)
        let id = Int64(1 + dice.below(20))
        let change = CRDT.Operation.Change(
            collection: dice.chance(80) ? "c" : "d", id: try DocumentID(.int(id)),
            delta: StateChange.encode(state.encoded()))
        return CRDT.Operation(
            actor: ActorID(5), sequence: SequenceNumber(offset.next.rawValue), timestamp: time << 16,
            changes: [change])
    }
}

extension PeerReplica {
    private static let page: [UInt8] = [1, 2, 3]

    private func foreign(_ id: Int64, _ time: UInt64) throws -> DocumentUpdate {
        DocumentUpdate(
            key: try key("c", .int(id)),
            content: .state(try document("s", .int(Int64(time)), by: 77, at: time << 16).encoded()))
    }

    /// Performs a step; `afterCommit` is called between those of its commits that a cut may separate.
    func perform(
        _ step: StoreLoad.Step, log: TestLog = TestLog(), afterCommit: () throws -> Void = {}
    ) throws {
        switch step {
        case .insert(let id, let size):
            try execute(
                "INSERT INTO c DOCUMENTS ({'_id': :id, 't': :t}) ON ID CONFLICT DO UPDATE",
                arguments(("id", .int(id)), ("t", .string(String(repeating: "x", count: size)))))
        case .update(let id, let value):
            try execute(
                "UPDATE c SET n = :n WHERE _id = :id", arguments(("id", .int(id)), ("n", .int(value))))
        case .delete(let id): try execute("DELETE FROM c WHERE _id = :id", arguments(("id", .int(id))))
        case .evict(let id): try execute("EVICT FROM c WHERE _id = :id", arguments(("id", .int(id))))
        case .several(let value): try execute("UPDATE c SET m = :m", arguments(("m", .int(value))))
        case .bulk(let ids):
            let documents = ids.map { id in
                Value.object(
                    ObjectValue(unique: [
                        (key: "_id", value: .int(id)),
                        (key: "t", value: .string(String(repeating: "y", count: 900))),
                    ]))
            }
            try execute(
                "INSERT INTO c DOCUMENTS (:all) ON ID CONFLICT DO UPDATE",
                arguments(("all", .array(documents))))
        case .receive(let id, let time):
            _ = try receive(
                Reception(
                    updates: [try foreign(id, time), try foreign(id + 1, time)],
                    cursors: [(key: [9], position: log.position(Offset(time)))],
                    seen: log.position(Offset(time))))
        case .stage(let id, let time):
            try stage([try foreign(id, time), try foreign(id + 1, time)], for: Self.page)
        case .publish:
            _ = try receive(
                Reception(cursors: [(key: Self.page, position: log.position(5))], publishes: Self.page))
        case .acknowledge:
            let last = try ownActors().last
            if let last {
                let sum = last.acknowledged.rawValue + last.sequence.rawValue + 1
                try acknowledge(last.actor, through: SequenceNumber(sum / 2))
            }
        case .repair: try repairAll(afterCommit)
        case .checkpoint(let truncates):
            try checkpoint(truncates: truncates)
        }
    }

    /// The server has half of what this store wrote, and refuses one of the others.
    private func repairAll(_ afterCommit: () throws -> Void) throws {
        guard let last = try ownActors().last, last.sequence > last.acknowledged else { return }
        let admitted = SequenceNumber((last.acknowledged.rawValue + last.sequence.rawValue) / 2)
        let request = RepairRequest(
            admitted: [last.actor: admitted], closed: [last.actor],
            refused: [
                Refusal(
                    actor: last.actor, sequence: admitted.next, error: SyncError(.writeNotGranted, "no right")
                )
            ], seen: nil)
        while case .needs(let keys) = try repair(request) {
            try afterCommit()
            try stageRepair(keys.map { ($0, try state($0)) })
            try afterCommit()
        }
    }
}

extension Replica {
    /// Checkpoints the write-ahead log.
    func checkpoint(truncates: Bool) throws {
        _ = try store.writing { try $0.checkpoint(truncates ? .truncate : .passive) }
    }
}
