import CRDT
import OperationLog

extension Touch {
    /// The bits as PostgreSQL stores them.
    fileprivate var bits: Int64 { Int64(bitPattern: rawValue) }
}

/// One database's part of a group when the server decides operation by operation (`mimeo_log.append`).
enum DecidedAppend {
    /// The verdicts of `mimeo_log.append` on an operation; negative ones are about the whole database.
    private enum Verdict {
        static let appended: Int64 = 0
        static let duplicate: Int64 = 1
        static let gap: Int64 = 2
        static let foreignActor: Int64 = 3
        static let differentContent: Int64 = 4
        static let condition: Int64 = 5
        static let leaseLost: Int64 = 6
        static let unknownDatabase: Int64 = -1
        static let damagedHead: Int64 = -2
    }

    private static let append = """
        SELECT verdict, value FROM mimeo_log.append(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        """

    /// The statement.
    static func step(_ part: GroupPart, _ calls: [AppendCall]) -> Connection.Step {
        let operations = part.numbers.flatMap { number in calls[number].operations.map { (number, $0) } }
        return Connection.Step(
            append,
            [
                .text(part.database.text), .int8Array(operations.map { Int64($0.0) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.record.actor.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.record.sequence.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.record.timestamp) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.contentHash) }),
                .int8Array(operations.map { Int64(bitPattern: $0.1.digest) }),
                .textArray(operations.map(\.1.authorKey)), .bytesArray(operations.map(\.1.record.bytes)),
                .int8Array(operations.flatMap { $0.1.touches.map(\.bits) }),
                .int8Array(ends(operations.map(\.1.touches.count))),
                .int8Array(operations.flatMap { $0.1.condition?.reads.map(\.bits) ?? [] }),
                .int8Array(ends(operations.map { $0.1.condition?.reads.count ?? 0 })),
                .int8Array(
                    operations.map { $0.1.condition.map { Int64(clamping: $0.readAt.rawValue) } ?? -1 }),
                .int8Array(operations.map { Int64($0.1.lease?.number ?? 0) }),
                .int8Array(operations.map { Int64($0.1.lease?.epoch ?? 0) }),
            ])
    }

    /// The end positions of consecutive slices with these lengths.
    private static func ends(_ lengths: [Int]) -> [Int64] {
        var end: Int64 = 0
        return lengths.map { length in
            end += Int64(length)
            return end
        }
    }

    private static func failure(_ rows: Rows, _ database: DatabaseID) -> OperationLogError? {
        guard rows.count == 1 else { return nil }
        switch rows.int8(0, 0) {
        case Verdict.unknownDatabase:
            return OperationLogError(.unknownDatabase, "no database has this id", database: database)
        case Verdict.damagedHead:
            return OperationLogError(
                .corrupt, "the last entry is missing or is not the one the head names", database: database,
                offset: Offset(rows.bits(0, 1)))
        default: return nil
        }
    }

    /// Nil for a row that is missing, or has a verdict of another version.
    private static func outcome(_ rows: Rows, _ row: Int) -> AppendOutcome? {
        guard row < rows.count else { return nil }
        let value = rows.bits(row, 1)
        switch rows.int8(row, 0) {
        case Verdict.appended: return .appended(offset: Offset(value))
        case Verdict.duplicate: return .duplicate(through: SequenceNumber(value))
        case Verdict.gap: return .gap(expected: SequenceNumber(value))
        case Verdict.foreignActor: return .conflict(.foreignActor)
        case Verdict.differentContent: return .conflict(.differentContent(sequence: SequenceNumber(value)))
        case Verdict.condition: return .conflict(.condition(offset: Offset(value)))
        case Verdict.leaseLost: return .conflict(.leaseLost)
        default: return nil
        }
    }

    /// Records the verdicts of `mimeo_log.append` on a part.
    static func take(
        _ rows: Rows, _ part: GroupPart, _ calls: [AppendCall], _ outcome: inout PartialOutcome
    ) {
        var row = 0
        let failure = failure(rows, part.database)
        for number in part.numbers {
            if let failure {
                outcome.results[number] = .failure(failure)
                continue
            }
            let count = calls[number].operations.count
            let outcomes = (row..<row + count).compactMap { Self.outcome(rows, $0) }
            row += count
            guard outcomes.count == count else {
                outcome.results[number] = .failure(
                    OperationLogError(
                        .storageFailed, "mimeo_log.append gave an answer that this version does not know",
                        database: part.database))
                continue
            }
            for case .appended(let offset) in outcomes { outcome.grown[part.database] = offset }
            outcome.results[number] = .success(outcomes)
        }
    }
}
