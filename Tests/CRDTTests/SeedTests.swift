import Testing

@testable import CRDT

@Suite("INITIAL documents")
struct SeedTests {
    private let content = object(["a": 1, "m": ["x": 1, "y": 2]])

    private func seeded(
        _ document: Document = Document(), at time: Timestamp, by actor: UInt64, _ content: ObjectValue
    ) throws -> Document {
        try edited(document, at: time, by: actor) { _ = try $0.seed(content) }
    }

    @Test("the same content is one write, whoever writes it and when")
    func identical() throws {
        let left = try seeded(at: 5, by: 1, content)
        let reordered = object(["m": ["y": 2, "x": 1], "a": 1])
        let right = try seeded(at: 900, by: 2, reordered)
        #expect(left == right)
        #expect(left.encoded() == right.encoded())
        #expect(left.vector.entries.map(\.time) == [0])
        #expect(left.isLive && .object(left.value) == Value.object(content))
    }

    @Test("other content, other types and other kinds are other seeds; they merge field by field")
    func different() throws {
        let one = try seeded(at: 5, by: 1, content)
        let second = object(["b": 1, "m": ["z": 3]])
        let two = try seeded(at: 5, by: 2, second)
        let both = one.merged(two)
        #expect(Value.object(both.value) == ["a": 1, "b": 1, "m": ["x": 1, "y": 2, "z": 3]])
        #expect(both == two.merged(one))
        let float = object(["a": 1.0, "m": ["x": 1, "y": 2]])
        #expect(try seeded(at: 5, by: 1, float).vector != one.vector)
        let register = TypeDeclaration(
            kind: .map, children: [(key: "m", type: TypeDeclaration(kind: .register))])
        let declared = try edited(at: 5, by: 1) { _ = try $0.seed(content, declared: register) }
        #expect(declared.vector != one.vector)
        #expect(declared.root["m"]?.newestKind == .register)
    }

    @Test("a field that two seeds set has one winner, whatever the order in which they meet")
    func contested() throws {
        let one = try seeded(at: 5, by: 1, object(["a": 1]))
        let two = try seeded(at: 6, by: 2, object(["a": 2]))
        #expect(one.merged(two) == two.merged(one))
        #expect(one.merged(two).conflicts(at: ["a"]).count == 2)
    }

    @Test("regular writes beat seeds, also those that never saw them")
    func regularWrites() throws {
        let seed = try seeded(at: 500, by: 1, content)
        let written = try edited(at: 1, by: 2) { try $0.set(["a"], 9) }
        #expect(seed.merged(written).value["a"] == 9)
        let updated = try edited(seed, at: 501, by: 2) { try $0.set(["a"], 8) }
        #expect(updated.conflicts(at: ["a"]) == [8])
    }

    @Test("every kind can be seeded")
    func kinds() throws {
        let token: Value = ["id": "x", "len": 1, "metadata": [:]]
        let types = TypeDeclaration(
            kind: .map,
            children: [
                (key: "n", type: TypeDeclaration(kind: .counter)),
                (key: "f", type: TypeDeclaration(kind: .attachment)),
            ])
        let all = object(["n": 10, "f": token, "e": [:]])
        let document = try edited(at: 5, by: 1) { _ = try $0.seed(all, declared: types) }
        #expect(Value.object(document.value) == ["e": [:], "f": token, "n": 10])
        let more = try edited(document, at: 6, by: 2) { try $0.increment(["n"], by: 5) }
        #expect(more.value["n"] == 15)
    }

    @Test("on a live document, and where it is known, a seed does nothing")
    func nothing() throws {
        for document in [try seeded(at: 5, by: 1, content), try edited(at: 5, by: 1) { $0.create() }] {
            var editor = DocumentEditor(document: document, stamp: Stamp(time: 9, actor: ActorID(2)))
            #expect(try !editor.seed(content))
            #expect(!editor.hasChanges && editor.document == document)
        }
    }

