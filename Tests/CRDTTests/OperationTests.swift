import TestSupport
import Testing

@testable import CRDT

@Suite("Operations")
struct OperationTests {
    private let header: [UInt8] =
        [1, 0] + [0, 0, 0, 0, 0, 0, 0, 5] + [3] + [0, 0, 0, 0, 0, 0, 0, 9]

    private func change(_ collection: CollectionName, _ id: Value, _ delta: EncodedDelta = [1, 0, 0, 2])
        throws
        -> Operation.Change
    {
        Operation.Change(collection: collection, id: try DocumentID(id), delta: delta)
    }

    @Test("changes keep their order, and consecutive ones of a collection share its name")
    func order() throws {
        let changes = try [
            change("b", 2), change("b", 1), change("a", 1), change("b", 3), change("é", 1),
            change("e\u{301}", 1),
        ]
        let operation = Operation(actor: ActorID(5), sequence: 3, timestamp: 9, changes: changes)
        let bytes = operation.encoded()
        #expect(try Operation(decoding: bytes) == operation)
        #expect(
            bytes.starts(with: header + [5, 1, 0x62, 2, 1, 2, 4, 1, 0, 0, 2, 1, 1, 4, 1, 0, 0, 2, 1, 0x61]))
        #expect(operation.stamp == Stamp(time: 9, actor: ActorID(5)))
    }

    @Test("an operation without changes and one with an empty delta come back")
    func small() throws {
        for changes in [[], [try change("a", 1, [])]] {
            let operation = Operation(actor: ActorID(5), sequence: .max, timestamp: .max, changes: changes)
            #expect(try Operation(decoding: operation.encoded()) == operation)
        }
    }

    @Test(
        "bytes that would encode differently, or name a document twice, are refused",
        arguments: [
            [1, 2, 0x61, 0x61, 0],
            [2, 1, 0x61, 1, 1, 1, 1, 0, 1, 0x61, 1, 1, 2, 1, 0],
            [1, 1, 0x61, 2, 1, 1, 1, 0, 1, 1, 1, 0],
            [3, 1, 0x61, 1, 1, 1, 1, 0, 1, 0x62, 1, 1, 1, 1, 0, 1, 0x61, 1, 1, 1, 1, 0],
            [1, 0, 1, 1, 1, 1, 0],
            [0, 0],
        ] as [[UInt8]])
    func malformed(_ changes: [UInt8]) {
        #expect(errorCode { try Operation(decoding: header + changes) } == .malformed)
    }

    @Test("a collection name is as long as the limit allows and no longer")
    func nameLength() throws {
        let name = String(repeating: "x", count: Limits.collectionNameBytes)
        let longest = Operation(
            actor: ActorID(5), sequence: 1, timestamp: 9, changes: [try change(CollectionName(name), 1)])
        #expect(try Operation(decoding: longest.encoded()) == longest)
        let longer = Operation(
            actor: ActorID(5), sequence: 1, timestamp: 9, changes: [try change(CollectionName(name + "x"), 1)]
        )
        #expect(errorCode { try Operation(decoding: longer.encoded()) } == .malformed)
    }

    @Test("an id that is not canonical is refused with its own code")
    func ids() {
        #expect(
            errorCode { try Operation(decoding: header + [1, 1, 0x61, 1, 1, 0xF6, 1, 0]) } == .nullDocumentID)
        let long = errorCode { try Operation(decoding: header + [1, 1, 0x61, 1, 2, 0x18, 1, 1, 0]) }
        #expect(long == .invalidDocumentID)
    }

    @Test("the header is read without the changes, which may be missing or damaged")
    func peeking() throws {
        let expected = OperationHeader(actor: ActorID(5), sequence: 3, timestamp: 9)
        #expect(try OperationHeader.peek(header) == expected)
        #expect(try OperationHeader.peek(header + [0xFF]) == expected)
        #expect(errorCode { try OperationHeader.peek(Array(header.dropLast())) } == .truncated)
        #expect(errorCode { try OperationHeader.peek([1, 0] + Array(header[2..<10]) + [0]) } == .malformed)
    }

    @Test("changes that differ in document or delta are different changes")
    func equality() throws {
        #expect(try change("é", 1) != change("e\u{301}", 1))
        #expect(try change("a", 1) != change("a", 2))
        #expect(try change("a", 1) != change("a", 1, []))
    }
}
