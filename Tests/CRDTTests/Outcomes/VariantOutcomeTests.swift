import Testing

@testable import CRDT

/// Several kinds under one key (spec 3.2), and the conflict of seed 4 between an object and an array.
@Suite("Outcomes with several kinds under one key")
struct VariantOutcomeTests {
    private static let object: Value = ["street": "Long Road", "house number": 10_298, "zip": "90210"]
    private static let array: Value = [10_298, "Long Road", "90210"]

    @Test("an object against an array (seed 4): the later one shows, each can be asked for by its kind")
    func objectAgainstArray() throws {
        for later in Later.allCases {
            var peers = Peers()
            try peers.anna.write(at: later.times.anna) {
                $0.create()
                try $0.set(["name"], "Bob Jones")
                try $0.set(["address"], Self.object)
            }
            try peers.ben.write(at: later.times.ben) {
                $0.create()
                try $0.set(["name"], "Bob Jones")
                try $0.set(["address"], Self.array)
            }
            let shown = later == .anna ? Self.object : Self.array
            #expect(peers.meet() == ["name": "Bob Jones", "address": shown])
            #expect(try peers.anna.read("address", as: .map) == Self.object)
            #expect(try peers.anna.read("address", as: .register) == Self.array)
        }
    }

    @Test("an object against an array in strict mode (seed 4): two values of one register")
    func strictObjectAgainstArray() throws {
        var peers = Peers()
        try peers.anna.write(at: 10) { try $0.set(["address"], Self.object, objectsAreRegisters: true) }
        try peers.ben.write(at: 20) { try $0.set(["address"], Self.array, objectsAreRegisters: true) }
        #expect(peers.meet() == ["address": Self.array])
        #expect(peers.anna.document.conflicts(at: ["address"]) == [Self.array, Self.object])
    }

    @Test("a REGISTER {a, b}, then SET obj.a = 11: {a: 11}")
    func registerThenKey() throws {
        var anna = Peer(1)
        try anna.write(at: 1) { try $0.set(["obj"], ["a": 1, "b": 2], declared: .register) }
        try anna.write(at: 2) { try $0.set(["obj", "a"], 11) }
        #expect(anna.value == ["obj": ["a": 11]])
        #expect(try anna.read("obj", as: .register) == ["a": 1, "b": 2])
    }

    @Test("{cnt: 10}, then APPLY cnt INCREMENT BY 1: 1")
    func registerThenIncrement() throws {
        var anna = Peer(1)
        try anna.write(at: 1) { try $0.set(["cnt"], 10) }
        try anna.write(at: 2) { try $0.increment(["cnt"], by: 1) }
        #expect(anna.value == ["cnt": 1])
        #expect(try anna.read("cnt", as: .register) == 10)
    }

    @Test("a scalar over a map, then an object again: the old keys reappear")
    func scalarOverMap() throws {
        var anna = Peer(1)
        try anna.write(at: 1) { try $0.set(["obj"], ["a": 1]) }
        try anna.write(at: 2) { try $0.set(["obj"], 5) }
        #expect(anna.value == ["obj": 5])
        try anna.write(at: 3) { try $0.set(["obj"], ["b": 2]) }
        #expect(anna.value == ["obj": ["a": 1, "b": 2]])
    }

    @Test("a value for a field declared COUNTER restarts it with that value")
    func settableCounter() throws {
        var anna = Peer(1)
        try anna.write(at: 1) { try $0.increment(["n"], by: 3) }
        try anna.write(at: 2) { try $0.set(["n"], 40, declared: .counter) }
        try anna.write(at: 3) { try $0.increment(["n"], by: 2) }
        #expect(anna.value == ["n": 42])
    }

    @Test("UNSET without a type removes every kind that was seen, with a type that one")
    func unset() throws {
        var peers = try Peers.sharing {
            try $0.increment(["x"], by: 3)
            try $0.set(["y"], 1)
        }
        try peers.anna.write(at: 2) { try $0.set(["x"], "text") }
        try peers.anna.write(at: 3) { try $0.set(["x"], ["a": 1]) }
        try peers.ben.write(at: 4) { try $0.increment(["x"], by: 5) }
        var declared = peers
        try peers.anna.write(at: 9) { try $0.unset(["x"]) }
        #expect(peers.anna.value == ["y": 1])
        #expect(peers.meet() == ["x": 5, "y": 1])
        try declared.anna.write(at: 9) { try $0.unset(["x"], kind: .map) }
        #expect(declared.anna.value == ["x": "text", "y": 1])
        #expect(declared.meet() == ["x": 8, "y": 1])
    }
}

extension Peer {
    /// A top-level field as one kind, read in place.
    fileprivate func read(_ key: String, as kind: FieldKind) throws -> Value? {
        try document.encoded().withUnsafeBytes { try DocumentReader($0).root.field(key)?.value(kind) }
    }
}
