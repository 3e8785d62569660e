import CRDT
import DQL
import GRDB

extension ReadTransaction {
    /// The live documents of a collection, and the bytes of their ids and encodings. Reads each row's head.
    /// - Parameter check: called now and then; its error ends the count.
    public func size(
        of collection: CollectionName, check: () throws -> Void
    ) throws -> (documents: Int, bytes: Int) {
        guard let table = try collections.number(of: collection, database) else { return (0, 0) }
        let statement = try RawStatement(
            reused: """
                SELECT COUNT(*), COALESCE(SUM(bytes), 0), MAX(number) FROM (
                    SELECT number, length(id) + length(state) AS bytes FROM documents_\(table)
                    WHERE number > ? AND live ORDER BY number LIMIT \(ReplicaLimits.surveyRows))
                """, database)
        var (documents, bytes, last) = (0, 0, Int64.min)
        while true {
            try check()
            statement.bind(1, last)
            guard try statement.step(), statement.int(0) > 0 else { return (documents, bytes) }
            documents += Int(statement.int(0))
            bytes += Int(statement.int(1))
            last = statement.int(2)
            statement.reset()
        }
    }

    /// Visits up to `count` live documents, spread over a collection in the order in which they came.
    public func sample(
        _ collection: CollectionName, _ count: Int, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        guard count > 0, let table = try collections.number(of: collection, database) else { return }
        let bounds = try RawStatement(
            reused: "SELECT MIN(number), MAX(number), COUNT(*) FROM documents_\(table)", database)
        guard try bounds.step(), bounds.int(2) > 0 else { return }
        let (first, last) = (bounds.int(0), bounds.int(1))
        let steps = Int64(count)
        let next = try RawStatement(
            reused: """
                SELECT id, state, number FROM documents_\(table) WHERE number >= ? AND live
                ORDER BY number LIMIT 1
                """, database)
        var place = first
        for step in 0..<steps {
            place = max(place, first + (last - first) * step / steps)
            next.bind(1, place)
            guard try next.step() else { return }
            try visit(
                DocumentRecord(idInPlace: next.blob(0), document: try DocumentReader(next.blob(1))))
            place = next.int(2) + 1
            next.reset()
        }
    }
}
