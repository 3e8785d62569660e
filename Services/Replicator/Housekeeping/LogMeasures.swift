import CRDT
import OperationLog

/// The sizes and times of one database's operations, in steps, for retention by bytes and hours.
struct LogMeasure: Sendable {
    /// A place of the log.
    struct Mark: Sendable, Equatable {
        var offset: Offset
        /// The bytes of operations from the beginning of the measure up to here.
        var bytes: UInt64
        /// The greatest time up to here, in milliseconds since 1970.
        var time: UInt64
    }

    /// The places measured, ascending.
    private(set) var marks: [Mark] = []
    /// The end of what was measured.
    private(set) var end: Mark

    /// Nothing is measured behind this place.
    init(after offset: Offset) { end = Mark(offset: offset, bytes: 0, time: 0) }

    /// The bytes of all operations that the log has, to a step's accuracy.
    var bytes: UInt64 { end.bytes - removed }
    /// The bytes of those that were removed since the measure began.
    private var removed: UInt64 = 0

    /// Adds the next operation.
    mutating func add(bytes: Int, time: UInt64) {
        end = Mark(
            offset: end.offset.next, bytes: end.bytes + UInt64(bytes), time: max(end.time, time))
        if end.offset.rawValue.isMultiple(of: Limits.measuredOperations) { marks.append(end) }
    }

    /// Forgets what was removed from the log.
    mutating func cut(through truncated: Offset) {
        guard let first = marks.firstIndex(where: { $0.offset > truncated }) else { return }
        // One mark before the cut stays: bytes count from there.
        marks.removeFirst(max(0, first - 1))
        removed = max(removed, marks.first.map { $0.offset <= truncated ? $0.bytes : 0 } ?? 0)
    }

    /// The bytes of operations after an offset, to a step's accuracy and never too few.
    func bytes(after offset: Offset) -> UInt64 {
        end.bytes - (marks.last { $0.offset <= offset }?.bytes ?? 0)
    }

    /// The last step up to which no operation is younger than a time; 0 if there is none.
    func offset(notAfter time: UInt64) -> Offset { marks.last { $0.time <= time }?.offset ?? 0 }

    /// The first step after which at most so many bytes are left; the end if one step has more.
    func offset(leaving bytes: UInt64) -> Offset {
        marks.first { end.bytes - $0.bytes <= bytes }?.offset ?? end.offset
    }
}

/// The measures of all databases of a process. Each operation is read once.
actor LogMeasures {
    private var measures: [DatabaseID: (logID: LogID, measure: LogMeasure)] = [:]

    /// A database's measure up to its head.
    func measure(of database: DatabaseID, in log: any OperationLog) async throws -> LogMeasure {
        let head = try await log.head(of: database)
        let truncated = try await log.truncation(of: database).offset
        var measure = LogMeasure(after: truncated)
        if let known = measures[database], known.logID == head.logID,
            known.measure.end.offset >= truncated, known.measure.end.offset <= head.offset
        {
            measure = known.measure
        }
        while measure.end.offset < head.offset {
            let entries = try await log.read(database, after: measure.end.offset)
            for entry in entries {
                measure.add(bytes: entry.bytes.count, time: HybridClock.milliseconds(of: entry.timestamp))
            }
            guard !entries.isEmpty else { break }
        }
        measure.cut(through: truncated)
        measures[database] = (head.logID, measure)
        return measure
    }
}
