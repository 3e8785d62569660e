import CRDT
import Testing

@Suite("Names, places and encodings as types")
struct ValueTypeTests {
    /// "é" in one code point and in two: canonically equal, of different bytes.
    private static let spellings = ("caf\u{E9}", "cafe\u{301}")

    @Test("collections are equal, hashed and sorted by their names' bytes")
    func collectionNames() {
        let (composed, decomposed) = (
            CollectionName(Self.spellings.0), CollectionName(Self.spellings.1)
        )
        #expect(Self.spellings.0 == Self.spellings.1, "strings compare otherwise: else this shows nothing")
        #expect(composed != decomposed && composed == CollectionName(Self.spellings.0))
        #expect(Set([composed, decomposed, composed]).count == 2)
        #expect([composed, "cafz", decomposed, "b"].sorted() == ["b", decomposed, "cafz", composed])
        #expect("\(composed)" == composed.text && "\([composed])" == "\([composed.text])")
        let cut = CollectionName(String("xcars".dropFirst()))
        #expect(cut == "cars" && Set<CollectionName>(["cars"]).contains(cut))
    }

    @Test("databases are equal, hashed and sorted by their ids' bytes")
    func databaseIDs() {
        let (composed, decomposed) = (DatabaseID(Self.spellings.0), DatabaseID(Self.spellings.1))
        #expect(composed != decomposed && composed == DatabaseID(Self.spellings.0))
        #expect(Set([composed, decomposed, composed]).count == 2)
        #expect([composed, "Z", decomposed].sorted() == ["Z", decomposed, composed])
        #expect("\(composed)" == composed.text && "\([composed])" == "\([composed.text])")
    }

    @Test("offsets count entries from 1, and 0 stands before the first")
    func offsets() {
        let offset: Offset = 7
        #expect(offset.next == 8 && offset.previous == 6 && Offset(0).next == 1)
        #expect(offset.advanced(by: 3) == 10 && offset.advanced(by: -7) == 0)
        #expect(offset.distance(to: 10) == 3 && offset.distance(to: 0) == -7)
        #expect(offset.reduced(by: 3) == 4 && offset.reduced(by: 7) == 0 && offset.reduced(by: .max) == 0)
        #expect(Array(offset...9) == [7, 8, 9] && offset < .max)
        #expect("\(offset)" == "7" && Offset.max.rawValue == .max)
    }

    @Test("sequence numbers count an actor's operations from 1")
    func sequenceNumbers() {
        let number: SequenceNumber = 7
        #expect(number.next == 8 && number.previous == 6 && SequenceNumber(0).next == 1)
        #expect(number.advanced(by: 3) == 10 && number.distance(to: 0) == -7)
        #expect((number...9).contains(8) && Array(number..<9) == [7, 8] && number < .max)
        #expect("\(number)" == "7")
    }

    @Test("encodings are equal by their bytes")
    func encodings() {
        let (state, delta) = (EncodedState([1, 2]), EncodedDelta([1, 2]))
        #expect(state == [1, 2] && state != [1] && delta == [1, 2] && delta != [2, 1])
        #expect(state.count == 2 && delta.count == 2 && state.bytes == delta.bytes)
        #expect(Set([state, [1, 2], [3]]).count == 2 && Set([delta, [1, 2], [3]]).count == 2)
        #expect(state.withUnsafeBytes { $0.count } == 2 && delta.withUnsafeBytes { $0.first } == 1)
    }
}
