import Testing

@testable import CRDT

/// The original's outcomes with two peers (spec 3.4), one test a row, and beside them where ours differ on
/// purpose (spec, Decisions): a removal removes what its author had seen, nothing else, whatever the clocks
/// say.
@Suite("Outcomes of concurrent writes")
struct ConcurrentOutcomeTests {
    @Test("register against register: the later write shows, the other one can still be read")
    func registers() throws {
        var peers = Peers()
        try peers.anna.write(at: 10) { try $0.set(["color"], "red") }
        try peers.ben.write(at: 20) { try $0.set(["color"], "blue") }
        #expect(peers.meet() == ["color": "blue"])
        #expect(peers.anna.document.conflicts(at: ["color"]) == ["blue", "red"])
    }

    @Test("different keys of a map: both stay", arguments: Later.allCases)
    func disjointKeys(_ later: Later) throws {
        var peers = try Peers.sharing { try $0.set(["obj"], ["a": 1]) }
        try peers.anna.write(at: later.times.anna) { try $0.set(["obj", "b"], 2) }
        try peers.ben.write(at: later.times.ben) { try $0.set(["obj", "c"], 3) }
        #expect(peers.meet() == ["obj": ["a": 1, "b": 2, "c": 3]])
    }

    @Test("SET obj = {a} against SET obj.b: merged", arguments: Later.allCases)
    func objectAgainstKey(_ later: Later) throws {
        var peers = Peers()
        try peers.anna.write(at: later.times.anna) { try $0.set(["obj"], ["a": 1]) }
        try peers.ben.write(at: later.times.ben) { try $0.set(["obj", "b"], 2) }
        #expect(peers.meet() == ["obj": ["a": 1, "b": 2]])
    }

    @Test("UNSET obj against SET obj.c = 5: {c: 5}", arguments: Later.allCases)
    func unsetAgainstKey(_ later: Later) throws {
        var peers = try Peers.sharing { try $0.set(["obj"], ["a": 1, "b": 2]) }
        try peers.anna.write(at: later.times.anna) { try $0.unset(["obj"]) }
        try peers.ben.write(at: later.times.ben) { try $0.set(["obj", "c"], 5) }
        #expect(peers.meet() == ["obj": ["c": 5]])
    }

    @Test("UNSET items.x against SET items.x.q = 5: {q: 5}, also when the removal is later")
    func unsetAgainstKeyBelow() throws {
        for later in Later.allCases {
            var peers = try Peers.sharing { try $0.set(["items"], ["x": ["q": 1, "r": 2]]) }
            try peers.anna.write(at: later.times.anna) { try $0.unset(["items", "x"]) }
            try peers.ben.write(at: later.times.ben) { try $0.set(["items", "x", "q"], 5) }
            // The original shows {q: null} when the removal is later.
            #expect(peers.meet() == ["items": ["x": ["q": 5]]])
        }
    }

    @Test("arrays: the later one as a whole")
    func arrays() throws {
        var peers = try Peers.sharing { try $0.set(["tags"], ["a"]) }
        try peers.anna.write(at: 10) { try $0.set(["tags"], ["a", "b"]) }
        try peers.ben.write(at: 20) { try $0.set(["tags"], ["c"]) }
        #expect(peers.meet() == ["tags": ["c"]])
    }

    @Test("increments add", arguments: Later.allCases)
    func increments(_ later: Later) throws {
        var peers = try Peers.sharing { try $0.increment(["n"], by: 1) }
        try peers.anna.write(at: later.times.anna) { try $0.increment(["n"], by: 10) }
        try peers.ben.write(at: later.times.ben) { try $0.increment(["n"], by: 5) }
        #expect(peers.meet() == ["n": 16])
    }

    @Test("RESTART WITH 100 against an unseen +5: 105, the increment survives", arguments: Later.allCases)
    func restartAgainstIncrement(_ later: Later) throws {
        var peers = try Peers.sharing { try $0.increment(["n"], by: 7) }
        try peers.anna.write(at: later.times.anna) { try $0.restart(["n"], with: 100) }
        try peers.ben.write(at: later.times.ben) { try $0.increment(["n"], by: 5) }
        // The original loses the increment: 100.
        #expect(peers.meet() == ["n": 105])
    }

    @Test("a +5 that has seen RESTART WITH 100: 105")
    func incrementAfterRestart() throws {
        var peers = try Peers.sharing { try $0.increment(["n"], by: 7) }
        try peers.anna.write(at: 10) { try $0.restart(["n"], with: 100) }
        #expect(peers.meet() == ["n": 100])
        try peers.ben.write(at: 20) { try $0.increment(["n"], by: 5) }
        #expect(peers.meet() == ["n": 105])
    }

    @Test("two RESTARTs: the later one counts, and what neither had seen")
    func restarts() throws {
        var peers = try Peers.sharing { try $0.increment(["n"], by: 7) }
        try peers.anna.write(at: 10) { try $0.restart(["n"], with: 100) }
        try peers.anna.write(at: 11) { try $0.increment(["n"], by: 3) }
        try peers.ben.write(at: 20) { try $0.restart(["n"], with: 50) }
        #expect(peers.meet() == ["n": 53])
    }

    @Test("UNSET of a counter against an unseen +5: 5", arguments: Later.allCases)
    func unsetAgainstIncrement(_ later: Later) throws {
        var peers = try Peers.sharing { try $0.increment(["n"], by: 7) }
        try peers.anna.write(at: later.times.anna) { try $0.unset(["n"]) }
        try peers.ben.write(at: later.times.ben) { try $0.increment(["n"], by: 5) }
        #expect(peers.anna.value == [:])
        #expect(peers.meet() == ["n": 5])
    }

    @Test("one id inserted twice: the fields of both, of a common one the later value")
    func inserts() throws {
        var peers = Peers()
        try peers.anna.write(at: 10) {
            $0.create()
            try $0.set(["name"], "Ann")
            try $0.set(["age"], 30)
        }
        try peers.ben.write(at: 20) {
            $0.create()
            try $0.set(["name"], "Anne")
            try $0.set(["city"], "Bonn")
        }
        #expect(peers.meet() == ["name": "Anne", "age": 30, "city": "Bonn"])
    }

    @Test("attachments: the later token shows, the other one can still be read")
    func attachments() throws {
        let old: Value = ["id": "old", "len": 3, "metadata": [:]]
        let new: Value = ["id": "new", "len": 4, "metadata": ["name": "a.txt"]]
        var peers = Peers()
        try peers.anna.write(at: 10) { try $0.set(["file"], old, declared: .attachment) }
        try peers.ben.write(at: 20) { try $0.set(["file"], [AttachmentToken.marker: new]) }
        #expect(peers.meet() == ["file": new])
        #expect(peers.anna.document.conflicts(at: ["file"]) == [new, old])
    }

    @Test("a map for concurrent updates (seed 4): colour and mileage, both changes stay")
    func concurrentUpdates() throws {
        let car: Value = ["_id": "abc123", "color": "red", "make": "Toyota", "mileage": 160_000]
        var peers = try Peers.sharing { editor in
            for (key, value) in car.objectValue?.entries ?? [] { try editor.set([key], value) }
        }
        try peers.anna.write(at: 10) { try $0.set(["color"], "blue") }
        try peers.ben.write(at: 11) { try $0.set(["mileage"], 160_200) }
        #expect(
            peers.meet() == ["_id": "abc123", "color": "blue", "make": "Toyota", "mileage": 160_200])
    }
}
