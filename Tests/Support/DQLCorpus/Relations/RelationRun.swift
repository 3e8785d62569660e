import CRDT
import DQL

/// Runs relations on numbered cases. A case's number alone gives its documents (which it shares with its
/// neighbours), its relation and its statement, so a rerun needs only the number.
public struct RelationRun: Sendable {
    /// How many cases share their documents: writing them costs more than reading.
    private static let casesPerStore = 20

    /// The most documents of a store.
    public let documents: Int

    /// A run on stores of this many documents.
    public init(documents: Int) { self.documents = documents }

    /// Checks the cases of a range on fresh engines; returns a report for each of the first few violations,
    /// shrunk. `makeEngine` gets the number of the case's store, which is the same in every run.
    public func violations(
        of cases: Range<Int>, atMost: Int = 3,
        on makeEngine: @escaping (_ store: Int) throws -> any StatementEngine
    ) throws -> [String] {
        var reports: [String] = []
        var engine: (any StatementEngine)?
        for number in cases where reports.count < atMost {
            let fresh = { try makeEngine(number / Self.casesPerStore) }
            if engine == nil || number % Self.casesPerStore == 0 {
                var choices = documentChoices(number)
                engine = try filled(with: GeneratedDocuments(&choices, most: documents), fresh).engine
            }
            let choices = Choices(seed: Self.seed(number, salt: 1))
            guard let engine, let seen = failure(Self.relation(number), on: engine, choices).message else {
                continue
            }
            reports.append(try report(number, seen: seen, fresh))
        }
        return reports
    }

    private static func relation(_ number: Int) -> Relation { Relation.all[number % Relation.all.count] }

    private static func seed(_ number: Int, salt: UInt64) -> UInt64 { UInt64(number) &* 4 &+ salt }

    private func documentChoices(_ number: Int) -> Choices {
        Choices(seed: Self.seed(number / Self.casesPerStore, salt: 2))
    }

    private func filled(
        with documents: GeneratedDocuments, _ makeEngine: () throws -> any StatementEngine
    ) throws -> (engine: any StatementEngine, documents: GeneratedDocuments) {
        let engine = try makeEngine()
        try documents.insert(into: engine)
        return (engine, documents)
    }

    /// The verdict of a relation on a store; no message if it holds.
    private func failure(
        _ relation: Relation, on engine: any StatementEngine, _ choices: Choices
    ) -> (message: String?, tape: [Int]) {
        var trial = Trial(engine: engine, choices: choices)
        do {
            try relation.check(&trial)
            return (nil, [])
        } catch {
            let message = (error as? Trial.Violation)?.message ?? "\(error)"
            let statements = trial.asked.map { "  \($0)" }.joined(separator: "\n")
            return (
                "\(message)\n\(statements)\n  arguments \(trial.grammar.arguments.words)",
                trial.grammar.choices.tape
            )
        }
    }

    /// The case made as simple as possible: first its statement, then its documents, then its statement
    /// again.
    private func report(
        _ number: Int, seen: String, _ makeEngine: @escaping () throws -> any StatementEngine
    ) throws -> String {
        let relation = Self.relation(number)
        func result(_ documentTape: [Int], _ tape: [Int]) -> (message: String, documents: GeneratedDocuments)?
        {
            var choices = Choices(replaying: documentTape)
            let drawn = GeneratedDocuments(&choices, most: documents)
            guard let store = try? filled(with: drawn, makeEngine),
                let message = failure(relation, on: store.engine, Choices(replaying: tape)).message
            else { return nil }
            return (message, store.documents)
        }
        var choices = documentChoices(number)
        let engine = try filled(with: GeneratedDocuments(&choices, most: documents), makeEngine).engine
        let first = failure(relation, on: engine, Choices(seed: Self.seed(number, salt: 1)))
        var documentTape = choices.tape
        var tape = first.tape
        for _ in 0..<2 {
            tape = Shrinker.shrink(tape) { result(documentTape, $0) != nil }
            documentTape = Shrinker.shrink(documentTape) { result($0, tape) != nil }
        }
        let simplest = result(documentTape, tape)
        return """
            \(relation.name) does not hold in case \(number) (MIMEO_SEED=\(number)): \
            \(simplest?.message ?? first.message ?? "\(seen)\n(not on a store of its own)")
            documents:
            \(simplest.map { "\($0.documents)" } ?? "")
            """
    }
}
