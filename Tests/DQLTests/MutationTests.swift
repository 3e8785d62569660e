import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Damaged statements")
struct MutationTests {
    @Test("a damaged statement is refused or prints to its own tree, and never traps", arguments: 0..<100)
    func damaged(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 30_000)
        let statements = Corpus.cases.flatMap(\.steps).map(\.statement).filter { $0.utf8.count < 400 }
        for _ in 0..<40 {
            let text = damage(choices.pick(statements), with: choices.pick(statements), &choices)
            guard let statement = try? StatementCompiler.parse(text) else { continue }
            let printed = StatementPrinter.print(statement)
            let again = try? StatementCompiler.parse(printed)
            #expect(again == statement, "\(text)\n\(printed)")
            _ = failure(of: text)
        }
    }

    /// Takes out, doubles, exchanges or brings in words of a statement.
    private func damage(_ text: String, with other: String, _ choices: inout Choices) -> String {
        var words = tokens(text)
        let foreign = tokens(other)
        for _ in 0...choices.below(3) where !words.isEmpty {
            let place = choices.below(words.count)
            switch choices.below(4) {
            case 0: words.remove(at: place)
            case 1: words.insert(words[place], at: place)
            case 2: words.swapAt(place, choices.below(words.count))
            default: words.insert(choices.pick(foreign), at: place)
            }
        }
        return words.joined(separator: choices.pick([" ", "", "\n"]))
    }

    /// Runs of letters and digits, and every other character by itself.
    private func tokens(_ text: String) -> [String] {
        var tokens: [String] = []
        var isWord = false
        for character in text {
            let continues = character.isLetter || character.isNumber || character == "_"
            if continues, isWord {
                tokens[tokens.count - 1].append(character)
            } else {
                tokens.append(String(character))
            }
            isWord = continues
        }
        return tokens
    }

    @Test(
        "a statement as long as allowed ends quickly",
        arguments: [
            "SELECT RAW [" + Array(repeating: "1", count: 500_000).joined(separator: ",")
                + "][0] FROM system:dual",
            "SELECT * FROM c WHERE " + Array(repeating: "a=1", count: 130_000).joined(separator: " OR "),
            "SELECT * FROM c WHERE a IN (" + (0..<65_536).map { ":p\($0)" }.joined(separator: ",") + ")",
            "SELECT '" + String(repeating: "x", count: 1_048_000) + "' FROM system:dual",
            String(repeating: ";", count: 1_048_576), String(repeating: "a ", count: 524_288),
        ])
    func long(_ statement: String) {
        let elapsed = ContinuousClock().measure { _ = failure(of: statement) }
        #expect(elapsed < .seconds(60))
    }
}
