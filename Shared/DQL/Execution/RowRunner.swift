import CRDT

/// Runs the row part of a plan: pushes each row through `visit` while its documents are in place.
struct RowRunner {
    let source: any DocumentSource
    let evaluator: Evaluator
    let context: ExecutionContext
    /// The indexes of joined collections, looked up once.
    let catalogs = KnownCatalogs()
    let joinPaths = JoinPaths()

    /// Visits the plan's rows on the account of a step, which PROFILE tells apart.
    @discardableResult
    func run(
        _ plan: RowPlan, for step: PlanStep, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        guard let statistics = context.statistics else { return try run(plan, visit) }
        return try run(plan) { row in
            let before = statistics.enter(step)
            defer { statistics.leave(to: before) }
            return try visit(row)
        }
    }

    /// Visits the plan's rows; a visit that returns false ends the run. Returns false when a visit ended it.
    @discardableResult
    func run(_ plan: RowPlan, _ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        switch plan {
        case .single: return try visit(row())
        case .count(let collection, let slots):
            return try run(Array(repeating: .count, count: slots), of: collection, visit)
        case .extremes(let collection, let extremes): return try run(extremes, of: collection, visit)
        case .pushedOrder: preconditionFailure("only a SELECT puts rows in order")
        case .pushedGroups(let pushed): return try run(pushed, visit)
        case .pushedJoin(let pushed): return try run(pushed, visit)
        case .covering(let scan, let needsID): return try run(covering: scan, needsID, visit)
        case .join(let left, let join):
            if let pushing = source.pushing, let lookups = JoinLookups(join) {
                return try run(left, join, lookups, of: pushing, visit)
            }
            return try run(left, for: .join(join.source)) { row in try self.join(row, join, visit) }
        case .scan(_, let place), .idScan(_, let place, _), .access(_, let place, _), .pushed(_, let place):
            var row = row()
            var goesOn = true
            try forEachDocument(of: plan) { record in
                row.documents[place] = record
                goesOn = try visit(row)
                return goesOn
            }
            return goesOn
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
            if let place = input.documentPlace { return try filter(input, place, condition, visit) }
            return try run(input, for: input.isGrouped ? .having : .filter) { row in
                try evaluator.isTrue(condition, row) ? try visit(row) : true
            }
        case .group(let input, let grouping): return try group(input, grouping, visit)
        }
    }

    /// Visits the groups of a plan's rows.
    private func group(
        _ input: RowPlan, _ grouping: Grouping, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var table = GroupTable(
            grouping, context.meter, readsInPlace: input.readsDocuments && !context.options.strictReads)
        if !context.options.strictReads, let (leaf, condition) = input.documentsOfOneSource {
            var row = row()
            let asksForFields = grouping.readsFieldsOnly
            var isFound = false
            defer { context.meter.foundNothing = !isFound }
            try forEachRecord(
                of: leaf, 0, where: condition, asksForFields: asksForFields, for: .group
            ) { record in
                isFound = true
                try table.add(record) { argument in
                    row.documents[0] = record
                    return try evaluator.evaluate(argument, row)
                }
                return true
            }
        } else if !grouping.keys.isEmpty, let covered = input.covered {
            try group(covered, into: &table)
        } else {
            var isFound = false
            defer { context.meter.foundNothing = !isFound }
            try run(input, for: .group) { row in
                isFound = true
                try table.add(row, evaluator)
                return true
            }
        }
        let before = context.statistics?.enter(.group, counts: false)
        defer { context.statistics?.leave(to: before) }
        return try table.forEachRow(visit)
    }

    /// The documents of a leaf for which a condition holds, as rows.
    private func filter(
        _ leaf: RowPlan, _ place: Int, _ condition: BoundExpression, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var row = row()
        return try forEachRecord(of: leaf, place, where: condition) { record in
            row.documents[place] = record
            return try visit(row)
        }
    }

