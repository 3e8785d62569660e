import Testing

@testable import CRDT

/// Bytes that say the same in another way, one row per rule of Encoding.md: each is refused.
@Suite("Canonical form")
struct CanonicalFormTests {
    private static let stamp = Stamp(time: 9, actor: ActorID(9))
    private static let actor: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 1]
    private static let time: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 9]
    /// Version, flags, a vector of one actor at time 9, and a table of one stamp: that one.
    private static let head: [UInt8] = [1, 0, 1] + actor + time + [3, 1, 0, 0]

    @Test("the plainest document is the one the rows below depart from")
    func plain() throws {
        let bytes = Self.head + [0, 1, 1, 2, 0, 0, 1, 0x61, 0x21, 0x85]
        let document = try Document(decoding: EncodedState(bytes))
        #expect(Value.object(document.value) == ["a": 5])
        #expect(document.encoded().bytes == bytes)
    }

    @Test(
        "a document in a form that is not canonical is refused",
        arguments: [
            ("a varint in two bytes", [1, 0, 0x80, 0, 0, 1, 0, 0, 0, 0]),
            ("actors that do not ascend", [1, 0, 2] + actor + actor + time + time + [1, 0, 0, 0, 0]),
            ("a stamp that nothing uses", head + [0, 0, 0]),
            ("a stamp table of another length", [1, 0, 1] + actor + time + [4, 1, 0, 0, 0, 0, 0]),
            ("a stamp before time zero", [1, 0, 1] + actor + time + [3, 1, 0, 10, 1, 0, 1, 0]),
            ("a stamp of an unknown actor", [1, 0, 1] + actor + time + [3, 1, 1, 0, 1, 0, 1, 0]),
            ("stamps that do not ascend", [1, 0, 1] + actor + time + [5, 2, 0, 0, 0, 1, 2, 0, 1, 2, 0]),
            ("presence that does not ascend", [1, 0, 1] + actor + time + [5, 2, 0, 1, 0, 0, 2, 1, 0, 2, 0]),
            ("a presence index beyond the table", head + [1, 1, 1, 0]),
            ("a greatest stamp that is missing", head + [1, 0, 0, 0]),
            ("a greatest stamp that is not beneath", head + [0, 1, 0]),
            ("an offset width of three", head + [0, 1, 1, 3, 0, 0, 0, 1, 0x61, 0x21, 0x85]),
            (
                "an offset width that is not the shortest",
                head + [0, 1, 1, 4, 0, 0, 0, 0, 1, 0x61, 0x21, 0x85]
            ),
            ("an offset that points elsewhere", head + [0, 1, 1, 2, 0, 1, 1, 0x61, 0x21, 0x85]),
            (
                "keys that do not ascend",
                head + [0, 1, 2, 2, 0, 0, 0, 4, 1, 0x62, 0x21, 0x85, 1, 0x61, 0x21, 0x85]
            ),
            ("a slot that holds nothing", head + [1, 0, 1, 1, 2, 0, 0, 1, 0x61, 0, 0]),
            ("a slot of a later kind", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 0x24, 0x85]),
            ("register flags without a register", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 0x22, 3, 1, 0, 1, 0]),
            ("a repeated stamp that is inherited elsewhere", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 1, 0, 0x85]),
            ("several values that are one", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 0x11, 1, 0, 0x85]),
            ("several values of one stamp", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 0x11, 2, 0, 0x85, 0, 0x85]),
            (
                "an inherited stamp where there is none",
                [1, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 1, 0x61, 0x21, 0x85]
            ),
            ("a map that is not there", head + [1, 0, 1, 1, 2, 0, 0, 1, 0x61, 2, 3, 0, 0, 0]),
            ("a map of another length", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 2, 3, 1, 0, 1, 0]),
            ("bytes behind the end", head + [0, 1, 1, 2, 0, 0, 1, 0x61, 0x21, 0x85, 0]),
        ] as [(String, [UInt8])])
    func documents(_ what: String, _ bytes: [UInt8]) {
        #expect(errorCode { try Document(decoding: EncodedState(bytes)) } == .malformed, "\(what)")
    }

    @Test(
        "a value in a form that is not canonical is refused within a delta",
        arguments: [
            ("a small integer in the long form", [3, 2]), ("an unknown tag", [0x09]),
            ("an unknown tag", [0x3F]),
            ("a short string in the long form", [5, 1, 0x61]),
            ("another NaN", [4, 0x7F, 0xF8, 0, 0, 0, 0, 0, 1]),
            ("a negative NaN", [4, 0xFF, 0xF8, 0, 0, 0, 0, 0, 0]),
            ("an array of another length", [7, 3, 1, 0x85, 0x85]),
            ("an object whose keys do not ascend", [8, 7, 2, 1, 0x62, 0x80, 1, 0x61, 0x80]),
            ("an object with a key twice", [8, 7, 2, 1, 0x61, 0x80, 1, 0x61, 0x80]),
            ("a varint of 65 bits", [3] + [UInt8](repeating: 0xFF, count: 9) + [2]),
            ("a varint of eleven bytes", [3] + [UInt8](repeating: 0xFF, count: 10) + [0]),
        ] as [(String, [UInt8])])
    func values(_ what: String, _ value: [UInt8]) {
        let bytes = [1, 0, 0, 4, 1, 0, 2] + value
        #expect(
            errorCode { try Delta(decoding: EncodedDelta(bytes), stamp: Self.stamp) } == .malformed, "\(what)"
        )
    }

    @Test(
        "a delta in a form that is not canonical is refused",
        arguments: [
            ("unknown flags", [1, 2, 0, 0]), ("an own base at the stamp itself", [1, 1, 0, 0, 0]),
            ("a base before time zero", [1, 1, 10, 0, 0]),
            ("a base at the stamp's time", [1, 0, 1] + actor + [0, 0]),
            ("a base's actors that do not ascend", [1, 0, 2] + actor + [1] + actor + [1, 0]),
            ("the own actor among the others", [1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 1, 0]),
            ("unknown bits of a map edit", [1, 0, 0, 8]), ("an empty list of fields", [1, 0, 0, 4, 0, 0]),
            ("keys that do not ascend", [1, 0, 0, 4, 2, 1, 0x62, 1, 1, 0x61, 1]),
            ("a slot edit that does nothing", [1, 0, 0, 4, 1, 1, 0x61, 0]),
            ("unknown bits of a slot edit", [1, 0, 0, 4, 1, 1, 0x61, 64]),
            ("bytes behind the end", [1, 0, 0, 1, 0]),
        ] as [(String, [UInt8])])
    func deltas(_ what: String, _ bytes: [UInt8]) {
        #expect(
            errorCode { try Delta(decoding: EncodedDelta(bytes), stamp: Self.stamp) } == .malformed, "\(what)"
        )
    }
}
