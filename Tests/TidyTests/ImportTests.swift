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