    /// Visits the documents of a leaf for which a condition holds. The part of the condition that can be
    /// tested in place is tested before a row is made. Returns false when a visit ended it.
    @discardableResult
    private func forEachRecord(
        of leaf: RowPlan, _ place: Int, where condition: BoundExpression?, asksForFields: Bool = false,
        for step: PlanStep? = nil, _ visit: (DocumentRecord) throws -> Bool
    ) throws -> Bool {
        if let step, let statistics = context.statistics {
            return try forEachRecord(
                of: leaf, place, where: condition, asksForFields: asksForFields
            ) { record in
                let before = statistics.enter(step)
                defer { statistics.leave(to: before) }
                return try visit(record)
            }
        }
        guard let condition else {
            var goesOn = true
            try forEachDocument(of: leaf, asksForFields: asksForFields) { record in
                goesOn = try visit(record)
                return goesOn
            }
            return goesOn
        }
        let (test, rest) =
            context.options.strictReads ? (nil, condition) : DocumentTest.split(condition, source: place)
        var row = row()
        var goesOn = true
        // No reference count per document; `withExtendedLifetime` keeps the test alive.
        let asking = test.map { Unmanaged.passUnretained($0) }
        defer { withExtendedLifetime(test) {} }
        // A test that covers the whole condition reads fields only, and so does the evaluator in its place.
        let needsNoIDs = asksForFields && test != nil && rest == nil
        try forEachDocument(of: leaf, asksForFields: needsNoIDs, for: .filter) { record in
            let holds = asking.flatMap { $0._withUnsafeGuaranteedRef { $0.holds(record.document) } }
            if holds == false { return true }
            if let left = holds == nil ? condition : rest {
                row.documents[place] = record
                if try !evaluator.isTrue(left, row) { return true }
            }
            goesOn = try visit(record)
            return goesOn
        }
        return goesOn
    }

    /// Visits the documents of a leaf until a visit returns false; their ids may be left out where the visit
    /// asks for fields only.
    private func forEachDocument(
        of leaf: RowPlan, asksForFields: Bool = false, for step: PlanStep? = nil,
        _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        let meter = context.meter
        let statistics = context.statistics
        if let step, let statistics {
            return try forEachDocument(of: leaf, asksForFields: asksForFields) { record in
                let before = statistics.enter(step)
                defer { statistics.leave(to: before) }
                return try visit(record)
            }
        }
        switch leaf {
        case .scan(let collection, _) where asksForFields:
            try source.scanFields(collection) { record in
                try meter.visit()
                statistics?.documents += 1
                return try visit(record)
            }
        case .scan(let collection, _):
            try source.scan(collection) { record in
                try meter.visit()
                statistics?.documents += 1
                return try visit(record)
            }
        case .pushed(let statement, _):
            guard let pushing = source.pushing else {
                preconditionFailure("planned on a source with SQL")
            }
            try pushing.documents(of: statement) { record in
                try meter.visit()
                statistics?.documents += 1
                return try visit(record)
            }
        case .idScan(let collection, _, let ids):
            let ids = try documentIDs(ids)
            if let pushing = source.pushing, ids.count > 1 {
                return try forEachDocument(of: ids, in: collection, pushing, visit)
            }
            for id in ids {
                var goesOn = true
                try meter.visit()
                try source.lookup(collection, id) { record in
                    try meter.pass(record)
                    statistics?.documents += 1
                    goesOn = try visit(record)
                }
                if !goesOn { return }
            }
        case .access(let collection, _, let path):
            guard let indexed = source.indexed else {
                preconditionFailure("planned on indexes")
            }
            let access = AccessRunner(
                source: indexed, collection: collection, meter: meter, statistics: statistics)
            try access.run(path) { record in
                try meter.visit()
                statistics?.documents += 1
                return try visit(record)
            }
        default: preconditionFailure("not a leaf of documents")
        }
    }

    /// A row without documents, with a place for each source.
    func row() -> Row {
        Row(documents: Array(repeating: nil, count: max(1, evaluator.sources)), meter: context.meter)
    }

    /// The documents of many ids, some at a time.
    private func forEachDocument(
        of ids: [DocumentID], in collection: CollectionName, _ pushing: any PushingSource,
        _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        var goesOn = true
        for start in stride(from: 0, to: ids.count, by: DQLLimits.pushedLookups) where goesOn {
            let some = ids[start..<min(start + DQLLimits.pushedLookups, ids.count)]
            try context.meter.check()
            try pushing.documents(collection, ids: some) { record in
                try context.meter.visit()
                context.statistics?.documents += 1
                goesOn = try visit(record)
                return goesOn
            }
        }
    }

    private func run(
        covering scan: IndexScan, _ needsID: Bool, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        guard let indexed = source.indexed else { preconditionFailure("planned on indexes") }
        var row = row()
        var goesOn = true
        try indexed.entries(of: scan, needsID ? [.id, .values] : .values) { entry in
            try context.meter.visit()
            row.slots = entry.values + [entry.id?.value]
            goesOn = try visit(row)
            return goesOn
        }
        return goesOn
    }

