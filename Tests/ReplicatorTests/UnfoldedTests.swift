import CRDT
import Testing

@testable import Replicator

@Suite("What is appended and not folded")
struct UnfoldedTests {
    private func key(_ number: Int) throws -> UnfoldedKey {
        UnfoldedKey(DocumentKey(collection: "c", id: try DocumentID(.int(Int64(number)))))
    }

    private func vector(_ actor: UInt64, _ time: UInt64) -> VersionVector {
        VersionVector([VersionVector.Entry(actor: ActorID(actor), time: time)])
    }

    private func document(_ actor: UInt64, _ time: UInt64, bytes: Int) -> UnfoldedDocument {
        UnfoldedDocument(vector: vector(actor, time), bytes: bytes)
    }

    @Test("what several appends have left of a document counts together, in a part and across parts")
    func joins() throws {
        let unfolded = UnfoldedDocuments(partBytes: 100)
        let (one, two) = (try key(1), try key(2))
        unfolded.note([one: document(1, 5, bytes: 60)], bytes: 60, through: 1)
        unfolded.note([one: document(2, 7, bytes: 60), two: document(2, 7, bytes: 1)], bytes: 61, through: 2)
        unfolded.note([one: document(3, 9, bytes: 3)], bytes: 3, through: 3)
        let all = try #require(unfolded[one])
        #expect(all.vector == vector(1, 5).union(vector(2, 7)).union(vector(3, 9)))
        #expect(all.bytes == 123)
        #expect(unfolded[two]?.vector == vector(2, 7))
        #expect(unfolded[try key(3)] == nil)
        #expect(unfolded.bytes == 124)
    }

    @Test("a part goes when all of it is folded, and not before")
    func goes() throws {
        let unfolded = UnfoldedDocuments(partBytes: 10)
        for number in 1...4 {
            unfolded.note(
                [try key(number): document(1, UInt64(number), bytes: 10)], bytes: 10,
                through: Offset(UInt64(2 * number)))
        }
        unfolded.forget(through: 3)
        #expect(unfolded[try key(1)] == nil)
        #expect(unfolded[try key(2)] != nil)
        #expect(unfolded.bytes == 30)
        unfolded.forget(through: 8)
        #expect(unfolded.bytes == 0)
        #expect(unfolded[try key(4)] == nil)

        let large = UnfoldedDocuments(partBytes: 100)
        large.note([try key(1): document(1, 1, bytes: 10)], bytes: 10, through: 2)
        large.note([try key(2): document(1, 2, bytes: 10)], bytes: 10, through: 6)
        large.forget(through: 5)
        #expect(large[try key(2)] != nil)
        #expect(large.bytes == 20)
    }
}

extension UnfoldedTests {
    @Test("what has to be folded is as much as leaves no more than the bound, and nothing below it")
    func excess() throws {
        let unfolded = UnfoldedDocuments(partBytes: 10)
        for number in 1...4 {
            unfolded.note(
                [try key(number): document(1, UInt64(number), bytes: 10)], bytes: 10,
                through: Offset(UInt64(2 * number)))
        }
        #expect(unfolded.excess(over: 40) == nil)
        #expect(unfolded.excess(over: 39) == 2)
        #expect(unfolded.excess(over: 20) == 4)
        #expect(unfolded.excess(over: 0) == 8)
    }

    @Test("what is folded meanwhile stays for who judges by a snapshot from before it, and goes then")
    func judging() throws {
        let unfolded = UnfoldedDocuments(partBytes: 10)
        for number in 1...3 {
            unfolded.note(
                [try key(number): document(1, UInt64(number), bytes: 10)], bytes: 10,
                through: Offset(UInt64(number)))
        }
        let two = try key(2)
        unfolded.forget(through: 1)
        unfolded.judging {
            unfolded.judging { unfolded.forget(through: 2) }
            #expect(unfolded[two]?.bytes == 10)
            // One that begins now has a later snapshot, but the other one has not ended.
            unfolded.judging { #expect(unfolded[two]?.bytes == 10) }
        }
        #expect(unfolded[try key(2)] == nil)
        #expect(unfolded[try key(3)]?.bytes == 10)
    }
}

@Suite("Which session has brought an operation")
struct OriginsTests {
    private let actor = ActorID(1)

    @Test("a run is noted once, and each of its operations taken once")
    func runs() {
        var origins = Origins()
        origins.note(actor, 1...3, from: 7)
        origins.note(actor, 4...5, from: 7)
        var again = origins
        #expect([1, 1, 2, 2].map { again.take(actor, $0) } == [7, nil, 7, nil])
        #expect((1...6).map { origins.take(actor, $0) } == [7, 7, 7, 7, 7, nil])
        #expect(origins.take(actor, 1) == nil)
        #expect(origins.take(ActorID(2), 1) == nil)
    }

    @Test("what another session brings again is its own; what was not appended is nobody's")
    func againAndWithdrawn() {
        var origins = Origins()
        origins.note(actor, 1...6, from: 7)
        origins.note(actor, 3...4, from: 8)
        origins.withdraw(actor, 6...6)
        #expect((1...6).map { origins.take(actor, $0) } == [7, 7, 8, 8, 7, nil])
        origins.note(actor, 7...7, from: 8)
        origins.note(actor, 8...9, from: 7)
        origins.note(actor, 7...8, from: 7)
        #expect((7...9).map { origins.take(actor, $0) } == [7, 7, 7])
    }

    @Test("of a session that has ended nothing is remembered")
    func ends() {
        var origins = Origins()
        origins.note(actor, 1...2, from: 7)
        origins.note(actor, 3...4, from: 8)
        origins.forget(7)
        #expect((1...4).map { origins.take(actor, $0) } == [nil, nil, 8, 8])
    }
}
