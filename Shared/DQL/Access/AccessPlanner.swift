import CRDT

/// Chooses how to reach the documents of one source: deterministically, by simple costs, for the arguments
/// of one execution. Scanning one document of the collection costs 1.
struct AccessPlanner {
    /// The request for a source's documents.
    struct Request {
        let collection: CollectionName
        let source: Int
        let confinement: Confinement
        /// ORDER BY, if an index may deliver it.
        var order: [SortTerm] = []
        /// True if only the first rows are needed.
        var isLimited = false
        /// True if `confinement` covers the whole condition, so that few rows are dropped after it.
        var isConfinedWholly = false
        /// True if the result depends on the order of the documents: in the order of rows or groups, in the
        /// value that represents equal ones in its group, or in the rounding of a sum of floats.
        var readsOrder = true
        /// The number of first rows that are wanted in the order of the ids, if there is no condition.
        var firstIDs: Int?
        /// The fields of GROUP BY, if it has nothing else: an index of exactly these has the documents of a
        /// group together, in their order.
        var groups: [[String]]?
        /// The fields that the statement reads of the source; nil when it needs the document.
        var fields: [[String]]?
    }

    /// The chosen path.
    struct Choice: Equatable {
        var path: AccessPath
        /// True if the path delivers rows in the order of ORDER BY.
        var isOrdered = false
        /// True if the index alone has everything that the statement reads.
        var isCovered = false
        var cost: Double
    }

    let catalog: IndexCatalog
    let directives: Directives
    let hint: IndexHint

    private enum Cost {
        static let document = 1.0
        /// The cost of a document reached from an entry.
        static let fetch = 2.0
        static let entry = 0.3
        static let sort = 0.5
        /// The share of the work left under a LIMIT when rows come in order, if few of them are dropped, or
        /// many.
        static let limited = 0.05
        static let limitedFiltered = 0.3
        static let ids = 0.001
    }

    func choose(_ request: Request) -> Choice {
        let scan = Choice(
            path: .collection, cost: Cost.document + (request.order.isEmpty ? 0 : Cost.sort))
        if request.confinement == .never { return Choice(path: .nothing, isOrdered: true, cost: 0) }
        let base = idChoice(request.confinement) ?? scan
        // Ids are not an index.
        guard !directives.disablesIndexes, !hint.asksForScan else { return base }
        let constraints = Self.constraints(request.confinement)
        let candidates = usableIndexes.compactMap { choice($0, constraints, request) }
        if hint.names != nil, let forced = Self.cheapest(candidates) { return forced }
        var all = [base] + candidates
        if let ranges = idRanges(constraints, request) { all.append(ranges) }
        if let found = intersection(constraints, request) { all.append(found) }
        if let found = union(request) { all.append(found) }
        if directives.prefersOrder, !request.order.isEmpty, all.contains(where: \.isOrdered) {
            all.removeAll { !$0.isOrdered }
        }
        return Self.cheapest(all) ?? base
    }

    /// The first among the cheapest.
    private static func cheapest(_ choices: [Choice]) -> Choice? {
        choices.reduce(nil) { best, next in best.map { $0.cost <= next.cost } ?? false ? best : next }
    }

    private var usableIndexes: [IndexDescription] {
        catalog.indexes.filter { index in
            index.isReady && (hint.names?.contains { utf8Equal($0, index.name) } ?? true)
        }
    }

    private func idChoice(_ confinement: Confinement) -> Choice? {
        switch confinement {
        case .ids(let ids): return Choice(path: .ids(ids), cost: Cost.ids)
        case .all(let parts):
            for case .ids(let ids) in parts { return Choice(path: .ids(ids), cost: Cost.ids) }
            return nil
        default: return nil
        }
    }

    /// Runs of ids, for a range of them, or for the first ones.
    private func idRanges(
        _ constraints: [(path: [String], ranges: RangeSet)], _ request: Request
    ) -> Choice? {
        if let first = request.firstIDs, let term = request.order.first {
            let ranges = IDRanges(first: first, isDescending: term.isDescending)
            return Choice(path: .idRanges(ranges), cost: Cost.limited)
        }
        guard let set = constraints.first(where: \.path.isEmpty)?.ranges, let ranges = IDRanges(set) else {
            return nil
        }
        let share = IndexUse.selectivity(set)
        return Choice(
            path: .idRanges(ranges),
            cost: share * (Cost.fetch + (request.order.isEmpty ? 0 : Cost.sort)))
    }