    @Test("the seed of a deleted document stays deleted, another one does not")
    func deleted() throws {
        let seed = try seeded(at: 5, by: 1, content)
        let deleted = try edited(seed, at: 9, by: 1) { $0.delete() }
        #expect(!deleted.isLive)
        let again = try seeded(deleted, at: 20, by: 1, content)
        #expect(again == deleted)
        #expect(deleted.merged(try seeded(at: 30, by: 2, content)) == deleted)
        let other = try seeded(deleted, at: 20, by: 1, object(["z": 1]))
        #expect(Value.object(other.value) == ["z": 1])
    }

    @Test("a seed and what the same transaction does to it are one delta")
    func sameTransaction() throws {
        let document = try edited(at: 5, by: 1) {
            _ = try $0.seed(content)
            try $0.set(["a"], 2)
            try $0.unset(["m", "x"])
            #expect($0.pending.base.entries.count == 1)
        }
        #expect(Value.object(document.value) == ["a": 2, "m": ["y": 2]])
        #expect(document.conflicts(at: ["a"]) == [2])
        #expect(document.vector.entries.count == 2)
        let removed = try edited(at: 5, by: 1) {
            _ = try $0.seed(content)
            $0.delete()
            #expect(try !$0.seed(content))
        }
        #expect(!removed.isLive)
        #expect(removed.merged(try seeded(at: 1, by: 2, content)) == removed)
    }

    @Test("a seed after a deletion in its transaction is a regular insert besides")
    func afterDeletion() throws {
        let start = try edited(at: 3, by: 1) {
            try $0.set(["a"], 7)
            try $0.increment(["n"], by: 4)
        }
        let document = try edited(start, at: 5, by: 1) {
            $0.delete()
            #expect(try $0.seed(content))
            try $0.set(["m", "x"], 5)
        }
        #expect(Value.object(document.value) == ["a": 1, "m": ["x": 5, "y": 2]])
        let deleted = try edited(document, at: 9, by: 1) { $0.delete() }
        #expect(try seeded(deleted, at: 10, by: 1, content) == deleted)
        let second = try edited(start, at: 5, by: 1) {
            $0.delete()
            _ = try $0.seed(content)
            $0.delete()
            #expect(try $0.seed(object(["z": 1])))
        }
        #expect(Value.object(second.value) == ["z": 1])
    }

    @Test("a seed that is known and an update that is not: only the update is applied, and the other way")
    func partlyKnown() throws {
        let both = try delta(on: Document(), at: 5, by: 1) {
            _ = try $0.seed(content)
            try $0.set(["a"], 2)
        }
        let seed = try seeded(at: 1, by: 2, content)
        let whole = Document().applied(both)
        #expect(seed.applied(both) == whole)
        #expect(seed.merged(whole) == whole)
        var again = whole
        #expect(again.apply(both) == .duplicate)
        #expect(both.writesStamp && both.resultingVector == whole.vector)
        let only = try delta(on: Document(), at: 5, by: 1) { _ = try $0.seed(content) }
        #expect(!only.writesStamp && only.resultingVector == seed.vector && only.base.isEmpty)
        #expect(again.apply(only) == .duplicate)
    }

    @Test("a seed whose update rests on something missing waits for the full state, seed and all")
    func baseMissing() throws {
        let tombstone = try edited(try edited(at: 1, by: 1) { $0.create() }, at: 2, by: 1) { $0.delete() }
        let both = try delta(on: tombstone, at: 5, by: 2) {
            _ = try $0.seed(content)
            try $0.set(["a"], 2)
        }
        var document = Document()
        #expect(document.apply(both) == .baseMissing)
        #expect(document == Document())
    }

    @Test("a seed that cannot be written is refused whole")
    func refused() {
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 9, actor: ActorID(2)))
        let deep = (0..<Limits.nestingDepth + 1).reduce(Value.int(1)) { inner, _ in ["a": inner] }
        #expect(errorCode { try editor.seed(object(["a": deep])) } == .tooDeep)
        let counter = TypeDeclaration(
            kind: .map, children: [(key: "a", type: TypeDeclaration(kind: .counter))])
        let text = object(["b": 1, "a": "x"])
        #expect(errorCode { try editor.seed(text, declared: counter) } == .unsupportedKind)
        #expect(!editor.hasChanges && !editor.exists)
    }
}
