import CRDT
import DQL
import Testing

@Suite("Corpus")
struct CorpusTests {
    @Test("every case gives what it says", arguments: Corpus.cases)
    func givesWhatItSays(_ test: CorpusCase) throws {
        let store = MemoryStore()
        for step in test.steps {
            let outcome = Outcome(of: step, on: store, strict: test.isStrict)
            #expect(outcome.differences(from: step) == [], "\(step.statement)")
        }
    }

    @Test("there are at least 150 cases")
    func isLarge() {
        #expect(Corpus.cases.count >= 150)
    }

    @Test("printing and parsing again gives the same tree", arguments: Corpus.cases)
    func roundTrip(_ test: CorpusCase) throws {
        for step in test.steps {
            guard let statement = try? StatementCompiler.parse(step.statement) else { continue }
            let printed = StatementPrinter.print(statement)
            let again = try StatementCompiler.parse(printed)
            #expect(again == statement, "\(printed)")
            #expect(StatementPrinter.print(again) == printed)
        }
    }
}

/// What a step gave, compared with what it should have given.
struct Outcome {
    let result: Result<StatementResult, DQLError>

    init(of step: CorpusCase.Step, on store: MemoryStore, strict: Bool) {
        do {
            result = .success(try store.execute(step.statement, step.arguments, strict: strict))
        } catch {
            result = .failure(error as? DQLError ?? DQLError(.unreadableDocument, "not a DQLError: \(error)"))
        }
    }

    func differences(from step: CorpusCase.Step) -> [String] {
        switch (result, step.expectation) {
        case (.failure(let error), .error(let code, let position, let text)):
            let place = error.position.map { "\($0.line):\($0.column)" } ?? ""
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
        let printed = given.map { JSONText.print($0, sortedKeys: true) }
        let wanted = expected.map { text in
            (try? JSONText.parse(text)).map { JSONText.print($0, sortedKeys: true) } ?? "not JSON: \(text)"
        }
        let isEqual = inOrder ? printed == wanted : printed.sorted() == wanted.sorted()
        return isEqual ? [] : ["rows \(printed), not \(wanted)"]
    }
}
