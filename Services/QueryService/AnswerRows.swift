import CRDT
import DQL
import ServiceKit

/// Where the rows of a SELECT go.
enum RowPlace: Sendable {
    /// They stay in memory, which the evaluation holds.
    case held
    /// They stay in memory while they are few; more of them go to a spool in this folder, as the items of a
    /// list in JSON or CBOR.
    case spooledBeyondFew(folder: String, AnswerForm)
    /// They go to a spool, one a line.
    case lines(RowSpool)
}

/// The rows of one answer on their way. Used by the thread that evaluates.
struct AnswerRows {
    private let place: RowPlace
    private let evaluation: Evaluation
    private var bytes: AnswerBytes
    private var rows: [Value] = []
    private var printed: RowLines?
    /// The bytes of rows that the evaluation holds.
    private var noted = 0
    /// The spool that has the rows; nil while they are in memory, and for those one a line.
    private(set) var spool: RowSpool?

    /// - Parameter limit: most bytes of rows that are not sent one a line.
    init(_ job: WriteLane.Job, limit: Int) {
        (place, evaluation) = (job.rows, job.evaluation)
        bytes = AnswerBytes(limit: limit)
    }

    /// The memory of the rows of all statements, approximately.
    var heldBytes: Int { bytes.count }
    /// How many rows were spooled.
    var spooledCount: Int { printed?.count ?? 0 }
    /// The first number of spooled rows that JSON cannot hold.
    var unwritableNumber: Double? { printed?.unwritableNumber }

    /// Begins the rows of a statement.
    /// - Throws: as `RowSpool.begin`.
    mutating func begin() throws {
        rows = []
        guard case .lines(let spool) = place else { return }
        try spool.begin()
        printed = RowLines(spool, .lines)
    }

    /// Adds a row.
    /// - Throws: `QUERY-0405` beyond the limit; `SRV-0430`, `SRV-0503`; as `RowSpool.append`.
    mutating func add(_ row: Value) throws {
        evaluation.countRow()
        if case .lines = place {
            try printed?.add(row)
            return
        }
        try bytes.add(row)
        if printed != nil {
            try printed?.add(row)
            return
        }
        rows.append(row)
        guard bytes.count - noted >= Limits.heldAnswerBytes else { return }
        guard case .spooledBeyondFew(let folder, let form) = place else {
            try evaluation.held.grow(by: bytes.count - noted)
            noted = bytes.count
            return
        }
        let spool = RowSpool(
            folder: folder, for: Account(evaluation.purpose.credential, in: evaluation.purpose.database))
        var lines = RowLines(spool, form)
        for row in rows { try lines.add(row) }
        (rows, printed, self.spool) = ([], lines, spool)
    }

    /// Ends the rows of a statement, and returns those that are in memory.
    mutating func end() throws -> [Value] {
        try printed?.flush()
        defer { rows = [] }
        return rows
    }
}
