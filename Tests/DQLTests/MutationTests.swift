import CRDT
import DQL
import Foundation
import Testing

@Suite("Damaged statements")
struct MutationTests {
    private static let statements: [String] = {
        let samples = SampleStatementTests.statementLines.compactMap {
            $0.components(separatedBy: " | ").last?.replacingOccurrences(of: "\\n", with: "\n")
        }
        return Corpus.cases.flatMap(\.steps).map(\.statement).filter { $0.utf8.count < 400 } + samples
            + SyntaxTests.forms.map(\.0)
    }()

    @Test(
        "a damaged statement is refused inside the text or prints to its own tree, and never traps",
        arguments: 0..<100)
    func damaged(seed: Int) throws {
        var generator = Generator(seed: UInt64(seed) + 30_000)
        for _ in 0..<40 {
            let text = Damage.damage(
                generator.pick(Self.statements), with: generator.pick(Self.statements), &generator)
            let outcome = Damage.outcome(of: text, StatementCompiler.parse)
            #expect(outcome.isPositionInside, "\(text)")
            let printed = outcome.result.map(StatementPrinter.print) ?? ""
            let again = try? StatementCompiler.parse(printed)
            #expect(again == outcome.result, "\(text)\n\(printed)")
            _ = failure(of: text)
        }
    }

    @Test(
        "a statement as long as allowed ends quickly",
        arguments: [
            "SELECT RAW [" + Array(repeating: "1", count: 500_000).joined(separator: ",")
                + "][0] FROM system:dual",
            "SELECT * FROM c WHERE " + Array(repeating: "a=1", count: 130_000).joined(separator: " OR "),
            "SELECT * FROM c WHERE a IN (" + (0..<65_536).map { ":p\($0)" }.joined(separator: ",") + ")",
            "SELECT '" + String(repeating: "x", count: 1_048_000) + "' FROM system:dual",
            "SELECT " + String(repeating: "/*+{}*/", count: 149_000) + " * FROM c",
            "SELECT * FROM c" + String(repeating: " JOIN d ON true", count: 69_000),
            "INSERT INTO c DOCUMENTS " + Array(repeating: "({})", count: 200_000).joined(separator: ","),
            "UPDATE c SET a -> (" + Array(repeating: "b=1", count: 250_000).joined(separator: ","),
            "SELECT * FROM c USE IDS " + Array(repeating: "1", count: 500_000).joined(separator: ","),
            String(repeating: ";", count: 1_048_576), String(repeating: "a ", count: 524_288),
        ])
    func long(_ statement: String) {
        let elapsed = ContinuousClock().measure { _ = failure(of: statement) }
        #expect(elapsed < .seconds(60))
    }
}
