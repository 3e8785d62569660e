import TestSupport
import Testing

@testable import CRDT

@Suite("Document editor")
struct EditorTests {
    private let first = Stamp(time: 10, actor: ActorID(1))
    private let second = Stamp(time: 20, actor: ActorID(2))

    private func edited(
        _ document: Document = Document(), at stamp: Stamp, _ body: (inout DocumentEditor) throws -> Void
    ) rethrows -> Document {
        var editor = DocumentEditor(document: document, stamp: stamp)
        try body(&editor)
        return editor.document
    }

    @Test(
        "applying the composed delta to the original gives the editor's document",
        arguments: Depth.cases(fast: 40, deep: 400))
    func composition(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<10 {
            let original = random.document()
            let time = (original.vector.greatestTime ?? 0) + 1
            let stamp = Stamp(time: time, actor: ActorID(9))
            var editor = DocumentEditor(document: original, stamp: stamp)
            editor.create()
            for edit in random.transaction() + random.transaction() { try edit.perform(on: &editor) }
            let delta = try #require(editor.pending.delta(stamp: stamp))
            var applied = original
            #expect(applied.apply(try Delta(decoding: delta.encoded(), stamp: stamp)) == .applied)
            #expect(applied == editor.document, "seed \(seed)")
        }
    }

    @Test("an undeclared object becomes a map that merges key by key")
    func objectsMerge() throws {
        let before = try edited(at: first) { try $0.set(["a"], ["x": 1, "y": 2]) }
        let after = try edited(before, at: second) { try $0.set(["a"], ["y": 3, "z": 4]) }
        #expect(Value.object(after.value) == ["a": ["x": 1, "y": 3, "z": 4]])
    }

    @Test("an object declared as REGISTER is replaced as one")
    func registersReplace() throws {
        let register = TypeDeclaration(kind: .register)
        let before = try edited(at: first) { try $0.set(["a"], ["x": 1], declared: register) }
        let after = try edited(before, at: second) { try $0.set(["a"], ["y": 3], declared: register) }
        #expect(Value.object(after.value) == ["a": ["y": 3]])
    }

    @Test("in strict mode an undeclared object is one register")
    func strictObjects() throws {
        let before = try edited(at: first) { try $0.set(["a"], ["x": 1], objectsAreRegisters: true) }
        let after = try edited(before, at: second) { try $0.set(["a"], ["y": 1], objectsAreRegisters: true) }
        #expect(Value.object(after.value) == ["a": ["y": 1]])
    }

    @Test("the most recently written kind shows; unset removes every kind")
    func kinds() throws {
        let map = try edited(at: first) { try $0.set(["a"], ["x": 1]) }
        let register = try edited(map, at: second) { try $0.set(["a"], 5) }
        #expect(Value.object(register.value) == ["a": 5])
        let third = Stamp(time: 30, actor: ActorID(1))
        let below = try edited(register, at: third) { try $0.set(["a", "y"], 2) }
        #expect(Value.object(below.value) == ["a": ["x": 1, "y": 2]])
        let one = try edited(register, at: third) { try $0.unset(["a"], kind: .register) }
        #expect(Value.object(one.value) == ["a": ["x": 1]])
        let none = try edited(register, at: third) { try $0.unset(["a"]) }
        #expect(Value.object(none.value) == [:])
    }

    @Test("a map that a write below it created stays when its last key is unset")
    func createdMapsStay() throws {
        let created = try edited(at: first) { try $0.set(["a", "b", "x"], 1) }
        let after = try edited(created, at: second) { try $0.unset(["a", "b", "x"]) }
        #expect(Value.object(after.value) == ["a": ["b": [:]]])
    }

    @Test("an empty object stays an empty map, also when its last key is unset")
    func emptyMaps() throws {
        let empty = try edited(at: first) { try $0.set(["a"], [:]) }
        #expect(Value.object(empty.value) == ["a": [:]])
        let filled = try edited(empty, at: second) { try $0.set(["a", "x"], 1) }
        let again = try edited(filled, at: Stamp(time: 30, actor: ActorID(1))) { try $0.unset(["a", "x"]) }
        #expect(Value.object(again.value) == ["a": [:]])
    }

    @Test("a deleted document keeps what was written concurrently, and that alone")
    func deleteAgainstUpdate() throws {
        let base = try edited(at: first) {
            $0.create()
            try $0.set(["a"], 1)
            try $0.set(["b"], 2)
        }
        let updated = try edited(base, at: second) { try $0.set(["b"], 3) }
        var deleted = edited(base, at: Stamp(time: 30, actor: ActorID(3))) { $0.delete() }
        #expect(!deleted.isLive)
        deleted.merge(updated)
        #expect(deleted.isLive)
        #expect(Value.object(deleted.value) == ["b": 3])
    }

    @Test("concurrent writes are all kept until the next write; the greatest stamp shows")
    func conflicts() throws {
        var left = try edited(at: first) { try $0.set(["a", "x"], 1) }
        left.merge(try edited(at: second) { try $0.set(["a", "x"], 2) })
        #expect(left.conflicts(at: ["a", "x"]) == [2, 1])
        #expect(Value.object(left.value) == ["a": ["x": 2]])
        let settled = try edited(left, at: Stamp(time: 30, actor: ActorID(1))) { try $0.set(["a", "x"], 3) }
        #expect(settled.conflicts(at: ["a", "x"]) == [3])
        #expect(settled.conflicts(at: []) == [])
        #expect(settled.conflicts(at: ["x", "a"]) == [])
        #expect(settled.conflicts(at: ["a"]) == [])
    }

    @Test("unsetting what is not there is no edit")
    func unsetNothing() throws {
        var editor = DocumentEditor(document: Document(), stamp: first)
        try editor.unset(["a", "b"])
        try editor.unset(["a"], kind: .counter)
        #expect(!editor.hasChanges)
        #expect(editor.pending.delta(stamp: first) == nil)
    }

    @Test("the editor reads its own writes along maps and inside registers")
    func reading() throws {
        var editor = DocumentEditor(document: Document(), stamp: first)
        try editor.set(["a"], ["x": ["y": 1]])
        try editor.set(["b"], ["x": 2], declared: TypeDeclaration(kind: .register))
        #expect(editor.value(at: ["a", "x", "y"]) == 1)
        #expect(editor.value(at: ["b", "x"]) == 2)
        #expect(editor.value(at: ["b", "y"]) == nil)
        #expect(editor.value(at: []) == ["a": ["x": ["y": 1]], "b": ["x": 2]])
    }

    @Test("keys that look the same and differ in bytes are two keys")
    func canonicalEquivalence() throws {
        let document = try edited(at: first) {
            try $0.set(["é"], 1)
            try $0.set(["e\u{301}"], 2)
        }
        #expect(document.value.count == 2)
        #expect(document.value["é"] == 1)
        #expect(document.value["e\u{301}"] == 2)
    }
}
