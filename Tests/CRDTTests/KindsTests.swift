import Testing

@testable import CRDT

@Suite("Kinds under one key, and attachments")
struct KindsTests {
    private static let token = AttachmentToken(id: "abc", length: 3, metadata: [(key: "name", value: "a")])
    private let token: Value = [
        "id": "abc", "len": 3, "metadata": ["name": "a"],
    ]
    private let attachment = TypeDeclaration(kind: .attachment)

    /// A field "k" that was written as each kind in turn.
    private func everyKind() throws -> Document {
        var document = try edited(at: 1, by: 1) { try $0.set(["k"], "text") }
        document = try edited(document, at: 2, by: 2) { try $0.set(["k", "x"], 1) }
        document = try edited(document, at: 3, by: 3) { try $0.increment(["k"], by: 7) }
        return try edited(document, at: 4, by: 4) { try $0.set(["k"], token, declared: attachment) }
    }

    @Test("the kind written last shows, each can be asked for, by decoded document and in place")
    func newest() throws {
        let document = try everyKind()
        #expect(document.value["k"] == token)
        let expected: [FieldKind: Value] = [
            .register: "text", .map: ["x": 1], .counter: 7, .attachment: token,
        ]
        try document.encoded().withUnsafeBytes { raw in
            let field = try #require(try DocumentReader(raw).root.field("k"))
            #expect(field.newestKind == .attachment)
            for kind in FieldKind.allCases {
                #expect(try field.value(kind) == expected[kind])
                #expect(document.root["k"]?.value(of: kind) == expected[kind])
            }
        }
        let touched = try edited(document, at: 9, by: 1) { try $0.set(["k", "y"], 2) }
        #expect(touched.value["k"] == ["x": 1, "y": 2])
        let counted = try edited(touched, at: 10, by: 1) { try $0.increment(["k"], by: 1) }
        #expect(counted.value["k"] == 8)
    }

    @Test("a removal of one kind leaves the others, one of no kind takes all")
    func removal() throws {
        let document = try everyKind()
        let left: [FieldKind: FieldKind] = [
            .register: .attachment, .map: .attachment, .counter: .attachment, .attachment: .counter,
        ]
        for (kind, newest) in left {
            let after = try edited(document, at: 9, by: 9) { try $0.unset(["k"], kind: kind) }
            #expect(after.root["k"]?.newestKind == newest)
            #expect(after.root["k"]?.value(of: kind) == nil)
        }
        let none = try edited(document, at: 9, by: 9) { try $0.unset(["k"]) }
        #expect(none.value.isEmpty)
        let deleted = try edited(document, at: 9, by: 9) { $0.delete() }
        #expect(deleted.value.isEmpty)
    }

    /// Writes of each kind to the field "k".
    private static let writes: [(FieldKind, @Sendable (inout DocumentEditor) throws -> Void)] = [
        (.register, { try $0.set(["k"], 1) }), (.map, { try $0.set(["k"], ["x": 1]) }),
        (.map, { try $0.increment(["k", "n"], by: 1) }), (.counter, { try $0.increment(["k"], by: 1) }),
        (.counter, { try $0.restart(["k"], with: 1) }),
        (.attachment, { try $0.set(["k"], token?.marked ?? .null) }),
    ]

    @Test("of two kinds written in one transaction the later statement's shows", arguments: writes, writes)
    func oneTransaction(
        _ first: (FieldKind, @Sendable (inout DocumentEditor) throws -> Void),
        _ second: (FieldKind, @Sendable (inout DocumentEditor) throws -> Void)
    ) throws {
        for start in [Document(), try everyKind()] {
            let document = try edited(start, at: 20, by: 5) {
                try first.1(&$0)
                try second.1(&$0)
            }
            #expect(document.root["k"]?.newestKind == second.0)
        }
    }

    // MARK: Attachments