    /// Groups the entries of an index. The groups come in the order of their first documents, as from a scan.
    private func group(_ covered: CoveredRows, into table: inout GroupTable) throws {
        guard let indexed = source.indexed else { preconditionFailure("planned on indexes") }
        if let pushing = source.pushing { return try group(covered, of: pushing, into: &table) }
        var row = row()
        var isFound = false
        let statistics = context.statistics
        defer { context.meter.foundNothing = !isFound }
        try indexed.entries(of: covered.scan, covered.needsID ? [.id, .values] : .values) { entry in
            try context.meter.visit()
            let before = statistics?.enter(.group)
            defer { statistics?.leave(to: before) }
            row.slots = entry.values + [entry.id?.value]
            if let condition = covered.condition, try !evaluator.isTrue(condition, row) { return true }
            isFound = true
            try table.add(row, evaluator, rank: entry.document)
            return true
        }
    }

    /// The same where the store's SQL puts equal keys together.
    private func group(
        _ covered: CoveredRows, of pushing: any PushingSource, into table: inout GroupTable
    ) throws {
        var row = row()
        var groups: [IndexGroup] = []
        try pushing.groups(of: covered.scan, needsFirst: covered.needsID) { group in
            try context.meter.step()
            row.slots = group.values + [nil]
            if let condition = covered.condition, try !evaluator.isTrue(condition, row) { return true }
            groups.append(group)
            try context.meter.hold(groups.count)
            return true
        }
        if covered.needsID { groups.sort { compareBytes($0.first, $1.first) < 0 } }
        for group in groups {
            row.slots = group.values + [nil]
            try table.add(row, evaluator, times: group.count)
        }
        context.meter.foundNothing = groups.isEmpty
    }

    /// One row of aggregates over a whole collection, without its documents.
    private func run(
        _ extremes: [IndexExtreme], of collection: CollectionName, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        guard let indexed = source.indexed else { preconditionFailure("planned on indexes") }
        var values: [Value?] = []
        var count: Int?
        try context.meter.check()
        for extreme in extremes {
            switch extreme {
            case .count:
                let known = try count ?? indexed.count(of: collection)
                count = known
                values.append(.int(Int64(known)))
            case .first(let scan):
                var first: Value?
                try indexed.entries(of: scan, .values) { entry in
                    try context.meter.visit()
                    first = entry.values[0]
                    return false
                }
                values.append(first)
            case .entries(let scan):
                let entries = try indexed.count(of: scan)
                if entries == 0 { context.meter.foundNothing = true }
                values.append(.int(Int64(entries)))
            }
        }
        // A collection without documents has no extremes.
        if values.contains(where: { $0 == nil }) {
            context.meter.foundNothing = try indexed.count(of: collection) == 0
        }
        return try visit(Row(documents: [nil], slots: values, meter: context.meter))
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
            try context.meter.work(value)
            values = elements
        }
        var seen: Set<DocumentID> = []
        return values.compactMap(AccessPath.id(equalTo:)).filter { seen.insert($0).inserted }
    }
}

/// Entries of an index that has everything a statement reads, for which a condition holds.
struct CoveredRows {
    let scan: IndexScan
    let needsID: Bool
    let condition: BoundExpression?
}

extension RowPlan {
    /// The source of a leaf that reads stored documents.
    fileprivate var documentPlace: Int? {
        switch self {
        case .scan(_, let place), .idScan(_, let place, _), .access(_, let place, _), .pushed(_, let place):
            place
        default: nil
        }
    }

    /// The leaf and condition if the rows are the documents of source 0 and hold nothing else.
    fileprivate var documentsOfOneSource: (leaf: RowPlan, condition: BoundExpression?)? {
        switch self {
        case .filter(let input, let condition) where input.documentPlace == 0: (input, condition)
        case _ where documentPlace == 0: (self, nil)
        default: nil
        }
    }

    /// The entries and the condition if the rows are entries of an index.
    var covered: CoveredRows? {
        switch self {
        case .covering(let scan, let needsID):
            CoveredRows(scan: scan, needsID: needsID, condition: nil)
        case .filter(.covering(let scan, let needsID), let condition):
            CoveredRows(scan: scan, needsID: needsID, condition: condition)
        default: nil
        }
    }

    /// True if the rows are groups.
    var isGrouped: Bool {
        switch self {
        case .group, .pushedGroups, .extremes: true
        case .filter(let input, _): input.isGrouped
        default: false
        }
    }

    /// True if the rows are documents of one source.
    fileprivate var readsDocuments: Bool {
        if case .filter(let input, _) = self { return input.readsDocuments }
        return documentPlace != nil
    }
}
