import Foundation
import Testing

/// Checks the manual as `make docs` would, without making it: names that do not exist any more, and types
/// that no page lists.
@Suite("The manual's names")
struct DocumentationTests {
    private static let module = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Shared/DittoSwift")

    private func files(_ ending: String) throws -> [URL] {
        let all = FileManager.default.enumerator(at: Self.module, includingPropertiesForKeys: nil)
        return (all?.allObjects as? [URL] ?? []).filter { $0.pathExtension == ending }
    }

    private func text(_ files: [URL]) throws -> String {
        try files.map { try String(contentsOf: $0, encoding: .utf8) }.joined(separator: "\n")
    }

    private func matches(_ pattern: String, in text: String) throws -> Set<String> {
        let expression = try NSRegularExpression(pattern: pattern, options: [.anchorsMatchLines])
        let whole = NSRange(text.startIndex..., in: text)
        return Set(
            expression.matches(in: text, range: whole).compactMap { match in
                Range(match.range(at: 1), in: text).map { String(text[$0]) }
            })
    }

    @Test("every name in double backticks is declared, every page that is referred to is there")
    func references() throws {
        let pages = try files("md").filter { $0.path.contains(".docc/") }
        let sources = try files("swift")
        #expect(pages.count >= 6 && sources.count > 40)
        let manual = try text(pages)
        let code = try text(sources)
        let declared = try matches(
            #"(?:class|struct|enum|protocol|typealias|func|var|let|case)\s+`?(\w+)"#, in: code)
        for name in try matches("(?<!`)``([A-Za-z][\\w/()]*)``(?!`)", in: manual) where name != "DittoSwift" {
            for part in name.split(separator: "/") {
                #expect(declared.contains(String(part.prefix { $0 != "(" })), "\(name)")
            }
        }
        let names = Set(pages.map { $0.deletingPathExtension().lastPathComponent })
        for page in try matches("<doc:(\\w+)>", in: manual) { #expect(names.contains(page), "\(page)") }
    }

    @Test("every public type is listed on the first page")
    func topics() throws {
        let first = try String(
            contentsOf: Self.module.appendingPathComponent("DittoSwift.docc/DittoSwift.md"), encoding: .utf8)
        let listed = try matches("``(\\w+)``", in: first)
        let types = try matches(
            #"^(?:@preconcurrency )?public (?:final )?(?:class|struct|enum|protocol|typealias) (\w+)"#,
            in: try text(try files("swift").filter { !$0.path.contains("/Legacy/") }))
        #expect(types.count > 40)
        // Second names of what is listed.
        let aliases: Set = ["DittoError", "DittoDiskUsage", "DittoDiskUsageItem"]
        #expect(types.subtracting(listed).subtracting(aliases) == [])
    }
}
