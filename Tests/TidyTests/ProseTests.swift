import Testing

@Suite("Prose")
struct ProseTests {
    private static let parts = Dictionary(grouping: SourceTree.files) { ProseRules.part(of: $0) ?? "" }

    @Test("sentences of comments, READMEs and pages begin with the name of their subject")
    func beginnings() {
        let parts = Self.parts.filter { !$0.key.isEmpty && ProseRules.ceilings[$0.key] == nil }
        #expect(parts.count > 20)
        #expect(parts.values.joined().flatMap(ProseRules.beginnings).map(\.description) == [])
    }

    @Test("a part with exceptions has no more of them", arguments: ProseRules.ceilings.keys.sorted())
    func part(name: String) throws {
        let found = try #require(Self.parts[name]).flatMap(ProseRules.beginnings)
        #expect(found.count <= (try #require(ProseRules.ceilings[name])), "\(found)")
    }

    @Test("a beginning without a noun is found", arguments: ProseRules.pronouns.sorted())
    func findsBeginning(word: String) {
        let file = SourceFile(path: "Shared/CRDT/A.swift", text: "struct A {\n    /// \(word) is it.\n}\n")
        #expect(ProseRules.beginnings(file).map(\.line) == [2])
    }

    @Test("a later sentence, an item, an ordinary comment and one after code are found")
    func findsSentence() {
        let text = """
            struct A {
                /// The documents that are here. What else is
                /// not. (Those stay.) "Who goes"
                ///
                /// - *Of it.* Two.
                let a = "x. What" + b  // Which is it?
                // The end!
                // That stays.
                /// Plain,
                // Whose it is.
            }
            """
        let found = ProseRules.beginnings(SourceFile(path: "Shared/CRDT/A.swift", text: text))
        #expect(found.map(\.line) == [2, 3, 3, 5, 6, 8, 10])
    }

    @Test("a longer word, the middle of a sentence, a block of code and a literal are not found")
    func toleratesBeginning() {
        let text = #"""
            /// Whatever comes, Who
            /// What are names (Of them).
            /// ```
            /// What is this
            /// ```
            struct A {
                // MARK: What it holds
                let a = """
                    // What a text
                    """
            }
            """#
        let found = ProseRules.beginnings(SourceFile(path: "Shared/CRDT/A.swift", text: text))
        #expect(found.map(\.description) == [])
    }

    @Test("a sentence of a page is found, a heading, a table and a block of code are not looked at")
    func findsInPage() {
        let text = """
            ## What it is
            The server. Who asks
            - *What is told.* Nothing
            | What | Who |
            |---|---|
            ```
            What is this
            ```
            Those who wait and
            That of others.
            """
        let found = ProseRules.beginnings(SourceFile(path: "Docs/a.md", text: text))
        #expect(found.map(\.line) == [2, 3, 9])
    }

    @Test("records of decisions, tests and other languages are not judged")
    func judges() {
        func part(_ path: String) -> String? { ProseRules.part(of: SourceFile(path: path, text: "")) }
        #expect(part("Shared/CRDT/Document/A.swift") == "Shared/CRDT")
        #expect(part("Shared/Glossary.md") == "Shared/Glossary.md")
        #expect(part("Docs/tasks/a.md") == "Docs")
        #expect(part("Shared/Decisions/0001-a.md") == nil)
        #expect(part("Tests/CRDTTests/A.swift") == nil)
        #expect(part("Services/Console/Web/main.js") == nil)
    }
}
