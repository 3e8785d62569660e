import CRDT

/// Documents, deltas' stamps and arguments that the fuzzers' inputs meet.
enum Samples {
    /// Stamps that deltas of the fixtures and of a fuzzer come under.
    static let stamps = [
        Stamp(time: 1 << 40, actor: ActorID(9)), Stamp(time: 9, actor: ActorID(1)),
        Stamp(time: .max, actor: ActorID(0x1111_2222_3333_4444)),
    ]

    /// Nothing; a plain document; one with conflicts, both kinds under a key, and a removal.
    static let documents: [Document] = [Document(), plain, conflicted]

    /// The documents that statements find in every collection, by id.
    static let stored: [DocumentID: [UInt8]] = {
        var stored: [DocumentID: [UInt8]] = [:]
        for (number, document) in [plain, conflicted, nested].enumerated() {
            guard let id = try? DocumentID(.int(Int64(number))) else { continue }
            stored[id] = document.encoded().bytes
        }
        return stored
    }()

    /// Arguments for whatever parameter a statement invents with a likely name.
    static let arguments = ObjectValue(unique: [
        (key: "a", value: 1), (key: "b", value: "text"), (key: "c", value: [1, 2.5, "x", .null]),
        (key: "d", value: ["_id": 7, "k": ["x": 1]]),
    ])

    private static let plain = written(Document(), actor: 1, time: 9) { editor in
        editor.create()
        for (key, value) in fields { try editor.set([key], value) }
    }

    private static let fields: [(String, Value)] = [
        ("_id", 0), ("a", 5), ("b", "text"), ("c", ["x": 1, "y": ["z": 2.5]]), ("é", true), ("l", [1, 2, 3]),
    ]

    private static let conflicted: Document = {
        var left = written(plain, actor: 2, time: 20) { editor in
            try editor.set(["a"], 6)
            try editor.unset(["b"])
            try editor.set(["c", "x"], "left")
            try editor.set(["m"], ["k": 1])
            try editor.increment(["n"], by: 5)
            try editor.restart(["r"], with: 2.5)
        }
        let right = written(plain, actor: 3, time: 21) { editor in
            try editor.set(["a"], 7.0)
            try editor.set(["c"], 1)
            try editor.set(["m"], .binary([1, 2, 3]))
            try editor.increment(["n"], by: -2)
            try editor.increment(["r"], by: 1)
            guard let token = AttachmentToken(id: "blob", length: 3) else { return }
            try editor.set(["a"], token.marked)
        }
        left.merge(right)
        return written(left, actor: 2, time: 40) { editor in
            try editor.unset(["r"])
            try editor.set(["e"], 1)
        }
    }()

    private static let nested = written(Document(), actor: 4, time: 30) { editor in
        editor.create()
        let deep = (0..<20).reduce(Value.int(1)) { inner, _ in ["a": inner] }
        try editor.set(["_id"], 2)
        try editor.set(["a"], deep)
        try editor.set(["b"], .array([deep, .null, "x"]))
        try editor.set(["c"], 9_223_372_036_854_775_807)
    }

    private static func written(
        _ document: Document, actor: UInt64, time: Timestamp, _ body: (inout DocumentEditor) throws -> Void
    ) -> Document {
        var editor = DocumentEditor(
            document: document, stamp: Stamp(time: time, actor: ActorID(actor)))
        do { try body(&editor) } catch { preconditionFailure("a sample cannot be written: \(error)") }
        return editor.document
    }
}
