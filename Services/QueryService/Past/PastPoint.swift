import CRDT
import DQL
import OperationLog
import ServiceKit

/// A point in a database's past, as `asOf` names it: an offset of the log, or a time.
enum PastPoint: Sendable, Equatable {
    case offset(Offset)
    /// Milliseconds since 1970.
    case time(UInt64)

    /// Reads a number, or a text with a number or an RFC 3339 time.
    /// - Throws: `QUERY-0101`.
    init(_ value: Value) throws(QueryError) {
        switch value {
        case .int(let number) where number >= 0: self = .offset(Offset(UInt64(number)))
        case .string(let text): try self.init(text)
        default: throw Self.malformed("asOf")
        }
    }

    /// Reads a number or an RFC 3339 time.
    /// - Parameter name: the member or parameter that errors name.
    init(_ text: String, of name: String = "asOf") throws(QueryError) {
        if let number = UInt64(text) {
            self = .offset(Offset(number))
        } else if let milliseconds = RFC3339.read(text).flatMap({ UInt64(exactly: $0.milliseconds) }) {
            self = .time(milliseconds)
        } else {
            throw Self.malformed(name)
        }
    }

    private static func malformed(_ name: String) -> QueryError {
        QueryError(
            .malformedRequest,
            "\"\(name)\" must be an offset, or a time like 2026-11-26T08:30:00Z (in a query + is %2B)")
    }
}

/// Finds the offsets of times. The log keeps the time by each writer's clock, and a writer may come late. So
/// the state at a time is the longest beginning of the log without an operation that was written after it:
/// nothing that was written later is in it, and nothing is missing that had arrived.
///
/// Actor isolation guards the marks, one for each full read of the log: the greatest time up to there. A read
/// ends with `Limits.timeMarkOperations`, or earlier with the bytes of `ReadLimit`.
actor PastTimes {
    private struct Mark {
        var offset: Offset
        /// The greatest time of an operation up to the offset, as far as the log reached when it was read.
        var greatest: UInt64

        /// The mark after the entries up to a time, and whether one is younger.
        func moved(over entries: [LogEntry], to milliseconds: UInt64) -> (mark: Mark, isFound: Bool) {
            var mark = self
            for entry in entries {
                let time = HybridClock.milliseconds(of: entry.timestamp)
                guard time <= milliseconds else { return (mark, true) }
                mark.greatest = max(mark.greatest, time)
                mark.offset = entry.offset
            }
            return (mark, false)
        }
    }

    private let log: any OperationLog
    private var marks: [DatabaseID: [Mark]] = [:]

    init(log: any OperationLog) { self.log = log }

    /// The last offset of the log before the first operation that was written after a time; nil if that
    /// operation, or its place, is no longer in the log. Looks through what it reads in turns of the
    /// evaluation, and ends with it.
    func offset(
        at milliseconds: UInt64, in database: DatabaseID, _ evaluation: Evaluation
    ) async throws -> Offset? {
        let truncated = try await log.truncation(of: database).offset
        var known = (marks[database] ?? []).filter { $0.offset >= truncated }
        // The last mark before which no operation is younger.
        let before = known.last { $0.greatest <= milliseconds }
        var place = before?.offset ?? truncated
        var greatest = before?.greatest ?? 0
        var isFirst = true
        while true {
            let entries: [LogEntry]
            do {
                entries = try await log.read(
                    database, after: place, limit: ReadLimit(operations: Limits.timeMarkOperations))
            } catch let error as OperationLogError where error.code == .truncated {
                return nil
            } catch let error as OperationLogError where error.code == .offsetBeyondHead {
                // The log was put back to an earlier state.
                marks[database] = nil
                return try await log.head(of: database).offset
            }
            guard !entries.isEmpty else { return place }
            // More follows, so the read before was full.
            if !isFirst, known.last.map({ $0.offset < place }) ?? true {
                known.append(Mark(offset: place, greatest: greatest))
                marks[database] = known
            }
            isFirst = false
            let sofar = Mark(offset: place, greatest: greatest)
            let (mark, isFound) = try await evaluation.run { sofar.moved(over: entries, to: milliseconds) }
            (place, greatest) = (mark.offset, mark.greatest)
            if isFound { return place == 0 || place > truncated ? place : nil }
        }
    }
}

/// The past of all databases: points, folds, and the answer where the log does not reach back.
struct Past: Sendable {
    let log: any OperationLog
    let folds: PastFolds
    let times: PastTimes

    /// The offset of a point. A time is searched in turns of the evaluation.
    /// - Throws: `QUERY-0501`, `QUERY-0503`; `cancelled` or `timeout` when the evaluation ends.
    func offset(
        of point: PastPoint, in database: DatabaseID, _ evaluation: Evaluation
    ) async throws -> Offset {
        switch point {
        case .offset(let offset):
            let head = try await log.head(of: database).offset
            guard offset <= head else { throw QueryError(.futureOffset, "\(head)") }
            return offset
        case .time(let milliseconds):
            guard let offset = try await times.offset(at: milliseconds, in: database, evaluation) else {
                throw try await gone(database)
            }
            return offset
        }
    }

    /// Translates the error of a fold that would begin before the log.
    func translating<Result>(
        _ database: DatabaseID, _ body: () async throws -> Result
    ) async throws -> Result {
        do { return try await body() } catch is PastFold.Gone { throw try await gone(database) }
    }

    /// The error that names the oldest offset and time that can be had.
    func gone(_ database: DatabaseID) async throws -> QueryError {
        let oldest = try await PastFold.oldest(in: log, of: database)
        var members = ObjectValue([(key: "oldest", value: .int(Int64(clamping: oldest.rawValue)))])
        if oldest > 0,
            let entry = try? await log.read(
                database, after: oldest.previous, limit: ReadLimit(operations: 1)
            ).first
        {
            let milliseconds = HybridClock.milliseconds(of: entry.timestamp)
            members["oldestTime"] = .string(RFC3339.text(clamping: milliseconds))
        }
        return QueryError(.historyGone, "\(oldest)", members: members)
    }
}