    private static func constraints(_ confinement: Confinement) -> [(path: [String], ranges: RangeSet)] {
        let parts =
            switch confinement {
            case .all(let parts): parts
            default: [confinement]
            }
        return parts.compactMap { if case .field(let path, let ranges) = $0 { (path, ranges) } else { nil } }
    }

    // MARK: One index

    private func choice(
        _ index: IndexDescription, _ constraints: [(path: [String], ranges: RangeSet)], _ request: Request
    ) -> Choice? {
        guard let use = IndexUse(index, constraints, directives) else { return nil }
        let order =
            index.isExact && !request.order.isEmpty ? use.direction(of: request.order, request.source) : nil
        let isCovered =
            index.isExact && index.tellsValues
            && (order != nil || !request.readsOrder || Self.has(request.groups, index))
            && request.fields?.allSatisfy { field in
                index.keys.contains { Confinement.samePath($0.path, field) }
            } ?? false
        // An index that neither finds, orders nor covers is useless.
        guard use.usedKeys > 0 || order != nil || isCovered else { return nil }
        var cost = use.selectivity * (isCovered ? Cost.entry : Cost.fetch)
        if order != nil, request.isLimited || directives.prefersOrder {
            cost *=
                request.isConfinedWholly && use.usedKeys >= constraints.count
                ? Cost.limited : Cost.limitedFiltered
        } else if order == nil, !request.order.isEmpty {
            cost += use.selectivity * Cost.sort
        }
        if directives.prefersOrder, order != nil { cost = min(cost, Cost.ids) }
        return Choice(
            path: .index(
                IndexScan(
                    index: index, ranges: use.ranges, isReversed: order ?? false, isOrdered: order != nil)),
            isOrdered: order != nil, isCovered: isCovered, cost: cost)
    }

    /// Returns whether the keys of an index are these fields, in any order.
    private static func has(_ fields: [[String]]?, _ index: IndexDescription) -> Bool {
        guard let fields, fields.count == index.keys.count else { return false }
        return index.keys.allSatisfy { key in fields.contains { Confinement.samePath($0, key.path) } }
    }

    /// An index of one field alone, from which its least and greatest value can be taken.
    func index(of path: [String]) -> IndexDescription? {
        guard !directives.disablesIndexes, !hint.asksForScan else { return nil }
        return usableIndexes.first {
            $0.isExact && $0.tellsValues && $0.keys.count == 1 && Confinement.samePath($0.keys[0].path, path)
        }
    }

    // MARK: Several

    private func intersection(
        _ constraints: [(path: [String], ranges: RangeSet)], _ request: Request
    ) -> Choice? {
        let most =
            directives.intersections == 0 ? directives.scans : min(directives.intersections, directives.scans)
        guard most > 1, constraints.count > 1, hint.names.map({ $0.count > 1 }) ?? true else { return nil }
        var candidates: [(use: IndexUse, leading: [String])] = []
        for index in usableIndexes {
            guard let use = IndexUse(index, constraints, directives), use.usedKeys > 0 else { continue }
            let leading = index.keys[0].path
            if let known = candidates.firstIndex(where: { Confinement.samePath($0.leading, leading) }) {
                if use.selectivity < candidates[known].use.selectivity { candidates[known].use = use }
            } else {
                candidates.append((use, leading))
            }
        }
        candidates.sort { $0.use.selectivity < $1.use.selectivity }
        var chosen: [IndexUse] = []
        var cost = Double.infinity
        for candidate in candidates.prefix(most) {
            let more = chosen + [candidate.use]
            let kept = more.reduce(1) { $0 * $1.selectivity }
            let total = more.reduce(kept * Cost.fetch) { $0 + $1.selectivity * Cost.entry }
            guard total < cost else { break }
            chosen = more
            cost = total
        }
        guard chosen.count > 1 else { return nil }
        if !request.order.isEmpty { cost += chosen.reduce(Cost.sort) { $0 * $1.selectivity } }
        return Choice(
            path: .intersection(chosen.map { IndexScan(index: $0.index, ranges: $0.ranges) }), cost: cost)
    }

