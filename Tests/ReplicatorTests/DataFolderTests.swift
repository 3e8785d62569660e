import CRDT
import Foundation
import OperationLog
import Replica
import ServiceKit
import TestSupport
import Testing

@Suite("Several instances of a service on one data folder", .timeLimit(.minutes(2)))
struct DataFolderTests {
    @Test("the second instance finds a folder of its own and both follow the log")
    func twoInstances() async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("d")
            let place = folder.appendingPathComponent("d").path
            let first = try await Materializer.open("d", log: log, folder: place, logger: TestBench.quiet)
            let second = try await Materializer.open("d", log: log, folder: place, logger: TestBench.quiet)
            #expect(first.replica.directory == place)
            #expect(second.replica.directory == place + ".2")
            let operation = CRDT.Operation(actor: ActorID(7), sequence: 1, timestamp: 1 << 16, changes: [])
            let record = OperationRecord(
                actor: operation.actor, sequence: 1, timestamp: operation.timestamp,
                bytes: operation.encoded())
            _ = try await log.append([AppendRequest(record: record, authorKey: "", touches: [])], to: "d")
            for materializer in [first, second] {
                try await materializer.advance()
                #expect(await materializer.position.offset == 1)
                await materializer.close()
            }
            await log.close()
        }
    }
}
