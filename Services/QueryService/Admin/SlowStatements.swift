import CRDT
import DQL
import Identity
import Machine
import ServiceKit
import Synchronization

/// The latest slow statements of this process, of all databases, without the values in them. `entries` has
/// the lock; the oldest goes when there are too many.
final class SlowStatementLog: Sendable {
    /// One statement that took long.
    struct Entry: Sendable {
        let database: DatabaseID
        /// Milliseconds since 1970, of its end.
        let time: UInt64
        let text: String
        let credential: String
        let elapsed: Duration
        let computed: Duration
        let documents: Int
        let rows: Int
        /// The code of the error that it ended with.
        let code: String?
    }

    private let least: Duration
    private let entries = Mutex<[Entry]>([])

    /// - Parameter least: the time from which a statement is slow.
    init(from least: Duration) { self.least = least }

    /// Keeps a statement that has ended, if it was slow.
    func note(
        _ evaluation: Evaluation, _ text: String, rows: Int?, error: (any Error)?, milliseconds: UInt64
    ) {
        let elapsed = ContinuousClock.now - evaluation.begin
        guard elapsed >= least else { return }
        keep(
            Entry(
                database: evaluation.purpose.database, time: milliseconds, text: Self.shown(text),
                credential: evaluation.purpose.credential, elapsed: elapsed, computed: evaluation.computed,
                documents: evaluation.countedDocuments, rows: rows ?? evaluation.countedRows,
                code: error.map(Self.code)))
    }

    /// Keeps a statement that read few documents without an evaluation, if it was slow.
    func note(_ elapsed: Duration, _ text: String, rows: Int, of identity: Identity) {
        guard elapsed >= least else { return }
        keep(
            Entry(
                database: identity.databaseID, time: Environment.system.wallMilliseconds(),
                text: Self.shown(text), credential: identity.credential, elapsed: elapsed,
                computed: elapsed, documents: rows, rows: rows, code: nil))
    }

    private static func shown(_ text: String) -> String {
        let shown = StatementText.withoutValues(text, bytes: Limits.readSlowBytes)
        return shown.count > Limits.shownSlowCharacters
            ? shown.prefix(Limits.shownSlowCharacters) + "…" : shown
    }

    private func keep(_ entry: Entry) {
        Measured.count("mimeo_query_slow_total")
        entries.withLock { entries in
            entries.append(entry)
            if entries.count > Limits.slowStatementsKept { entries.removeFirst() }
        }
    }

    private static func code(of error: any Error) -> String {
        if let error = error as? DQLError { return error.code.rawValue }
        return ErrorAnswer.reportable(QueryError.translated(error)).publicCode
    }

    /// The latest of a database, the newest first.
    func rows(of database: DatabaseID, limit: Int) -> [Value] {
        let found = entries.withLock { $0.reversed().lazy.filter { $0.database == database }.prefix(limit) }
        return found.map { entry in
            [
                "time": .string(RFC3339.text(clamping: entry.time)), "statement": .string(entry.text),
                "credential": .string(entry.credential),
                "milliseconds": .int(Int64(entry.elapsed / .milliseconds(1))),
                "computedMilliseconds": .int(Int64(entry.computed / .milliseconds(1))),
                "documents": .int(Int64(entry.documents)), "rows": .int(Int64(entry.rows)),
                "code": entry.code.map { .string($0) } ?? .null,
            ]
        }
    }
}
