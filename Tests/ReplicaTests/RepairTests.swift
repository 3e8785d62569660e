import CRDT
import Exchange
import TestSupport
import Testing

@testable import Replica

@Suite("Repairing a store")
struct RepairTests {
    private func request(
        _ replica: PeerReplica, admitted: SequenceNumber = 0, refused: [SequenceNumber] = [],
        isForItsBase: Bool = false
    ) -> RepairRequest {
        RepairRequest(
            admitted: [replica.actor: admitted], closed: [replica.actor],
            refused: refused.map {
                Refusal(
                    actor: replica.actor, sequence: $0,
                    error: SyncError(isForItsBase ? .baseNotCovered : .writeNotGranted, "no right"))
            }, seen: nil)
    }

    /// Repairs with a server that has these states.
    private func repair(
        _ replica: PeerReplica, _ request: RepairRequest, states: [DocumentKey: EncodedState] = [:]
    ) throws -> [Refusal] {
        guard case .needs(let keys) = try replica.repair(request) else { return [] }
        try replica.stageRepair(keys.map { ($0, states[$0]) })
        guard case .repaired(let outcome) = try replica.repair(request) else { return [] }
        #expect(outcome.actor == replica.actor)
        return outcome.refused
    }

    @Test("a refused write is set aside, later ones rest on the server's state, commits keep their numbers")
    func refusal() throws {
        try withPeer { replica, _ in
            for number in 1...3 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            try replica.execute("UPDATE c SET n = 4 WHERE _id = 2")
            let old = replica.actor
            let request = request(replica, admitted: 1, refused: [2])
            guard case .needs(let keys) = try replica.repair(request) else {
                Issue.record("nothing was asked for")
                return
            }
            #expect(keys == [try key("c", 2), try key("c", 3)])
            #expect(try replica.acknowledgedCommit() == 1)
            try replica.stageRepair(keys.map { ($0, nil) })
            guard case .repaired(let outcome) = try replica.repair(request) else {
                Issue.record("not repaired")
                return
            }
            let actor = outcome.actor
            #expect(actor != old)
            #expect(outcome.left == [old])
            #expect(outcome.pending == [actor])
            #expect(outcome.refused.map(\.sequence) == [2])
            #expect(try replica.refusedWrites().map(\.commit) == [2])
            #expect(try replica.refusal(ofCommit: 2)?.code == "SYNC-0401")
            #expect(try replica.refusal(ofCommit: 3) == nil)
            let moved = try replica.ownOperations(of: actor, after: 0, maxBytes: .max)
            #expect(moved.map(\.commit) == [3, 4])
            #expect(moved.map(\.sequence) == [1, 2])
            // What was written onto the refused document survives alone, as after a deletion.
            #expect(try replica.rows("SELECT * FROM c WHERE _id = 2") == ["{\"_id\":2,\"n\":4}"])
            try replica.acknowledge(actor, through: 2)
            #expect(try replica.acknowledgedCommit() == replica.head)
        }
    }

