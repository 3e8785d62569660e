import CRDT

/// The rows of a live query, as its events make them.
struct ObservedRows: Sendable {
    /// The rows after the last event.
    private(set) var rows: [Value] = []
    /// The offset of the last event; nil before the first.
    private(set) var offset: Int64?
    /// The warnings of the last result, in all its parts, or of the last change.
    private(set) var warnings: [Value] = []
    private var parts: [Value] = []

    /// Takes an event.
    /// - Returns: whether the rows are complete and may have changed.
    /// - Throws: `CLI-0301` for an event that does not fit the rows.
    mutating func apply(_ event: Value) throws(MimeoError) -> Bool {
        let told = event["warnings"]?.arrayValue ?? []
        switch event["event"]?.stringValue {
        case "result":
            warnings = parts.isEmpty ? told : warnings + told
            parts += event["items"]?.arrayValue ?? []
            if event["more"] == true { return false }
            (rows, parts) = (parts, [])
        case "change": (rows, warnings) = (try changed(by: event), told)
        case "current":
            offset = event["transactionId"]?.intValue
            return false
        default: return false
        }
        offset = event["transactionId"]?.intValue
        return true
    }

    private func changed(by event: Value) throws(MimeoError) -> [Value] {
        func indexes(_ value: Value?) -> [Int] {
            (value?.arrayValue ?? []).map { Int(clamping: $0.intValue ?? -1) }
        }
        let moves = (event["moves"]?.arrayValue ?? []).map(indexes)
        let (deletions, insertions) = (indexes(event["deletions"]), indexes(event["insertions"]))
        var given: [Int: Value] = [:]
        for pair in event["rows"]?.arrayValue ?? [] {
            guard let pair = pair.arrayValue, pair.count == 2, let place = pair[0].intValue else { continue }
            given[Int(clamping: place)] = pair[1]
        }
        var arrivals: [Int: Value] = [:]
        for move in moves {
            guard move.count == 2, rows.indices.contains(move[0]) else { throw Self.misfit }
            arrivals[move[1]] = rows[move[0]]
        }
        let gone = Set(deletions + moves.compactMap(\.first))
        let inserted = Set(insertions)
        var rest = rows.indices.lazy.filter { !gone.contains($0) }.map { rows[$0] }.makeIterator()
        var result: [Value] = []
        for place in 0..<max(0, rows.count - deletions.count + insertions.count) {
            let kept = inserted.contains(place) ? nil : arrivals[place] ?? rest.next()
            guard let row = given[place] ?? kept else { throw Self.misfit }
            result.append(row)
        }
        return result
    }

    private static var misfit: MimeoError {
        MimeoError(.serverUnreachable, "an event of the server does not fit the rows before it")
    }
}
