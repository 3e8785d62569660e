import Testing

@Suite("Documents")
struct DocumentTests {
    private static let index = PathIndex(
        SourceTree.files.map(\.path) + SourceTree.pictures)
    private static let declarations = Declarations(SourceTree.moduleFiles)
    /// The documents that a newcomer reads first, besides the READMEs of modules and services.
    private static let maps = [
        "ARCHITECTURE.md", "Shared/README.md", "Shared/Glossary.md", "Shared/Decisions/README.md",
        "Shared/Sync/Example.md", "Shared/Sync/Gaps.md",
    ]

    private static func document(_ path: String) throws -> SourceFile {
        try #require(SourceTree.files.first { $0.path == path })
    }

    // MARK: the documents

    @Test("lines of prose are no wider than lines of Swift", arguments: SourceTree.moduleFolders)
    func readmeColumns(folder: String) throws {
        let readme = try Self.document("\(folder)/README.md")
        #expect(DocumentRules.wideProse(readme).map(\.description) == [])
    }

    @Test("pages that lead through the project have narrow lines too", arguments: maps)
    func mapColumns(path: String) throws {
        #expect(DocumentRules.wideProse(try Self.document(path)).map(\.description) == [])
    }

    @Test("the main README fits on a page of 150 lines")
    func mainReadme() throws {
        let readme = try Self.document("README.md")
        #expect(SizeRules.longFile(readme, limit: SizeRules.mainReadmeLines).map(\.description) == [])
        #expect(DocumentRules.wideProse(readme).map(\.description) == [])
    }

    @Test("every file that the floor plan names exists")
    func floorPlan() throws {
        let plan = try Self.document("Shared/README.md")
        #expect(DocumentRules.missingPaths(plan, in: Self.index).map(\.description) == [])
    }

    @Test("every name that the floor plan puts beside files occurs in them")
    func floorPlanNames() throws {
        let plan = try Self.document("Shared/README.md")
        let texts = Dictionary(uniqueKeysWithValues: SourceTree.swiftFiles.map { ($0.path, $0.text) })
        let strangers = DocumentRules.strangers(plan, in: Self.index) { texts[$0] }
        #expect(strangers.map(\.description) == [])
    }

    @Test("the floors are drawn as the modules import each other")
    func floors() throws {
        let modules = SourceTree.moduleFolders.map { String($0.split(separator: "/")[1]) }
        var imports = Dictionary(uniqueKeysWithValues: modules.map { ($0, Set<String>()) })
        for file in SourceTree.moduleFiles where !file.module.hasSuffix("/Executable") {
            let name = String(file.module.split(separator: "/")[1])
            let found = file.swift.lines.compactMap(Rules.importedModule).filter(modules.contains)
            imports[name, default: []].formUnion(found)
        }
        let plan = try Self.document("Shared/README.md")
        #expect(DocumentRules.floors(plan, imports: imports).map(\.description) == [])
    }

    @Test("every link between documents leads somewhere")
    func links() {
        let documents = SourceTree.files.filter { $0.path.hasSuffix(".md") }
        let broken = documents.flatMap { DocumentRules.brokenLinks($0, in: Self.index) }
        #expect(broken.map(\.description) == [])
    }

    @Test("every word of the glossary is in its place, once, and names code that exists")
    func glossary() throws {
        let glossary = try Self.document("Shared/Glossary.md")
        #expect(Markdown(glossary).rows.count >= 60)
        #expect(DocumentRules.glossary(glossary, Self.declarations).map(\.description) == [])
    }

    @Test("every gap of Sync is numbered, and names a test, a seed or `no test`")
    func gaps() throws {
        let seeds = DocumentRules.seeds(try Self.document("Tests/Simulation/seeds.txt"))
        let gaps = try Self.document("Shared/Sync/Gaps.md")
        #expect(DocumentRules.gaps(gaps, in: Self.index, seeds: seeds).map(\.description) == [])
    }

    @Test("the index of decisions has every record, and knows which are superseded")
    func decisions() throws {
        let records = SourceTree.files.filter { $0.path.hasPrefix("Shared/Decisions/0") }
        #expect(records.count > 40)
        let index = try Self.document("Shared/Decisions/README.md")
        #expect(DocumentRules.decisions(index, records).map(\.description) == [])
    }

    // MARK: the rules can fail

    private func markdown(_ text: String) -> SourceFile { SourceFile(path: "Shared/README.md", text: text) }

    @Test("a wide line is found in prose, and not in a table or a code block")
    func findsWideProse() {
        let wide = String(repeating: "a", count: 111)
        let text = "\(wide)\n| \(wide) |\n```\n\(wide)\n```\n\(wide)\n"
        #expect(DocumentRules.wideProse(markdown(text)).map(\.line) == [1, 6])
    }

    @Test(
        "a path that does not exist is found",
        arguments: ["CRDT/Nothing.swift", "Shared/Nothing/", "Nothing.swift", "../Nothing/README.md"])
    func findsMissingPath(path: String) {
        let text = "see `\(path)`\n```\n`\(path)`\n```\n"
        #expect(DocumentRules.missingPaths(markdown(text), in: Self.index).map(\.line) == [1])
    }

