import CRDT

/// Runs the row part of a plan: pushes each row through `visit` while its documents are in place.
struct RowRunner {
    let source: any DocumentSource
    let evaluator: Evaluator
    let context: ExecutionContext

    /// Visits the plan's rows; a visit that returns false ends the run. Returns false when it was ended.
    @discardableResult
    func run(_ plan: RowPlan, _ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        switch plan {
        case .single: return try visit(row())
        case .count(let collection, let slots):
            guard let indexed = source as? any IndexedSource else {
                preconditionFailure("planned on indexes")
            }
            try context.meter.check()
            let number = Value.int(Int64(try indexed.count(of: collection)))
            return try visit(
                Row(documents: [nil], slots: Array(repeating: number, count: slots), meter: context.meter))
        case .covering(let scan, let needsID): return try run(covering: scan, needsID, visit)
        case .access(let collection, let place, let path):
            guard let indexed = source as? any IndexedSource else {
                preconditionFailure("planned on indexes")
            }
            var row = row()
            var goesOn = true
            let access = AccessRunner(source: indexed, collection: collection, meter: context.meter)
            try access.run(path) { record in
                try context.meter.step()
                row.documents[place] = record
                goesOn = try visit(row)
                return goesOn
            }
            return goesOn
        case .join(let left, let join):
            return try run(left) { row in try self.join(row, join, visit) }
        case .scan(let collection, let place):
            var row = row()
            var goesOn = true
            try source.scan(collection) { record in
                try context.meter.step()
                row.documents[place] = record
                goesOn = try visit(row)
                return goesOn
            }
            return goesOn
        case .idScan(let collection, let place, let ids):
            var row = row()
            for id in try documentIDs(ids) {
                var goesOn = true
                try context.meter.step()
                try source.lookup(collection, id) { record in
                    row.documents[place] = record
                    goesOn = try visit(row)
                }
                if !goesOn { return false }
            }
            return true
        case .system(let collection, let place, let ids):
            var row = row()
            var goesOn = true
            let wanted = try ids.map { Set(try documentIDs($0)) }
            let rows = SystemRows(collection: collection, source: context.source, options: context.options)
            try rows.forEach { record in
                try context.meter.step()
                guard wanted?.contains(record.id) ?? true else { return true }
                row.documents[place] = record
                goesOn = try visit(row)
                return goesOn
            }
            return goesOn
        case .filter(let input, let condition):
            return try run(input) { row in try evaluator.isTrue(condition, row) ? try visit(row) : true }
        case .group(let input, let grouping):
            var table = GroupTable(grouping, context.meter)
            try run(input) { row in
                try table.add(row, evaluator)
                return true
            }
            return try table.forEachRow(visit)
        }
    }

    /// A row without documents, with a place for each source.
    private func row() -> Row {
        Row(documents: Array(repeating: nil, count: max(1, evaluator.sources)), meter: context.meter)
    }

    private func run(
        covering scan: IndexScan, _ needsID: Bool, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        guard let indexed = source as? any IndexedSource else { preconditionFailure("planned on indexes") }
        var row = row()
        var goesOn = true
        try indexed.entries(of: scan, needsID ? [.id, .values] : .values) { entry in
            try context.meter.step()
            row.slots = entry.values + [entry.id?.value]
            goesOn = try visit(row)
            return goesOn
        }
        return goesOn
    }

    /// The ids of an id scan, each once, in the order they were given.
    func documentIDs(_ list: IDList) throws -> [DocumentID] {
        let row = Row(documents: [], meter: context.meter)
        var values: [Value] = []
        switch list {
        case .list(let expressions): values = try expressions.compactMap { try evaluator.evaluate($0, row) }
        case .array(let expression, let span):
            let value = try evaluator.evaluate(expression, row)
            guard case .array(let elements)? = value else {
                guard let span else { return [] }
                throw context.source.error(
                    .invalidArgument, "USE IDS LIST takes an array, not \(value?.typeName ?? "missing")",
                    at: span)
            }
            values = elements
        }
        var seen: Set<DocumentID> = []
        return values.compactMap(AccessPath.id(equalTo:)).filter { seen.insert($0).inserted }
    }
}

/// What the parts of one execution share.
struct ExecutionContext {
    let source: SourceText
    let options: ExecutionOptions
    let arguments: [Value]
    let meter: ExecutionMeter

    init(_ source: SourceText, _ options: ExecutionOptions, _ arguments: [Value]) {
        self.source = source
        self.options = options
        self.arguments = arguments
        meter = ExecutionMeter(options)
    }

    func runner(_ documents: any DocumentSource, _ types: [TypeDefinition]) -> RowRunner {
        RowRunner(source: documents, evaluator: Evaluator(options, types: types), context: self)
    }
}
