import CRDT
import LogFakes
import Logging
import Synchronization
import Testing

@testable import OperationLog

@Suite("A fold that begins with a snapshot")
struct SnapshotReaderTests {
    private static let silent = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// A log in which a newer snapshot takes the place of the one that is being read, whenever a reader asks
    /// for one of these chunks, counted over all its questions.
    private final class Overtaking: PassingOnLog, @unchecked Sendable {
        // Unchecked as its base is: the count is guarded by a lock.
        private let asked = Mutex(0)
        private let moments: Set<Int>

        init(_ log: any OperationLog, at moments: Set<Int>) {
            self.moments = moments
            super.init(log)
        }

        override func chunk(
            _ index: Int, of snapshot: LogSnapshot, in database: DatabaseID
        ) async throws -> [UInt8] {
            let number = asked.withLock { asked in
                asked += 1
                return asked
            }
            if moments.contains(number) { try await writeSnapshot(of: log, mark: UInt8(number)) }
            return try await super.chunk(index, of: snapshot, in: database)
        }
    }

    private static func writeSnapshot(of log: any OperationLog, mark: UInt8) async throws {
        let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
        for number in 0..<2 as Range<UInt8> { try await log.add([mark, number], to: draft, in: "db") }
        _ = try await log.finish(draft, in: "db")
    }

    struct Run: Sendable {
        /// When newer snapshots come.
        let moments: Set<Int>
        /// The argument of each call of `begin`: true if it begins again.
        let begun: [Bool]
        /// The mark of the snapshot that was loaded.
        let mark: UInt8
    }

    /// Each snapshot has two chunks. Verifying asks twice, loading twice more.
    @Test(
        "one that is overtaken by a newer snapshot begins anew with that, and drops what it had loaded",
        arguments: [
            Run(moments: [], begun: [false], mark: 0), Run(moments: [2], begun: [false], mark: 2),
            Run(moments: [4], begun: [false, true], mark: 4),
            Run(moments: [2, 6], begun: [false, true], mark: 6),
        ])
    func overtaken(_ run: Run) async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...3), to: "db")
            try await Self.writeSnapshot(of: log, mark: 0)
            let head = try await log.head(of: "db")
            var begun: [Bool] = []
            let loaded = try await Overtaking(log, at: run.moments).beginWithSnapshot(
                of: "db", logger: Self.silent
            ) { isAgain in
                begun.append(isAgain)
                return [[UInt8]]()
            } load: { chunks, chunk in
                chunks.append(chunk)
            } position: { _ in
                head
            }
            #expect(loaded == [[run.mark, 0], [run.mark, 1]])
            #expect(begun == run.begun)
            await log.close()
        }
    }

    @Test("one that is overtaken for ever says so in the end")
    func overtakenForEver() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            try await Self.writeSnapshot(of: log, mark: 0)
            let hurried = Overtaking(log, at: Set(1...100))
            let refusal = try await code {
                _ = try await hurried.beginWithSnapshot(of: "db", logger: Self.silent) { _ in
                    0
                } load: { _, _ in
                } position: { _ in
                    nil
                }
            }
            #expect(refusal == .noSnapshot)
            await log.close()
        }
    }

    @Test("a snapshot of another place than it is kept for is refused")
    func elsewhere() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            try await Self.writeSnapshot(of: log, mark: 0)
            let refusal = try await code {
                _ = try await log.beginWithSnapshot(of: "db", logger: Self.silent) { _ in
                    0
                } load: { _, _ in
                } position: { _ in
                    nil
                }
            }
            #expect(refusal == .corruptSnapshot)
            await log.close()
        }
    }
}
