import Foundation
import Testing

@Suite("Sizes")
struct SizeTests {
    // MARK: the sources

    @Test("no line of Swift is longer than the limit")
    func lines() {
        #expect(SourceTree.swiftFiles.flatMap(SizeRules.longLines).map(\.description) == [])
    }

    @Test("no Swift file is longer than the limit")
    func files() {
        #expect(SourceTree.swiftFiles.flatMap { SizeRules.longFile($0) }.map(\.description) == [])
    }

    @Test("functions of the modules and services fit on a screen")
    func functions() {
        #expect(SourceTree.moduleFiles.flatMap(SizeRules.longFunctions).map(\.description) == [])
    }

    @Test(
        "every module and service has a README that can be read in one go",
        arguments: SourceTree.moduleFolders)
    func readmes(folder: String) throws {
        let url = SourceTree.root.appendingPathComponent(folder).appendingPathComponent("README.md")
        let readme = SourceFile(
            path: "\(folder)/README.md", text: try String(contentsOf: url, encoding: .utf8))
        #expect(SizeRules.longFile(readme, limit: SizeRules.readmeLines).map(\.description) == [])
        #expect(readme.text.count { $0 == "\n" } > 5)
    }

    // MARK: the rules can fail

    @Test("a line one column too long is found; columns are characters, not bytes")
    func findsLongLine() {
        let text = String(repeating: "é", count: 110) + "\n" + String(repeating: "a", count: 111)
        #expect(SizeRules.longLines(SourceFile(path: "A.swift", text: text)).map(\.line) == [2])
    }

    @Test("a file one line too long is found")
    func findsLongFile() {
        let line = "let a = 1\n"
        #expect(
            SizeRules.longFile(SourceFile(path: "A.swift", text: String(repeating: line, count: 800))).isEmpty
        )
        #expect(
            SizeRules.longFile(SourceFile(path: "A.swift", text: String(repeating: line, count: 801))).count
                == 1)
    }

    @Test("a function of 70 lines is found, one of 69 is not")
    func findsLongFunction() {
        #expect(SizeRules.longFunctions(function(lines: 70)).map(\.line) == [2])
        #expect(SizeRules.longFunctions(function(lines: 69)).map(\.line) == [])
    }

    @Test("the finder sees bodies behind default arguments, broken signatures and strings with braces")
    func findsBodies() {
        let text = """
            protocol P {
                func required() -> Int
                func other(
                    a: Int
                )
            }
            func first(_ body: () -> Void = { }) {
                let text = "}"
            }
            init(
                a: Int
            )
                async throws
            {
                self.init(b: "{")
            }
            """
        let found = FunctionFinder(SwiftText(text).code).functions()
        #expect(found.map(\.firstLine) == [7, 10])
        #expect(found.map(\.lastLine) == [9, 16])
    }

    private func function(lines: Int) -> SourceFile {
        let body = String(repeating: "    work()\n", count: lines - 2)
        return SourceFile(path: "Shared/CRDT/A.swift", text: "// before\nfunc long() {\n\(body)}\n")
    }
}
