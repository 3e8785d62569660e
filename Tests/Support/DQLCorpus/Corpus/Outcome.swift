import CRDT
import DQL

/// The result of a step, for comparison with its expectation or with another engine's result.
public struct Outcome {
    private let result: Result<StatementResult, DQLError>

    /// Executes a step.
    public init(of step: CorpusCase.Step, on engine: any StatementEngine, strict: Bool) {
        do {
            result = .success(try engine.execute(step.statement, step.arguments, strict: strict))
        } catch {
            result = .failure(error as? DQLError ?? DQLError(.unreadableDocument, "not a DQLError: \(error)"))
        }
    }

    /// Everything that a caller can see, as text: rows and ids sorted, since no order is promised here.
    public var summary: [String] {
        switch result {
        case .failure(let error): ["\(error)"]
        case .success(let result):
            Self.printed(result.rows).sorted() + ["ids"]
                + Self.printed(result.mutatedDocumentIDs.map(\.value)).sorted()
                + result.warnings.map { "\($0.code.rawValue) \($0.message) \(Self.place($0.position))" }
        }
    }

    /// The differences from the step's expectation; empty if there are none.
    public func differences(from step: CorpusCase.Step) -> [String] {
        switch (result, step.expectation) {
        case (.failure(let error), .error(let code, let position, let text)):
            let place = Self.place(error.position)
            var differences: [String] = []
            if error.code.rawValue != code { differences.append("\(error), not \(code)") }
            if !position.isEmpty, place != position {
                differences.append("\(error) at \(place), not \(position)")
            }
            if !text.isEmpty, !error.message.contains(text) {
                differences.append("\(error) does not say: \(text)")
            }
            return differences
        case (.failure(let error), _): return ["\(error)"]
        case (.success, .error(let code, _, _)): return ["succeeded, should be \(code)"]
        case (.success(let result), .success): return warnings(result, step)
        case (.success(let result), .ids(let expected)):
            let ids = JSONText.print(.array(result.mutatedDocumentIDs.map(\.value)))
            return (ids == expected ? [] : ["ids \(ids), not \(expected)"]) + warnings(result, step)
        case (.success(let result), .rows(let expected, let inOrder)):
            return rows(result.rows, expected, inOrder) + warnings(result, step)
        }
    }

    private func warnings(_ result: StatementResult, _ step: CorpusCase.Step) -> [String] {
        let given = result.warnings.map(\.code.rawValue)
        return given == step.warnings ?? [] ? [] : ["warnings \(given), not \(step.warnings ?? [])"]
    }

    private func rows(_ given: [Value], _ expected: [String], _ inOrder: Bool) -> [String] {
        let printed = Self.printed(given)
        let wanted = expected.map { text in
            (try? JSONText.parse(text)).map { JSONText.print($0, sortedKeys: true) } ?? "not JSON: \(text)"
        }
        let isEqual = inOrder ? printed == wanted : printed.sorted() == wanted.sorted()
        return isEqual ? [] : ["rows \(printed), not \(wanted)"]
    }

    private static func printed(_ values: [Value]) -> [String] {
        values.map { JSONText.print($0, sortedKeys: true) }
    }

    private static func place(_ position: SourcePosition?) -> String {
        position.map { "\($0.line):\($0.column)" } ?? ""
    }
}
