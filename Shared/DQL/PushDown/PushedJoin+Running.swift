import CRDT

/// The documents of a join that SQL decides nothing about.
private struct DoubtfulDocuments {
    var sides = DoubtfulSides()
    /// The ones on the right.
    var partners: [KeptDocument] = []
    /// Their places by the value that joins them.
    var places: [ValueKey: [Int]] = [:]
}

/// The first rows on the left of a join, whose partners are looked up: it takes less than reading a large
/// collection on the right, and mostly suffices for a page.
struct FirstRows {
    /// How many there may be.
    let most: Int
    /// How many there were.
    private(set) var count = 0
    /// The id of the last one, encoded.
    private(set) var last: [UInt8] = []

    init(most: Int) { self.most = most }

    /// True once there were as many as there may be. The row behind which SQL goes on is one whose id is the
    /// key of its table.
    var isFull: Bool { count >= most && last.count <= DQLLimits.pushedIDBytes }

    mutating func add(_ id: [UInt8]) {
        count += 1
        last = id
    }
}

extension RowRunner {
    /// Visits the pairs of a join that runs in SQL. Returns false when a visit ended it.
    func run(_ pushed: PushedJoin, _ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        guard let pushing = source.pushing else { preconditionFailure("planned on a source with SQL") }
        var first = FirstRows(most: 0)
        if try beginsWithLookups(pushed, pushing) {
            first = FirstRows(most: most(of: pushed))
            guard try run(first: &first, of: pushed, pushing, visit) else { return false }
            guard first.isFull else { return true }
        } else if pushed.bounds != nil, try !isWorthwhile(pushed, pushing) {
            return try nested(pushed, skipping: 0, pushing, visit)
        }
        let last = first.count > 0 ? first.last : nil
        guard let doubtful = try doubtful(pushed, after: last, pushing) else {
            return try nested(pushed, skipping: first.count, pushing, visit)
        }
        let statement: PushedStatement
        if let bounds = pushed.bounds, doubtful.sides.isNone {
            statement = pushed.pairs.first(bounds.rows, bounds.terms, after: last)
        } else {
            statement = pushed.pairs.statement(doubtful.sides, after: last)
        }
        var pairs = PairMerge(pushed: pushed, doubtful: doubtful, runner: self)
        var goesOn = true
        try pushing.pairs(of: statement) { left, place, right in
            try context.meter.visit()
            context.statistics?.documents += 1
            goesOn = try pairs.add(left, place, right, visit)
            return goesOn
        }
        return goesOn ? try pairs.finish(visit) : false
    }

    /// Returns whether SQL decides about all pairs, of enough documents on the left that it takes less time.
    func decides(_ pushed: PushedJoin, _ pushing: any PushingSource) throws -> Bool {
        guard try isWorthwhile(pushed, pushing) else { return false }
        return try doubtful(pushed, after: nil, pushing)?.sides.isNone ?? false
    }

    // MARK: First rows

    /// Returns whether the first rows on the left may be enough, and an index or the id leads from them to
    /// the right.
    private func beginsWithLookups(_ pushed: PushedJoin, _ pushing: any PushingSource) throws -> Bool {
        guard pushed.hasPath else { return false }
        if let bounds = pushed.bounds { return bounds.terms.isEmpty }
        return try isLarge(pushed.pairs.joined, pushing)
    }

    private func isLarge(_ collection: CollectionName, _ pushing: any PushingSource) throws -> Bool {
        try pushing.size(of: collection).map { $0 > DQLLimits.readPartners } ?? true
    }

    private func most(of pushed: PushedJoin) -> Int {
        JoinLookups(pushed.join) == nil ? DQLLimits.firstLookups : DQLLimits.joinedRows
    }

    /// Returns whether the collection on the right is small, or there are too many rows on the left to look
    /// up the partners of each.
    private func isWorthwhile(_ pushed: PushedJoin, _ pushing: any PushingSource) throws -> Bool {
        guard pushed.hasPath, try isLarge(pushed.pairs.joined, pushing) else { return true }
        let most = most(of: pushed)
        var count = 0
        try run(pushed.left) { _ in
            try context.meter.step()
            count += 1
            return count < most
        }
        return count >= most
    }

    private func run(
        first: inout FirstRows, of pushed: PushedJoin, _ pushing: any PushingSource,
        _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        if let lookups = JoinLookups(pushed.join) {
            var known: FirstRows? = first
            defer { first = known ?? first }
            return try run(pushed.left, pushed.join, lookups, of: pushing, first: &known, visit)
        }
        var known = first
        defer { first = known }
        var goesOn = true
        try run(pushed.left, for: .join(pushed.join.source)) { row in
            known.add(row.documents[pushed.source]?.id.bytes ?? [])
            goesOn = try self.join(row, pushed.join, visit)
            return goesOn && !known.isFull
        }
        return goesOn
    }

