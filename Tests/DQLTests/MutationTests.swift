import CRDT
import DQL
import DQLCorpus
import Foundation
import TestSupport
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
        arguments: Depth.cases(fast: 100, deep: 1_000))
    func damaged(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 30_000)
        for _ in 0..<40 {
            let text = Damage.damage(
                choices.pick(Self.statements), with: choices.pick(Self.statements), &choices)
            let outcome = Damage.outcome(of: text, StatementCompiler.parse)
            #expect(outcome.isPositionInside, "\(text)")
            let printed = outcome.result.map(StatementPrinter.print) ?? ""
            let again = try? StatementCompiler.parse(printed)
            #expect(again == outcome.result, "\(text)\n\(printed)")
            _ = failure(of: text)
        }
    }

    private static func repeated(_ count: Int, _ item: String, _ separator: String = "") -> String {
        Array(repeating: item, count: count).joined(separator: separator)
    }

    private static let longStatements: [String] = [
        "SELECT RAW [\(repeated(500_000, "1", ","))][0] FROM system:dual",
        "SELECT * FROM c WHERE \(repeated(130_000, "a=1", " OR "))",
        "SELECT * FROM c WHERE a IN (\((0..<65_536).map { ":p\($0)" }.joined(separator: ",")))",
        "SELECT '\(repeated(1_048_000, "x"))' FROM system:dual",
        "SELECT \(repeated(149_000, "/*+{}*/")) * FROM c",
        "SELECT * FROM c\(repeated(69_000, " JOIN d ON true"))",
        "INSERT INTO c DOCUMENTS \(repeated(200_000, "({})", ","))",
        "UPDATE c SET a -> (\(repeated(250_000, "b=1", ",")))",
        "SELECT * FROM c USE IDS \(repeated(500_000, "1", ","))",
        repeated(1_048_576, ";"), repeated(524_288, "a "),
    ]

    @Test("a statement as long as allowed ends", .timeLimit(.minutes(5)), arguments: longStatements.indices)
    func long(_ number: Int) {
        let outcome = Damage.outcome(of: Self.longStatements[number], StatementCompiler.compile)
        #expect(outcome.isPositionInside)
    }
}
