import Testing

@testable import CRDT

/// The remains of a deleted, evicted or seeded document (spec 3.4, 3.5, 3.7).
@Suite("Outcomes of deleting and seeding")
struct DeletionOutcomeTests {
    private static func car() throws -> Peers {
        try Peers.sharing {
            $0.create()
            try $0.set(["color"], "red")
            try $0.set(["make"], "Toyota")
        }
    }

    @Test(
        "DELETE against a concurrent UPDATE: what was written concurrently, alone", arguments: Later.allCases)
    func deleteAgainstUpdate(_ later: Later) throws {
        var peers = try Self.car()
        peers.anna.write(at: later.times.anna) { $0.delete() }
        try peers.ben.write(at: later.times.ben) { try $0.set(["color"], "blue") }
        // The original shows {color: null} when the delete is later.
        #expect(peers.meet() == ["color": "blue"])
        #expect(peers.anna.document.isLive)
    }

    @Test("a second DELETE removes what the first one left")
    func secondDelete() throws {
        var peers = try Self.car()
        peers.anna.write(at: 10) { $0.delete() }
        try peers.ben.write(at: 11) { try $0.set(["color"], "blue") }
        #expect(peers.meet() == ["color": "blue"])
        peers.anna.write(at: 20) { $0.delete() }
        #expect(peers.meet() == [:])
        #expect(!peers.ben.document.isLive)
    }

    @Test(
        "DELETE against an unseen increment: the counter with that increment alone", arguments: Later.allCases
    )
    func deleteAgainstIncrement(_ later: Later) throws {
        var peers = try Peers.sharing {
            $0.create()
            try $0.increment(["n"], by: 7)
        }
        peers.anna.write(at: later.times.anna) { $0.delete() }
        try peers.ben.write(at: later.times.ben) { try $0.increment(["n"], by: 5) }
        #expect(peers.meet() == ["n": 5])
    }

    @Test("inserting the id again is a new document: old fields stay gone, counters start anew")
    func insertAgain() throws {
        var peers = try Peers.sharing {
            $0.create()
            try $0.set(["color"], "red")
            try $0.increment(["n"], by: 7)
        }
        peers.anna.write(at: 10) { $0.delete() }
        try peers.anna.write(at: 11) {
            $0.create()
            try $0.set(["make"], "Toyota")
            try $0.increment(["n"], by: 1)
        }
        #expect(peers.meet() == ["make": "Toyota", "n": 1])
    }

    @Test("inserting the id again keeps what somebody wrote offline against the old document")
    func insertAgainAgainstUpdate() throws {
        var peers = try Self.car()
        peers.anna.write(at: 10) { $0.delete() }
        try peers.anna.write(at: 11) {
            $0.create()
            try $0.set(["make"], "Audi")
        }
        try peers.ben.write(at: 20) { try $0.set(["color"], "blue") }
        #expect(peers.meet() == ["make": "Audi", "color": "blue"])
    }

    @Test("identical seeds are one insert")
    func identicalSeeds() throws {
        var peers = Peers()
        let seed: Value = ["color": "red", "sizes": [1, 2]]
        try peers.anna.write(at: 10) { try $0.insertInitial(seed) }
        try peers.ben.write(at: 20) { try $0.insertInitial(seed) }
        #expect(peers.anna.document.encoded() == peers.ben.document.encoded())
        #expect(peers.meet() == seed)
        #expect(peers.anna.document.conflicts(at: ["color"]) == ["red"])
    }

    @Test("different seeds: the fields of both; of a common one the value decides, not who came later")
    func differentSeeds() throws {
        let red: Value = ["color": "red", "make": "Toyota"]
        let blue: Value = ["color": "blue", "year": 2018]
        let colors = try Later.allCases.map { later in
            var peers = Peers()
            try peers.anna.write(at: later.times.anna) { try $0.insertInitial(red) }
            try peers.ben.write(at: later.times.ben) { try $0.insertInitial(blue) }
            let value = peers.meet()
            #expect(value["make"] == "Toyota")
            #expect(value["year"] == 2018)
            return value["color"]
        }
        #expect(colors[0] == colors[1])
    }

    @Test("any regular write beats a seed, however early its clock")
    func writesBeatSeeds() throws {
        var peers = Peers()
        try peers.anna.write(at: 1) { try $0.set(["color"], "red") }
        try peers.ben.write(at: 1_000) { try $0.insertInitial(["color": "blue", "year": 2018]) }
        #expect(peers.meet() == ["color": "red", "year": 2018])
    }

    @Test("the seed of a document that was deleted does not bring it back")
    func seedAfterDelete() throws {
        let seed: Value = ["color": "red"]
        var peers = try Peers.sharing { try $0.insertInitial(seed) }
        peers.anna.write(at: 10) { $0.delete() }
        #expect(peers.meet() == [:])
        // Written again by somebody who has never heard of the deletion.
        var newcomer = Peer(3)
        try newcomer.write(at: 20) { try $0.insertInitial(seed) }
        peers.anna.document.merge(newcomer.document)
        #expect(!peers.anna.document.isLive)
    }

    @Test("another seed of a document that was deleted is another insert, with its values")
    func otherSeedAfterDelete() throws {
        var peers = try Peers.sharing { try $0.insertInitial(["color": "red"]) }
        peers.anna.write(at: 10) { $0.delete() }
        peers.ben.write(at: 20) { $0.delete() }
        try peers.ben.write(at: 21) { try $0.insertInitial(["make": "Audi"]) }
        // The original shows a document whose fields are null.
        #expect(peers.meet() == ["make": "Audi"])
    }

    @Test("after an eviction the seed inserts again")
    func seedAfterEviction() throws {
        let seed: Value = ["color": "red"]
        var peers = try Peers.sharing { try $0.insertInitial(seed) }
        peers.anna.evict()
        try peers.anna.write(at: 10) { try $0.insertInitial(seed) }
        #expect(peers.anna.document.encoded() == peers.ben.document.encoded())
        #expect(peers.meet() == seed)
    }
}