    /// The evaluator's own join, without the rows on the left that it has been through.
    private func nested(
        _ pushed: PushedJoin, skipping count: Int, _ pushing: any PushingSource,
        _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        guard count > 0 else { return try run(.join(pushed.left, pushed.join), visit) }
        var passed = 0
        return try run(pushed.left, for: .join(pushed.join.source)) { row in
            passed += 1
            return passed > count ? try self.join(row, pushed.join, visit) : true
        }
    }

    // MARK: Doubt

    /// The documents in doubt; nil if they are so many that the evaluator joins all.
    private func doubtful(
        _ pushed: PushedJoin, after last: [UInt8]?, _ pushing: any PushingSource
    ) throws -> DoubtfulDocuments? {
        var found = DoubtfulDocuments()
        var count = 0
        if !pushed.pairs.leftDoubt.isEmpty {
            try pushing.documents(of: pushed.pairs.doubtful(.left, after: last)) { _ in
                try context.meter.step()
                count += 1
                return count <= DQLLimits.doubtfulPartners
            }
        }
        guard count <= DQLLimits.doubtfulPartners else { return nil }
        found.sides.left = count > 0
        guard !pushed.pairs.rightDoubt.isEmpty else { return found }
        var bytes = 0
        var row = row()
        try pushing.documents(of: pushed.pairs.doubtful(.right, after: nil)) { record in
            try context.meter.visit()
            row.documents[pushed.join.source] = record
            found.sides.right = true
            // Without a value it is nobody's partner.
            guard let value = try evaluator.evaluate(pushed.keys.right, row), value != .null else {
                return true
            }
            bytes += record.document.bytes.count
            let key = ValueKey(value)
            // Not a set of texts: Swift takes different spellings of a character for equal.
            if found.places[key] == nil, let json = PushedConstant.json(value) {
                found.sides.keys.append(json)
            }
            found.places[key, default: []].append(found.partners.count)
            found.partners.append(KeptDocument(record))
            return found.partners.count <= DQLLimits.doubtfulPartners && bytes <= DQLLimits.joinedBytes
        }
        guard found.partners.count <= DQLLimits.doubtfulPartners, bytes <= DQLLimits.joinedBytes else {
            return nil
        }
        return found
    }
}

/// Puts the partners of each document on the left together: those of SQL, and those in doubt. Holds one
/// document on the left, and those in doubt on the right.
private struct PairMerge {
    let pushed: PushedJoin
    let doubtful: DoubtfulDocuments
    let runner: RowRunner

    /// The document on the left whose partners come; nil if its partners were all found.
    private var left: KeptDocument?
    private var id: [UInt8] = []
    /// The places of those in doubt that are still to come.
    private var candidates: ArraySlice<Int> = []
    private var hasPartner = false

    init(pushed: PushedJoin, doubtful: DoubtfulDocuments, runner: RowRunner) {
        (self.pushed, self.doubtful, self.runner) = (pushed, doubtful, runner)
    }

    /// Takes a pair, or a document without a partner. Returns false when a visit ended the join.
    mutating func add(
        _ left: DocumentRecord, _ place: PushedPlace, _ right: DocumentRecord?,
        _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        let id = left.id.bytes
        if id != self.id || self.left == nil {
            guard try finish(visit) else { return false }
            self.id = id
            var row = runner.row()
            row.documents[pushed.source] = left
            if place == .doubt {
                self.left = nil
                return try runner.join(row, pushed.join, visit)
            }
            self.left = KeptDocument(left)
            hasPartner = false
            candidates = []
            if !doubtful.places.isEmpty,
                let value = try runner.evaluator.evaluate(pushed.keys.left, row), value != .null
            {
                candidates = doubtful.places[ValueKey(value)]?[...] ?? []
            }
        }
        guard let right else { return true }
        guard try meet(before: right.id.bytes, visit) else { return false }
        return try pair(left, right, visit)
    }

    /// Ends the document on the left.
    mutating func finish(_ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        guard let left else { return true }
        guard try meet(before: nil, visit) else { return false }
        self.left = nil
        guard pushed.join.isOuter, !hasPartner else { return true }
        var row = runner.row()
        return try left.read { id, document in
            row.documents[pushed.source] = DocumentRecord(idInPlace: id, document: document)
            return try visit(row)
        }
    }

    /// Pairs the document on the left with those in doubt whose id is less than one.
    private mutating func meet(before end: [UInt8]?, _ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        guard let left else { return true }
        while let place = candidates.first {
            let partner = doubtful.partners[place]
            if let end, partner.withBytes({ id, _ in compareBytes(Array(id), end) }) > 0 { return true }
            candidates.removeFirst()
            let goesOn = try left.read { id, document in
                let record = DocumentRecord(idInPlace: id, document: document)
                return try partner.read { id, document in
                    try pair(record, DocumentRecord(idInPlace: id, document: document), visit)
                }
            }
            guard goesOn else { return false }
        }
        return true
    }

    private mutating func pair(
        _ left: DocumentRecord, _ right: DocumentRecord, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var row = runner.row()
        row.documents[pushed.source] = left
        row.documents[pushed.join.source] = right
        try runner.context.meter.step()
        guard try runner.evaluator.isTrue(pushed.join.condition, row) else { return true }
        hasPartner = true
        return try visit(row)
    }
}
