import CRDT
import DQL
import Foundation
import Testing

/// Statements of public sample applications; see Samples/README.md.
@Suite("Samples")
struct SampleStatementTests {
    static let statementLines = Samples.lines("statements.txt")
    static let legacyLines = Samples.lines("legacy.txt")
    static let nonsenseLines = Samples.lines("nonsense.txt")

    @Test(
        "a sample is accepted and reads back from its canonical form, or is refused at its place",
        arguments: statementLines)
    func statement(_ line: String) throws {
        let parts = line.components(separatedBy: " | ")
        try #require(parts.count == 3)
        let text = parts[2].replacingOccurrences(of: "\\n", with: "\n")
        #expect(Samples.outcome { try StatementCompiler.parse(text) } == parts[1])
        let statement = try? StatementCompiler.parse(text)
        let again = statement.flatMap { try? StatementCompiler.parse(StatementPrinter.print($0)) }
        #expect(again == statement)
    }

    @Test("there are enough samples, and none twice")
    func enough() {
        #expect(Self.statementLines.filter { $0.contains("| ok |") }.count >= 100)
        #expect(Self.legacyLines.filter { !$0.contains("==> DQL-") }.count >= 50)
        #expect(Self.nonsenseLines.count >= 60)
        for list in [Self.statementLines, Self.legacyLines, Self.nonsenseLines] {
            #expect(Set(list).count == list.count)
        }
    }

    @Test("a legacy query is the DQL condition it means, or is refused at its place", arguments: legacyLines)
    func legacyQuery(_ line: String) throws {
        let parts = line.components(separatedBy: " ==> ")
        try #require(parts.count == 2)
        let isWrong = parts[1].hasPrefix("DQL-")
        let outcome = Samples.outcome { try LegacyQuery.parse(parts[0]) }
        #expect(outcome == (isWrong ? parts[1] : "ok"))
        let text = try? LegacyQuery.statement(parts[0], from: "c")
        #expect(text == (isWrong ? nil : "SELECT * FROM c WHERE \(parts[1])"))
        let again = try text.map(StatementCompiler.parse)
        #expect(try again == (isWrong ? nil : .select(LegacyQuery.select(parts[0], from: "c"))))
    }

    @Test(
        "nonsense is refused with its code at its place, with the suggestion it should have",
        arguments: nonsenseLines)
    func nonsense(_ line: String) throws {
        let parts = line.components(separatedBy: " | ")
        try #require(parts.count == 2)
        let text = parts[1].replacingOccurrences(of: "\\n", with: "\n")
        let error = #expect(throws: DQLError.self) { try StatementCompiler.parse(text) }
        let place = "\(error?.code.rawValue ?? "") \(error?.line ?? 0):\(error?.column ?? 0)"
        #expect(([place] + (error?.suggestion.map { [$0] } ?? [])).joined(separator: " ") == parts[0])
    }
}

/// Lines of the files in Samples, without comments and empty lines.
enum Samples {
    static func lines(_ file: String) -> [String] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "Samples")
        let text = (try? String(contentsOf: folder.appendingPathComponent(file), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("#") }
    }

    /// `ok`, or the code and position of the error.
    static func outcome(_ body: () throws -> some Any) -> String {
        do {
            _ = try body()
            return "ok"
        } catch let error as DQLError {
            return "\(error.code.rawValue) \(error.line ?? 0):\(error.column ?? 0)"
        } catch {
            return "\(error)"
        }
    }
}
