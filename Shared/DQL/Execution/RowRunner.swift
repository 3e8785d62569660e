import CRDT

/// Runs the row part of a plan: pushes each row through `visit` while its documents are in place.
struct RowRunner {
    let source: any DocumentSource
    let evaluator: Evaluator

    /// Visits the plan's rows; a visit that returns false ends the run. Returns false when it was ended.
    @discardableResult
    func run(_ plan: RowPlan, _ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        switch plan {
        case .single: return try visit(Row(documents: [nil]))
        case .scan(let collection, let place):
            var row = Row(documents: Array(repeating: nil, count: place + 1))
            var goesOn = true
            try source.scan(collection) { record in
                row.documents[place] = record
                goesOn = try visit(row)
                return goesOn
            }
            return goesOn
        case .idScan(let collection, let place, let ids):
            var row = Row(documents: Array(repeating: nil, count: place + 1))
            for id in try documentIDs(ids) {
                var goesOn = true
                try source.lookup(collection, id) { record in
                    row.documents[place] = record
                    goesOn = try visit(row)
                }
                if !goesOn { return false }
            }
            return true
        case .filter(let input, let condition):
            return try run(input) { row in try evaluator.isTrue(condition, row) ? try visit(row) : true }
        case .group(let input, let grouping):
            var table = GroupTable(grouping)
            try run(input) { row in
                try table.add(row, evaluator)
                return true
            }
            for slots in table.slots where try !visit(Row(documents: [nil], slots: slots)) { return false }
            return true
        }
    }

    /// The ids of an id scan, each once, in the order they were given.
    private func documentIDs(_ list: IDList) throws -> [DocumentID] {
        let row = Row(documents: [])
        var values: [Value] = []
        switch list {
        case .list(let expressions): values = try expressions.compactMap { try evaluator.evaluate($0, row) }
        case .array(let expression): values = try evaluator.evaluate(expression, row)?.arrayValue ?? []
        }
        var seen: Set<DocumentID> = []
        return values.compactMap(AccessPath.id(equalTo:)).filter { seen.insert($0).inserted }
    }
}
