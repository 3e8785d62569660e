import Testing

@Suite("Prose")
struct ProseTests {
    @Test("doc comments begin with the name of their subject")
    func beginnings() {
        let files = SourceTree.moduleFiles.filter { ProseRules.wing(of: $0) == nil }
        #expect(files.count > 20)
        #expect(files.flatMap(ProseRules.beginnings).map(\.description) == [])
    }

    @Test("a part that syncs has no more exceptions", arguments: ProseRules.ceilings.keys.sorted())
    func wing(folder: String) throws {
        let files = SourceTree.moduleFiles.filter { ProseRules.wing(of: $0) == folder }
        #expect(!files.isEmpty)
        #expect(files.flatMap(ProseRules.beginnings).count <= (try #require(ProseRules.ceilings[folder])))
    }

    @Test("a beginning without a noun is found", arguments: ProseRules.pronouns.sorted())
    func findsBeginning(word: String) {
        let file = SourceFile(path: "Shared/CRDT/A.swift", text: "struct A {\n    /// \(word) is it.\n}\n")
        #expect(ProseRules.beginnings(file).map(\.line) == [2])
    }

    @Test("a longer word, a later line and an ordinary comment are not found")
    func toleratesBeginning() {
        let text = """
            /// Whatever comes.
            struct A {
                /// The documents
                /// that are here. What else is not.
                ///
                /// Those stay.
                let a: Int
                // What follows is plain.
            }
            """
        #expect(ProseRules.beginnings(SourceFile(path: "Shared/CRDT/A.swift", text: text)).isEmpty)
    }
}