    @Test("a token is an ATTACHMENT where it is declared or marked, and comes back as a token")
    func inference() throws {
        let short: Value = ["id": "abc", "len": 3]
        let declared = try edited(at: 1, by: 1) { try $0.set(["f"], short, declared: attachment) }
        #expect(declared.value["f"] == ["id": "abc", "len": 3, "metadata": [:]])
        let marked: Value = [AttachmentToken.marker: token]
        let inferred = try edited(at: 1, by: 1) { try $0.set(["a"], ["f": marked, "g": 1]) }
        #expect(Value.object(inferred.value) == ["a": ["f": token, "g": 1]])
        #expect(inferred.root["a"]?.map?["f"]?.newestKind == .attachment)
        let both = try edited(at: 1, by: 1) { try $0.set(["f"], marked, declared: attachment) }
        #expect(both.value["f"] == token)
        let plain = try edited(at: 1, by: 1) { try $0.set(["f"], token) }
        #expect(plain.root["f"]?.newestKind == .map)
        let strict = try edited(at: 1, by: 1) { try $0.set(["f"], marked, objectsAreRegisters: true) }
        #expect(strict.value["f"] == marked)
    }

    @Test("what looks like a token and is none is refused where it is declared, an object where it is not")
    func badTokens() throws {
        let bad: [Value] = [
            1, [:], ["id": "a"], ["id": "", "len": 1], ["id": "a", "len": -1], ["id": "a", "len": 1.0],
            ["id": 1, "len": 1], ["id": "a", "len": 1, "metadata": 1],
            ["id": "a", "len": 1, "metadata": ["a": 1]], ["id": "a", "len": 1, "more": 1],
            ["id": "a", "len": 1, "metadata": [:], "more": 1],
        ]
        for value in bad {
            #expect(AttachmentToken(value) == nil)
            var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
            #expect(errorCode { try editor.set(["f"], value, declared: attachment) } == .unsupportedKind)
            #expect(!editor.hasChanges)
            try editor.set(["f"], [AttachmentToken.marker: value])
            #expect(editor.document.value["f"] == [AttachmentToken.marker: value])
        }
        let twice: Value = [AttachmentToken.marker: [AttachmentToken.marker: token]]
        #expect(AttachmentToken(twice) == nil)
        #expect(AttachmentToken(id: "", length: 1) == nil)
        #expect(AttachmentToken(token) == Self.token)
    }

    @Test("concurrent attachments are all kept until the next write; the later one shows")
    func conflicts() throws {
        let other: Value = ["id": "x", "len": 0, "metadata": [:]]
        let left = try edited(at: 1, by: 1) { try $0.set(["a", "f"], token, declared: attachment) }
        let right = try edited(at: 2, by: 2) { try $0.set(["a", "f"], other, declared: attachment) }
        let both = left.merged(right)
        #expect(both.conflicts(at: ["a", "f"]) == [other, token])
        try both.encoded().withUnsafeBytes { raw in
            let field = try #require(try DocumentReader(raw).root.field("a")?.map()?.field("f"))
            #expect(try field.conflicts() == [other, token])
            #expect(try field.attachment() == other)
            #expect(try field.register() == nil)
        }
        let removed = try edited(both, at: 3, by: 3) { try $0.unset(["a", "f"]) }
        #expect(removed.conflicts(at: ["a", "f"]) == [])
        let settled = try edited(both, at: 3, by: 3) { try $0.set(["a", "f"], token, declared: attachment) }
        #expect(settled.conflicts(at: ["a", "f"]) == [token])
    }

    @Test("conflicts are those of the register or of the attachment, whichever was written last")
    func conflictsOfTwoKinds() throws {
        var document = try edited(at: 1, by: 1) { try $0.set(["f"], token, declared: attachment) }
        document.merge(try edited(at: 2, by: 2) { try $0.set(["f"], 2) })
        document.merge(try edited(at: 3, by: 3) { try $0.set(["f"], 3) })
        #expect(document.conflicts(at: ["f"]) == [3, 2])
        let again = try edited(document, at: 4, by: 4) { try $0.set(["f"], token, declared: attachment) }
        for (state, expected) in [(document, [3, 2]), (again, [token])] {
            #expect(state.conflicts(at: ["f"]) == expected)
            try state.encoded().withUnsafeBytes { raw in
                let field = try #require(try DocumentReader(raw).root.field("f"))
                #expect(try field.conflicts() == expected)
            }
        }
    }
}
