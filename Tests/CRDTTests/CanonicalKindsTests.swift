import Testing

@testable import CRDT

/// Bytes of counters, attachments and seeds that say the same in another way, or nothing that can be: one row
/// per rule of Encoding.md, each refused.
@Suite("Canonical form of counters, attachments and seeds")
struct CanonicalKindsTests {
    /// Actor 9 at time 9 wrote it.
    private static let stamp = Stamp(time: 9, actor: ActorID(9))
    private static let actor: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 1]
    private static let other: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 2]
    private static let time: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 9]
    /// Version, flags, actors 1 and 2 at time 9, and stamps 8@1, 9@1 and 9@2.
    private static let head: [UInt8] = [1, 0, 2] + actor + other + time + time + [7, 3, 0, 1, 0, 0, 1, 0]
    /// `{"id": "x", "len": 1, "metadata": {}}`.
    private static let token: [UInt8] =
        [8, 23, 3, 2, 0x69, 0x64, 0x41, 0x78, 3, 0x6C, 0x65, 0x6E, 0x81, 8, 0x6D, 0x65, 0x74, 0x61]
        + [0x64, 0x61, 0x74, 0x61, 8, 1, 0]

    /// A document of two fields: "a" with these bytes, and "b" that uses the stamps.
    private static func document(_ greatest: UInt8, _ slot: [UInt8]) -> [UInt8] {
        head + [0, greatest, 2, 2, 0, 0, 0, UInt8(2 + slot.count), 1, 0x61] + slot
            + [1, 0x62, 4, 9, 3, 2, 0, 0x80, 1, 0x80, 1, 8, 0x80]
    }

    private static func counter(_ bytes: [UInt8]) -> [UInt8] {
        document(3, [4, UInt8(bytes.count)] + bytes)
    }

    @Test("the plainest are what the rows below depart from")
    func plain() throws {
        let plain = [
            Self.counter([3, 0, 1, 8, 0x85]), Self.counter([3, 1, 2, 0x85, 0]),
            Self.counter([2, 0, 1, 6, 0x85, 0, 0x81]),
            Self.counter([0, 0, 1, 9, 0x85]), Self.document(3, [0x88] + Self.token),
            Self.document(3, [8, 0] + Self.token),
            Self.document(3, [0x48, 2, 0] + Self.token + [1] + Self.token),
        ]
        for bytes in plain { #expect(try Document(decoding: EncodedState(bytes)).encoded().bytes == bytes) }
    }

    @Test(
        "a counter in a form that is not canonical is refused",
        arguments: [
            ("nothing in it", [0, 0, 0]), ("a greatest stamp that is missing", [0, 0, 1, 8, 0x85]),
            ("a greatest stamp that is removed", [3, 0, 1, 9, 0x85]),
            ("a greatest stamp beyond the table", [4, 0, 1, 8, 0x85]),
            ("an entry's stamp beyond the table", [3, 0, 1, 12, 0x85]),
            ("a RESTART's stamp beyond the table", [3, 1, 3, 0x85, 0]),
            ("a new sum of its own beginning", [3, 0, 1, 11, 0x85, 2, 0x81]),
            ("a new sum that begins at another actor's stamp", [3, 0, 1, 11, 0x85, 0, 0x81]),
            ("actors that do not ascend", [3, 0, 2, 8, 0x85, 4, 0x85]),
            ("an actor twice", [2, 0, 2, 0, 0x85, 4, 0x85]),
            ("RESTARTs that do not ascend", [3, 2, 2, 0x85, 1, 0x85, 0]),
            ("a RESTART twice", [3, 2, 2, 0x85, 2, 0x85, 0]),
            ("a RESTART that is no number", [3, 1, 2, 0x40, 0]),
            ("a total that is no number", [3, 0, 1, 8, 0]),
            ("a baseline that is no number", [2, 0, 1, 6, 0x85, 0, 0]),
            ("a baseline of another actor", [2, 0, 1, 6, 0x85, 2, 0x81]),
            ("a baseline after its entry", [0, 0, 1, 2, 0x85, 1, 0x81]),
            ("a baseline that is the entry", [0, 0, 1, 6, 0x85, 1, 0x85]),
            ("a baseline of the entry's time and a greater total", [0, 0, 1, 6, 0x85, 1, 0x86]),
            (
                "a baseline of the entry's time and a double",
                [0, 0, 1, 6, 0x85, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0]
            ),
            ("an infinite total", [3, 0, 1, 8, 4, 0x7F, 0xF0, 0, 0, 0, 0, 0, 0]),
            ("a total that is not a number", [3, 0, 1, 8, 4, 0x7F, 0xF8, 0, 0, 0, 0, 0, 0]),
            ("bytes behind its end", [3, 0, 1, 8, 0x85, 0]),
        ] as [(String, [UInt8])])
    func counters(_ what: String, _ bytes: [UInt8]) {
        #expect(
            errorCode { try Document(decoding: EncodedState(Self.counter(bytes))) } == .malformed, "\(what)")
    }

    @Test(
        "an attachment in a form that is not canonical is refused",
        arguments: [
            ("an attachment's flags without one", [0x41, 2, 0x85]),
            ("an attachment's flags without one", [0x81, 2, 0x85]),
            ("both of its flags", [0xC8, 2, 0] + token + [1] + token),
            ("a stamp that could be inherited", [8, 2] + token),
            ("several that are one", [0x48, 1, 2] + token),
            ("two of one stamp", [0x48, 2, 1] + token + [1] + token),
            ("tokens that do not ascend", [0x48, 2, 1] + token + [0] + token),
            ("a token that is none", [0x88, 0x85]), ("an empty object", [0x88, 8, 1, 0]),
        ] as [(String, [UInt8])])
    func attachments(_ what: String, _ slot: [UInt8]) {
        #expect(
            errorCode { try Document(decoding: EncodedState(Self.document(3, slot))) } == .malformed,
            "\(what)")
    }

    /// A delta on the base {1: 8} that edits the field "a".
    private static func delta(_ slot: [UInt8]) -> [UInt8] {
        [1, 0, 1] + actor + [1, 4, 1, 1, 0x61] + slot
    }

    @Test("the plainest deltas are what the rows below depart from")
    func plainDeltas() throws {
        for slot in [[8, 8, 0x85], [8, 4, 0x85], [8, 3, 1, 0, 0, 0x85], [0x10], [0x20] + Self.token] {
            let bytes = Self.delta(slot)
            #expect(try Delta(decoding: EncodedDelta(bytes), stamp: Self.stamp).encoded().bytes == bytes)
        }
    }

    @Test(
        "a delta of counters and attachments in a form that is not canonical is refused",
        arguments: [
            ("a counter edit that does nothing", [8, 0]), ("unknown bits of a counter edit", [8, 0x10]),
            ("an amount that is no number", [8, 8, 0x40]), ("a RESTART that is no number", [8, 4, 0]),
            ("no baselines", [8, 1, 0, 0x85, 0x85]), ("a baseline beyond the base", [8, 1, 1, 1, 0, 0x85]),
            ("a baseline before time zero", [8, 1, 1, 0, 9, 0x85]),
            ("baselines that do not ascend", [8, 1, 2, 0, 0, 0x85, 0, 0, 0x85]),
            ("a baseline that is no number", [8, 1, 1, 0, 0, 0x40]),
            ("an attachment that is no token", [0x20, 0x85]), ("unknown bits", [0x40]),
            ("unknown bits", [0x80]),
        ] as [(String, [UInt8])])
    func deltas(_ what: String, _ slot: [UInt8]) {
        let code = errorCode { try Delta(decoding: EncodedDelta(Self.delta(slot)), stamp: Self.stamp) }
        #expect(code == .malformed, "\(what)")
    }

    @Test(
        "a seed in a form that is not canonical is refused",
        arguments: [
            ("unknown flags", [1, 4, 0, 0]), ("a seed without presence", [1, 2, 0, 0, 0]),
            ("a seed that clears", [1, 2, 0, 3, 0]),
            ("a seed that clears a register", [1, 2, 0, 6, 1, 1, 0x61, 1, 0]),
            ("a seed that clears an attachment", [1, 2, 0, 6, 1, 1, 0x61, 0x10, 0]),
            ("a seed that clears below", [1, 2, 0, 6, 1, 1, 0x61, 4, 1, 0]),
            ("a seed that increments", [1, 2, 0, 6, 1, 1, 0x61, 8, 8, 0x85, 0]),
            ("a seed that clears RESTARTs", [1, 2, 0, 6, 1, 1, 0x61, 8, 6, 0x85, 0]),
            ("a seed alone, with a base", [1, 2, 1] + actor + [1, 2, 0]),
            ("a seed that its edit's base lacks", [1, 2, 0, 2, 2]),
        ] as [(String, [UInt8])])
    func seeds(_ what: String, _ bytes: [UInt8]) {
        #expect(
            errorCode { try Delta(decoding: EncodedDelta(bytes), stamp: Self.stamp) } == .malformed, "\(what)"
        )
    }
}
