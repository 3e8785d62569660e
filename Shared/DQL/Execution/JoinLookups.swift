import CRDT

/// A join by the ids of its right side, in a store that is a round trip away: rows on the left wait for each
/// other, and the documents that they ask for are looked up together.
struct JoinLookups {
    let collection: CollectionName
    /// The id that a row on the left asks for.
    let id: BoundExpression

    /// nil if the condition does not name the id.
    init?(_ join: JoinPlan) {
        guard case .documents(let collection) = join.collection, join.ids == nil,
            let id = Self.id(in: join.condition, join.source)
        else { return nil }
        self.collection = collection
        self.id = id
    }

    private static func id(in condition: BoundExpression, _ source: Int) -> BoundExpression? {
        switch condition {
        case .and(let operands): operands.lazy.compactMap { id(in: $0, source) }.first
        case .comparison(.equal, .documentID(source), let value) where !value.readsSource(source),
            .comparison(.equal, let value, .documentID(source)) where !value.readsSource(source):
            value
        default: nil
        }
    }
}

/// Rows on the left of a join, with their own memory.
private struct WaitingRows {
    struct Waiting {
        let documents: [(place: Int, document: KeptDocument)]
        let id: DocumentID?
    }

    private(set) var rows: [Waiting] = []
    private var bytes = 0
    /// The first rows are often enough for a statement with a LIMIT.
    private var most = DQLLimits.firstJoinedRows

    var isFull: Bool { rows.count >= most || bytes >= DQLLimits.joinedBytes }

    mutating func add(_ row: borrowing Row, _ id: DocumentID?) {
        var documents: [(place: Int, document: KeptDocument)] = []
        for place in row.documents.indices {
            guard let record = row.documents[place] else { continue }
            let kept = KeptDocument(record)
            bytes += kept.count
            documents.append((place, kept))
        }
        rows.append(Waiting(documents: documents, id: id))
    }

    mutating func take() -> [Waiting] {
        defer { (rows, bytes, most) = ([], 0, DQLLimits.joinedRows) }
        return rows
    }
}

extension KeptDocument {
    /// A copy of a document with its own memory.
    init(_ record: DocumentRecord) {
        self = record.withBytes { KeptDocument($0, $1, in: KeptBlock.make($0.count + $1.count), at: 0) }
    }
}

extension RowRunner {
    /// Visits the pairs of a join, in the order of the rows on the left. Returns false when a visit ended it.
    func run(
        _ left: RowPlan, _ join: JoinPlan, _ lookups: JoinLookups, of pushing: any PushingSource,
        _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var all: FirstRows?
        return try run(left, join, lookups, of: pushing, first: &all, visit)
    }

    /// The same for the first rows on the left, whose documents are of one source.
    func run(
        _ left: RowPlan, _ join: JoinPlan, _ lookups: JoinLookups, of pushing: any PushingSource,
        first: inout FirstRows?, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var waiting = WaitingRows()
        var known = first
        defer { first = known }
        var goesOn = true
        try run(left, for: .join(join.source)) { row in
            try context.meter.step()
            let value = try evaluator.evaluate(lookups.id, row)
            waiting.add(row, value.flatMap(AccessPath.id(equalTo:)))
            for place in row.documents.indices where known != nil {
                guard let record = row.documents[place] else { continue }
                known?.add(record.id.bytes)
            }
            if waiting.isFull { goesOn = try pair(waiting.take(), join, lookups, pushing, visit) }
            return goesOn && !(known?.isFull ?? false)
        }
        return goesOn ? try pair(waiting.take(), join, lookups, pushing, visit) : false
    }

    private func pair(
        _ rows: [WaitingRows.Waiting], _ join: JoinPlan, _ lookups: JoinLookups,
        _ pushing: any PushingSource, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var seen: Set<DocumentID> = []
        let ids = rows.compactMap(\.id).filter { seen.insert($0).inserted }
        var partners: [DocumentID: KeptDocument] = [:]
        // A large document is not kept, but looked up for each row.
        var large: Set<DocumentID> = []
        if !ids.isEmpty {
            try pushing.documents(lookups.collection, ids: ids[...]) { record in
                try context.meter.visit()
                if record.document.bytes.count > DQLLimits.pushedStateBytes {
                    large.insert(record.id)
                } else {
                    partners[record.id] = KeptDocument(record)
                }
                return true
            }
        }
        var row = row()
        for waiting in rows {
            let goesOn = try with(waiting.documents[...], in: &row) { row in
                var (goesOn, hasPartner) = (true, false)
                var whole = copy row
                func meet(_ record: DocumentRecord) throws {
                    whole.documents[join.source] = record
                    guard try evaluator.isTrue(join.condition, whole) else { return }
                    hasPartner = true
                    goesOn = try visit(whole)
                }
                if let id = waiting.id {
                    if let partner = partners[id] {
                        try partner.read { try meet(DocumentRecord(idInPlace: $0, document: $1)) }
                    } else if large.contains(id) {
                        try source.lookup(lookups.collection, id, meet)
                    }
                }
                guard goesOn, join.isOuter, !hasPartner else { return goesOn }
                whole.documents[join.source] = nil
                return try visit(whole)
            }
            guard goesOn else { return false }
        }
        return true
    }

    /// Calls a body with kept documents in place.
    private func with(
        _ documents: ArraySlice<(place: Int, document: KeptDocument)>, in row: inout Row,
        _ body: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        guard let first = documents.first else { return try body(row) }
        var inner = row
        return try first.document.read { id, document in
            inner.documents[first.place] = DocumentRecord(idInPlace: id, document: document)
            return try with(documents.dropFirst(), in: &inner, body)
        }
    }
}