    @Test(
        "a path that exists is not found, nor is a span that only looks like a path",
        arguments: [
            "CRDT/README.md", "Shared/CRDT/", "Limits.swift", "../Services", "Session", "/_ditto/sync",
            "make test", "--log postgres://host", ".swift",
        ])
    func toleratesPath(path: String) {
        let found = DocumentRules.missingPaths(markdown("see `\(path)`\n"), in: Self.index)
        #expect(found.map(\.description) == [])
    }

    @Test("a link that leads nowhere is found; addresses and places within the page are not looked at")
    func findsBrokenLink() {
        let text = """
            [a](CRDT/Nothing.md)
            [b](CRDT/README.md#c) [d](https://example.org/e) [f](#g)

            [h]: CRDT/Nothing.md
            [i]: CRDT/README.md
            """
        #expect(DocumentRules.brokenLinks(markdown(text), in: Self.index).map(\.line) == [1, 4])
    }

    @Test("a name that a row's file does not have is found, also where it is a part of another name")
    func findsStranger() {
        let text = """
            | what | where |
            |---|---|
            | `Session.receive` | `CRDT/A.swift` |
            | `receiv` | `CRDT/A.swift` |
            | `nothing` | nowhere |
            """
        let index = PathIndex(["Shared/CRDT/A.swift"])
        let found = DocumentRules.strangers(markdown(text), in: index) { _ in "func receive() {}" }
        #expect(found.map(\.line) == [4])
    }

    @Test("a module that is not drawn, an arrow too few or too many, and one that leads up are found")
    func findsFloors() {
        let text = "```\n2  A ─▶ C, D\n   B ─▶ A    C\n1  D\n```\n"
        let found = DocumentRules.floors(
            markdown(text), imports: ["A": ["C", "B"], "B": ["A"], "C": [], "D": [], "E": []])
        #expect(
            found.map(\.message) == [
                "A imports B", "A does not import D", "A does not stand above C",
                "B does not stand above A", "E is not drawn",
            ])
    }

    @Test("a wrong name, a wrong order, a word twice and a missing cell are found in a glossary")
    func findsGlossary() {
        let source = SourceFile(
            path: "Shared/CRDT/A.swift",
            text: """
                enum Frame {
                    case upload(Int)
                    struct Hello {}
                }
                func f() { switch a { case .want: b } }
                """)
        let text = """
            | word | meaning | the field's word | in code |
            |---|---|---|---|
            | actor | one life | node | `Frame` |
            | base | a vector | the same | `Frame.upload`, `Frame.Hello` |
            | base | again | the same | `Frame` |
            | alone | before | the same | `Frame` |
            | credit | bytes | the same | `Frame.want` |
            | delta | bytes | the same | `Nothing` |
            | epoch | bytes | the same | none |
            | fold | bytes | `Frame` |
            """
        let found = DocumentRules.glossary(markdown(text), Declarations([source]))
        #expect(found.map(\.line) == [5, 6, 7, 8, 9, 10])
    }

    @Test("a gap that is misnumbered, or shown by nothing that exists, is found")
    func findsGap() {
        let text = """
            **G1. One.** Text.
            Shown by: `DocumentTests.swift`, seed 19.
            **G3. Two.** Text.
            Shown by: no test.
            **G3. Three.** Text.
            Shown by: seed 20, `NothingTests.swift`.
            **G4. Four.** Text.
            Shown by: somebody.
            **G5. Five.** Text.
            """
        let found = DocumentRules.gaps(markdown(text), in: Self.index, seeds: [19])
        #expect(found.map(\.line) == [3, 6, 6, 8, 1])
    }

    @Test("a record that the index lacks, names twice, calls otherwise or does not lead to is found")
    func findsDecision() {
        let index = markdown(
            """
            | | title | in short | status |
            |---|---|---|---|
            | [0001] | a | | superseded by 0002 |
            | [0002] | b | | holds |
            | [0003] | c | | superseded in part by 0002 |
            | [0005] | e | | holds |
            | [0005] | e | | holds |
            | [0006] | other | | holds |

            [0001]: 0001-a.md
            [0002]: 0002-b.md
            [0003]: 0003-c.md
            [0005]: 0005-e.md
            """)
        let records = [
            "# 0001: a\n\nDate", "# 0002: b\n\nSuperseded by 0003: all",
            "# 0003: c\n\nSuperseded in part by 0002: it", "# 0004: d\n", "# 0005: e\n", "# 0006 f\n",
        ]
        .map { text in
            let words = text.split(whereSeparator: " :\n".contains)
            return SourceFile(path: "Shared/Decisions/\(words[1])-\(words[2]).md", text: text)
        }
        let found = DocumentRules.decisions(index, records).map { "\($0.path.suffix(9)) \($0.message)" }
        #expect(
            found == [
                "0001-a.md differs in status", "0002-b.md differs in status",
                "0004-d.md stands 0 times in the index", "0004-d.md has no link in the index",
                "0005-e.md stands 2 times in the index", "0006-f.md has another title in the index",
                "0006-f.md has no link in the index",
            ])
    }
}
