import CRDT
import DQL
import TestSupport
import Testing

@Suite("Generated trees")
struct SyntaxTestsRoundTrip {
    @Test(
        "any tree prints to a text that reads as the same tree",
        arguments: Depth.cases(fast: 100, deep: 1_000))
    func statements(seed: Int) throws {
        var trees = TreeGenerator(seed: seed)
        for _ in 0..<40 {
            let tree = trees.statement(trees.choices.below(4))
            let text = StatementPrinter.print(tree)
            let outcome = Damage.outcome(of: text, StatementCompiler.parse)
            #expect(outcome.result == tree, "\(text)")
            #expect(outcome.result.map(StatementPrinter.print) == text, "\(text)")
            #expect(tree.jsonValue["node"]?.stringValue != nil)
        }
    }

    @Test("the generated trees have every kind of node")
    func kinds() {
        var kinds: Set<String> = []
        for seed in 0..<100 {
            var trees = TreeGenerator(seed: seed)
            for _ in 0..<10 { collect(trees.statement(3).jsonValue, into: &kinds) }
        }
        #expect(
            kinds.sorted() == [
                "advise", "all", "allFields", "alterSystem", "and", "array", "arrayFor", "between", "binary",
                "call", "case", "chain", "collection", "createIndex", "default", "delete", "dropIndex",
                "element", "evict", "exists", "explain", "field", "ilike", "in", "indexKey", "insert", "is",
                "join", "like", "literal", "member", "missing", "name", "negate", "not", "object",
                "objectFor", "or", "order", "parameter", "profile", "projection", "quantified", "raw",
                "select",
                "show", "similar", "source", "subquery", "update",
            ])
    }

    private func collect(_ value: Value, into kinds: inout Set<String>) {
        switch value {
        case .array(let elements): for element in elements { collect(element, into: &kinds) }
        case .object(let object):
            if let kind = object["node"]?.stringValue { kinds.insert(kind) }
            for entry in object.entries { collect(entry.value, into: &kinds) }
        default: break
        }
    }
}
