import Testing

@Suite("Imports")
struct ImportTests {
    @Test("every direct import stands in the import table")
    func sources() {
        #expect(SourceTree.moduleFiles.count > 20)
        #expect(SourceTree.moduleFiles.flatMap { Rules.imports($0) }.map(\.description) == [])
    }

    @Test(
        "an import outside the row is found, whatever it is dressed in",
        arguments: [
            "import GRDB", "@preconcurrency import GRDB", "public import GRDB", "import struct GRDB.Row",
            "@_exported import GRDB", "    import GRDB",
        ])
    func forbidden(statement: String) {
        let file = SourceFile(path: "Shared/Sync/Session.swift", text: "// a session\n\(statement)\n")
        #expect(Rules.imports(file).map(\.line) == [2])
    }

    @Test(
        "CRDT, DQL and Sync may import neither Foundation nor swift-log", arguments: ["CRDT", "DQL", "Sync"])
    func pureModules(name: String) {
        let file = SourceFile(path: "Shared/\(name)/A.swift", text: "import Foundation\nimport Logging\n")
        #expect(Rules.imports(file).map(\.line) == [1, 2])
    }

    @Test("every other module may import swift-log")
    func loggingElsewhere() {
        let others = ImportTable.mimeo.rows.keys.filter { !ImportTable.withoutLogging.contains($0) }
        let files = others.map { SourceFile(path: "\($0)/A.swift", text: "import Logging\n") }
        #expect(files.flatMap { Rules.imports($0) }.map(\.description) == [])
    }

    @Test("a service may not import another service, except Mimeo")
    func services() {
        let text = "import AuthGateway\nimport ServiceKit\n"
        #expect(Rules.imports(SourceFile(path: "Services/Replicator/A.swift", text: text)).map(\.line) == [1])
        #expect(Rules.imports(SourceFile(path: "Services/Mimeo/A.swift", text: text)).map(\.line) == [])
    }

    @Test("a module without a row in the table is found")
    func unknownModule() {
        #expect(Rules.imports(SourceFile(path: "Shared/Utils/A.swift", text: "")).count == 1)
    }

    @Test("a row names nothing that its folder does not import")
    func nothingUnused() {
        #expect(Rules.unusedImports(SourceTree.moduleFiles).map(\.description) == [])
    }

    @Test("a module that only a row names is found, and one that only the executable imports")
    func unusedFound() {
        let table = ImportTable(rows: [
            "Services/A": ImportTable.Row(ours: ["B", "C"], packages: ["D"], platform: ["Foundation"])
        ])
        let files = [
            SourceFile(path: "Services/A/A.swift", text: "import B\n// import D\n"),
            SourceFile(path: "Services/A/Executable/main.swift", text: "import C\n"),
        ]
        #expect(
            Rules.unusedImports(files, table: table).map(\.message) == [
                "no file imports C, which its row allows", "no file imports D, which its row allows",
                "no file imports Foundation, which its row allows",
            ])
    }

    @Test(
        "the README of each module and service says which modules of ours it may know",
        arguments: ImportTable.mimeo.rows.keys.filter { !$0.hasSuffix("/Executable") }.sorted())
    func readme(folder: String) throws {
        let page = try #require(SourceTree.files.first { $0.path == "\(folder)/README.md" })
        #expect(Rules.readmeImports(page).map(\.description) == [])
    }

    @Test(
        "a README that names other modules than the row is found",
        arguments: [
            ("CRDT and `DQL`. Not Transport.", []),
            ("CRDT,\nDQL (queries), swift-log.", []),
            ("CRDT.\nDQL.", ["does not name DQL"]),
            ("CRDT, DQL, Replica.", ["names Replica, which its row does not have"]),
        ] as [(String, [String])])
    func readmeRule(text: String, expected: [String]) {
        let page = SourceFile(
            path: "Shared/Identity/README.md",
            text: "# Identity\nTransport\n## What it may know\n\(text)\n## Tests\n")
        #expect(Rules.readmeImports(page).map(\.message) == expected)
    }

    @Test("a README without the section is found, and one that does not say that it knows nothing")
    func readmeSilent() {
        let none = SourceFile(path: "Shared/Sync/README.md", text: "# Sync\nCRDT, DQL, Identity.\n")
        #expect(Rules.readmeImports(none).count == 1)
        let pages = ["The standard library. Nothing of ours.", "The standard library."].map {
            SourceFile(path: "Shared/CRDT/README.md", text: "## What it may know\n\($0)\n")
        }
        #expect(pages.map { Rules.readmeImports($0).count } == [0, 1])
    }

    @Test("the word import in a comment, a string or an expression is no import")
    func lookalikes() {
        let text = """
            // import GRDB
            let a = "import GRDB"
            let b = run(import: GRDB)
            /* import GRDB
            import GRDB */
            """
        #expect(Rules.imports(SourceFile(path: "Shared/Sync/A.swift", text: text)).map(\.line) == [])
    }
}
