import CRDT
import Foundation

/// Reads one corpus file, line by line.
struct CorpusReader {
    let file: String
    private var setup: [CorpusCase.Step] = []
    private var cases: [CorpusCase] = []
    private var current: CorpusCase?
    private var takesRows = false

    init(file: String) { self.file = file }

    mutating func read(_ line: String) {
        let line = line.hasSuffix("\r") ? String(line.dropLast()) : line
        let (word, rest) = Self.split(line)
        switch word {
        case "", "#": takesRows = false
        case "==":
            close()
            current = CorpusCase(file: file, name: rest, steps: setup)
        case "@strict": current?.isStrict = true
        case "=": readExpression(rest)
        case "setup": setup.append(CorpusCase.Step(statement: rest))
        case ">": current?.steps.append(CorpusCase.Step(statement: rest))
        case ".": edit { $0.statement += "\n" + rest }
        case "args": edit { $0.arguments = (try? JSONText.parse(rest))?.objectValue ?? $0.arguments }
        case "rows", "set":
            takesRows = true
            edit { $0.expectation = .rows([], inOrder: word == "rows") }
        case "ids": edit { $0.expectation = .ids(rest) }
        case "warn": edit { $0.warnings = ($0.warnings ?? []) + [rest] }
        case "error":
            let parts = rest.split(separator: " ", maxSplits: 2).map(String.init)
            edit {
                $0.expectation = .error(
                    code: parts[0], position: parts.count > 1 ? parts[1] : "",
                    text: parts.count > 2 ? parts[2] : "")
            }
        default:
            precondition(takesRows, "\(file): a line that is none: \(line)")
            edit { step in
                if case .rows(let rows, let inOrder) = step.expectation {
                    step.expectation = .rows(rows + [line], inOrder: inOrder)
                }
            }
        }
    }

    /// `= expression => value [warn CODE]`: a case of its own.
    private mutating func readExpression(_ line: String) {
        close()
        let parts = line.components(separatedBy: " => ")
        precondition(parts.count == 2, "\(file): an expression without a value: \(line)")
        let results = parts[1].components(separatedBy: " warn ")
        let rows = results[0] == "MISSING" ? [] : [results[0]]
        cases.append(
            CorpusCase(
                file: file, name: line,
                steps: [
                    CorpusCase.Step(
                        statement: "SELECT RAW \(parts[0]) FROM system:dual",
                        expectation: .rows(rows, inOrder: true),
                        warnings: results.count > 1 ? Array(results[1...]) : nil)
                ]))
    }

    private mutating func edit(_ change: (inout CorpusCase.Step) -> Void) {
        guard var steps = current?.steps, var last = steps.popLast() else { return }
        change(&last)
        current?.steps = steps + [last]
    }

    private mutating func close() {
        if let current { cases.append(current) }
        current = nil
        takesRows = false
    }

    mutating func finish() -> [CorpusCase] {
        close()
        return cases
    }

    private static func split(_ line: String) -> (String, String) {
        guard let blank = line.firstIndex(of: " ") else { return (line, "") }
        return (String(line[..<blank]), String(line[line.index(after: blank)...]))
    }
}