    /// A path for every branch of an OR; if there are several ORs, the cheapest one.
    private func union(_ request: Request) -> Choice? {
        var alternatives: [[Confinement]] = []
        switch request.confinement {
        case .some(let branches): alternatives = [branches]
        case .all(let parts):
            for case .some(let branches) in parts { alternatives.append(branches) }
        default: break
        }
        var best: Choice?
        for branches in alternatives where branches.count <= directives.scans * DQLLimits.indexScans {
            var paths: [AccessPath] = []
            var cost = request.order.isEmpty ? 0 : Cost.sort
            for branch in branches {
                let choice = choose(
                    Request(collection: request.collection, source: request.source, confinement: branch))
                guard choice.path != .collection else { break }
                paths.append(choice.path)
                cost += choice.cost
            }
            guard paths.count == branches.count, cost < best?.cost ?? .infinity else { continue }
            best = Choice(path: .union(paths), cost: cost)
        }
        return best
    }
}

/// The use of an index for some constraints: the parts of it to read.
struct IndexUse {
    let index: IndexDescription
    let ranges: [IndexRange]
    /// How many keys of the index are confined.
    let usedKeys: Int
    /// The estimated share of the documents that it finds.
    let selectivity: Double
    /// How many of the first keys have a single value.
    private let constantKeys: Int

    /// nil if documents that satisfy the constraints may be absent from the index.
    init?(
        _ index: IndexDescription, _ constraints: [(path: [String], ranges: RangeSet)],
        _ directives: Directives
    ) {
        func constraint(_ path: [String]) -> RangeSet? {
            constraints.first { Confinement.samePath($0.path, path) }?.ranges
        }
        for key in index.keys where !key.includesMissing {
            guard let ranges = constraint(key.path), !(ranges.ranges.last?.holdsMissing ?? false) else {
                return nil
            }
        }
        var prefixes: [[Value?]] = [[]]
        var next: [KeyRange] = []
        var used = 0
        var constant = 0
        var share = 1.0
        for key in index.keys {
            guard let set = constraint(key.path) else { break }
            used += 1
            share *= Self.selectivity(set)
            let inOrder = key.isDescending ? set.ranges.reversed() : set.ranges
            let points = inOrder.compactMap(\.point)
            if points.count == inOrder.count, points.count <= directives.inListValues,
                prefixes.count * points.count <= directives.serialRanges
            {
                if points.count == 1, constant == used - 1 { constant = used }
                prefixes = prefixes.flatMap { prefix in points.map { prefix + [$0] } }
                continue
            }
            next = inOrder
            if prefixes.count * next.count > directives.serialRanges, let first = set.ranges.first,
                let last = set.ranges.last
            {
                next = [KeyRange(from: first.lower, to: last.upper)]
            }
            break
        }
        self.index = index
        ranges = prefixes.flatMap { prefix in
            next.isEmpty
                ? [IndexRange(equal: prefix)] : next.map { IndexRange(equal: prefix, next: $0) }
        }
        usedKeys = used
        constantKeys = constant
        selectivity = share
    }

    /// Rough shares, the same on every store: nothing is known about the documents.
    static func selectivity(_ set: RangeSet) -> Double {
        var total = 0.0
        for range in set.ranges {
            if range.point != nil {
                total += 0.01
            } else {
                switch (range.lower, range.upper) {
                case (.beforeClass(let first), .afterClass(let last)): total += first == last ? 0.6 : 0.9
                case (.beforeClass, .beforeClass): total += 0.9
                case (_, .beforeClass): total += 0.45
                case (.beforeClass, _), (_, .afterClass): total += set.ranges.count > 1 ? 0.2 : 0.3
                case (_, .afterPrefix): total += 0.05
                default: total += 0.1
                }
            }
        }
        return min(total, 0.9)
    }

    /// Returns whether the index has to be read in reverse to deliver the order of the terms; nil if it
    /// cannot deliver it at all. All keys have to take part, so that rows that the terms do not tell apart
    /// come as in a scan.
    func direction(of terms: [SortTerm], _ source: Int) -> Bool? {
        var place = 0
        var isReversed: Bool?
        for term in terms {
            guard let path = Confinement.field(term.expression, source) else { return nil }
            if let nullsFirst = term.nullsFirst, nullsFirst != term.isDescending { return nil }
            if index.keys.prefix(constantKeys).contains(where: { Confinement.samePath($0.path, path) }) {
                continue
            }
            place = max(place, constantKeys)
            guard place < index.keys.count, Confinement.samePath(index.keys[place].path, path) else {
                return nil
            }
            let against = term.isDescending != index.keys[place].isDescending
            guard isReversed == nil || isReversed == against else { return nil }
            isReversed = against
            place += 1
        }
        guard max(place, constantKeys) == index.keys.count else { return nil }
        return isReversed ?? false
    }
}