    @Test("what the server has already is not written a second time")
    func nothingTwice() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 1")
            let state = try #require(try replica.state(key("c", 1)))
            try replica.execute("UPDATE c SET n = 3 WHERE _id = 1")
            #expect(try repair(replica, request(replica), states: [key("c", 1): state]).isEmpty)
            let moved = try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max)
            #expect(moved.map(\.commit) == [3])
            #expect(try replica.rows("SELECT n FROM c") == ["{\"n\":3}"])
            #expect(try replica.refusedWrites().isEmpty)
        }
    }

    @Test("a write whose base the server does not have is moved, whether it was refused or reaped there")
    func restingOnRefused() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 1")
            var both = request(replica, refused: [1])
            both.refused += request(replica, refused: [2], isForItsBase: true).refused
            #expect(try repair(replica, both).map(\.sequence) == [1])
            #expect(try replica.rows("SELECT n FROM c") == ["{\"n\":2}"])
            let alone = request(replica, refused: [1], isForItsBase: true)
            #expect(try repair(replica, alone).isEmpty)
            #expect(try replica.rows("SELECT n FROM c") == ["{\"n\":2}"])
            #expect(try replica.refusedWrites().map(\.commit) == [1])
        }
    }

    @Test("what rests on a seed that is moved rests on the seed alone")
    func seeds() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 0})")
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'n': 1})")
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 1")
            try replica.execute("UPDATE c SET m = 3 WHERE _id = 1")
            #expect(try repair(replica, request(replica, refused: [1])).map(\.sequence) == [1])
            #expect(try replica.rows("SELECT n, m FROM c") == ["{\"m\":3,\"n\":2}"])
            var server = Document()
            for moved in try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max) {
                let operation = try Operation(decoding: moved.bytes)
                let change = try #require(operation.changes.first)
                let delta = try Delta(decoding: change.delta, stamp: operation.stamp)
                #expect(server.apply(delta) == .applied)
            }
            let state = try #require(try replica.state(key("c", 1)))
            #expect(server.encoded() == state)
            // The new actor wrote all of it: nothing has to be written as another one.
            let actor = replica.actor
            try replica.execute("UPDATE c SET n = 4 WHERE _id = 1")
            #expect(replica.actor == actor)
        }
    }

    @Test("a moved seed that the server has already is no reason for another actor")
    func seedThere() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'n': 1})")
            let state = try #require(try replica.state(key("c", 1)))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            _ = try repair(replica, request(replica, refused: [2]), states: [key("c", 1): state])
            let actor = replica.actor
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 1")
            #expect(replica.actor == actor)
            #expect(try replica.rows("SELECT * FROM c") == ["{\"_id\":1,\"n\":2}"])
        }
    }

    @Test(
        "what the server can take as it is keeps actor, sequence and stamp, and the rest is moved behind it")
    func staying() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let first = replica.actor
            try replica.renewActor(first)
            let second = replica.actor
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 1})")
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 1")
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 2")
            let kept = try replica.ownOperations(of: first, after: 0, maxBytes: .max)
            let request = RepairRequest(admitted: [:], closed: [second], refused: [], seen: nil)
            guard case .needs(let keys) = try replica.repair(request) else {
                Issue.record("nothing was asked for")
                return
            }
            #expect(Set(keys) == [try key("c", 1), try key("c", 2)])
            try replica.stageRepair(keys.map { ($0, nil) })
            guard case .repaired(let outcome) = try replica.repair(request) else {
                Issue.record("not repaired")
                return
            }
            #expect(outcome.left == [second])
            #expect(outcome.pending == [first, outcome.actor])
            #expect(try replica.ownOperations(of: first, after: 0, maxBytes: .max) == kept)
            let moved = try replica.ownOperations(of: outcome.actor, after: 0, maxBytes: .max)
            #expect(moved.map(\.commit) == [2, 3, 4])
            #expect(
                try replica.rows("SELECT * FROM c") == ["{\"_id\":1,\"n\":2}", "{\"_id\":2,\"n\":2}"])
        }
    }

    @Test(
        "what was written after a write that moves goes to the log after it, whatever its document and actor")
    func causes() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let first = replica.actor
            try replica.renewActor(first)
            let second = replica.actor
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 2})")
            let request = RepairRequest(admitted: [:], closed: [first], refused: [], seen: nil)
            guard case .needs(let keys) = try replica.repair(request) else {
                Issue.record("nothing was asked for")
                return
            }
            try replica.stageRepair(keys.map { ($0, nil) })
            guard case .repaired(let outcome) = try replica.repair(request) else {
                Issue.record("not repaired")
                return
            }
            #expect(outcome.left == [first, second])
            #expect(outcome.pending == [outcome.actor])
            let moved = try replica.ownOperations(of: outcome.actor, after: 0, maxBytes: .max)
            #expect(moved.map(\.commit) == [1, 2])
            #expect(try replica.rows("SELECT * FROM d") == ["{\"_id\":2}"])
        }
    }

    @Test("two copies of a store that move the same write name the same origin, however often it is moved")
    func origins() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let written = try #require(
                try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max).first)
            for _ in 0..<3 {
                _ = try repair(replica, request(replica))
                let moved = try #require(
                    try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max).first)
                #expect(try Operation(decoding: moved.bytes).origin == hash64(written.bytes))
            }
        }
    }

    @Test("a write that a copy has moved to the log is dropped without a word")
    func alreadyThere() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let state = try #require(try replica.state(key("c", 1)))
            var request = request(replica)
            request.refused = [
                Refusal(actor: replica.actor, sequence: 1, error: SyncError(.alreadyThere, ""))
            ]
            #expect(try repair(replica, request, states: [key("c", 1): state]).isEmpty)
            #expect(try replica.refusedWrites().isEmpty)
            #expect(try replica.acknowledgedCommit() == replica.head)
            #expect(try replica.rows("SELECT n FROM c") == ["{\"n\":1}"])
        }
    }

    @Test("another history's later write to a document does not stand for this store's")
    func diverged() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let written = try #require(
                try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max).first)
            let time = try Operation(decoding: written.bytes).timestamp
            let later = Stamp(time: time + 1, actor: replica.actor)
            var editor = DocumentEditor(document: Document(), stamp: later)
            editor.create()
            try editor.set(["m"], .int(2))
            var request = request(replica)
            request.diverged = request.closed
            _ = try repair(replica, request, states: [key("c", 1): editor.document.encoded()])
            #expect(try replica.rows("SELECT n, m FROM c") == ["{\"m\":2,\"n\":1}"])
            #expect(try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max).count == 1)
        }
    }

    @Test("an evicted document stays away, and the new actor does not write it again")
    func evicted() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            try replica.execute("EVICT FROM c WHERE _id = 1")
            _ = try repair(replica, request(replica))
            let moved = replica.actor
            #expect(try replica.rows("SELECT * FROM c").isEmpty)
            #expect(try replica.ownOperations(of: moved, after: 0, maxBytes: .max).count == 1)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 2})")
            #expect(replica.actor != moved)
        }
    }

    @Test("what moves of a document that is not shown rests on what moved before it")
    func evictedCounter() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'm': 1})")
            let key = try key("c", 1)
            let server = try #require(try replica.read { try $0.state(of: key) })
            try replica.execute("UPDATE c APPLY n INCREMENT BY 5 WHERE _id = 1")
            try replica.execute("UPDATE c APPLY n RESTART WHERE _id = 1")
            #expect(try replica.rows("SELECT n FROM c") == ["{\"n\":0}"])
            try replica.execute("EVICT FROM c WHERE _id = 1")
            _ = try repair(replica, request(replica, admitted: 1), states: [key: server])
            let moved = try replica.ownOperations(of: replica.actor, after: 0, maxBytes: .max)
            #expect(moved.count == 2)
            var updates = [DocumentUpdate(key: key, content: .state(server))]
            for item in moved {
                let operation = try Operation(decoding: item.bytes)
                updates += operation.changes.map {
                    DocumentUpdate(key: key, content: .delta(operation.stamp, $0.delta))
                }
            }
            try withPeer { other, _ in
                _ = try other.receive(Reception(updates: updates))
                #expect(try other.rows("SELECT n FROM c") == ["{\"n\":0}"])
            }
        }
    }

    @Test("of refused writes the newest are kept")
    func bounds() throws {
        try withPeer { replica, _ in
            let count = ReplicaLimits.refusedWrites + 3
            for number in 1...count { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            _ = try repair(replica, request(replica, refused: (1...UInt64(count)).map { SequenceNumber($0) }))
            #expect(try replica.refusedWrites().map(\.commit) == (4...UInt64(count)).map { $0 })
            // That they were refused is told of all of them.
            #expect(try replica.refusedCommits().map(\.commit) == (1...UInt64(count)).map { $0 })
            #expect(try replica.refusedCommits(from: 3, limit: 2).map(\.commit) == [3, 4])
            #expect(try replica.refusal(ofCommit: 1)?.code == "SYNC-0401")
            #expect(try replica.refusal(ofCommit: 1)?.message == "")
            #expect(try replica.refusal(ofCommit: 4)?.message != "")
            #expect(try replica.refusal(ofCommit: UInt64(count) + 1) == nil)
            #expect(try replica.rows("SELECT * FROM c").isEmpty)
        }
    }

    @Test("a store lists all that it holds, page by page, tombstones included")
    func holdings() throws {
        try withPeer { replica, _ in
            for number in 1...1_500 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            try replica.execute("DELETE FROM c WHERE _id = 7")
            let first = try replica.holdings(after: nil)
            let second = try replica.holdings(after: first.candidates.last?.key)
            #expect(first.candidates.count == ReplicaLimits.heldDocuments && !first.isLast)
            #expect(second.isLast)
            let all = (first.candidates + second.candidates).map(\.key)
            #expect(all.count == 1_501)
            #expect(Set(all).count == 1_501)
            #expect(all.contains(try key("c", 7)))
        }
    }
}
