import DQL
import DQLCorpus
import Testing

/// Damaged texts. Parsing them may throw with a position inside the text, or succeed.
enum Damage {
    struct Outcome<Result> {
        let result: Result?
        /// True also when there is no error.
        let isPositionInside: Bool
    }

    static func outcome<Result>(
        of text: String, _ parse: (String) throws(DQLError) -> Result
    ) -> Outcome<Result> {
        do {
            return Outcome(result: try parse(text), isPositionInside: true)
        } catch {
            return Outcome(result: nil, isPositionInside: isInside(error.position, text))
        }
    }

    private static func isInside(_ position: SourcePosition?, _ text: String) -> Bool {
        guard let position else { return false }
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard position.line >= 1, position.line <= lines.count, position.column >= 1 else { return false }
        return position.column <= String(decoding: Array(lines[position.line - 1]), as: UTF8.self).count + 1
    }

    /// Removes, doubles, swaps or inserts tokens, or cuts the text off.
    static func damage(_ text: String, with other: String, _ choices: inout Choices) -> String {
        var tokens = tokens(text)
        let foreign = self.tokens(other)
        for _ in 0...choices.below(3) where !tokens.isEmpty {
            let place = choices.below(tokens.count)
            switch choices.below(5) {
            case 0: tokens.remove(at: place)
            case 1: tokens.insert(tokens[place], at: place)
            case 2: tokens.swapAt(place, choices.below(tokens.count))
            case 3: tokens.removeSubrange(place...)
            default: tokens.insert(choices.pick(foreign), at: place)
            }
        }
        return tokens.joined(separator: choices.pick([" ", "", "\n"]))
    }

    /// Runs of letters and digits, and every other character alone.
    private static func tokens(_ text: String) -> [String] {
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
}
