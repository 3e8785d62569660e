import CRDT
import Foundation
import Logging
import OperationLog
import ServiceKit

/// A log of many operations over a tenth as many documents, written in groups.
func writeHistory(_ log: any OperationLog, operations: Int) async throws {
    let actor = ActorID(0xABCD)
    var states: [Document] = Array(repeating: Document(), count: max(1, operations / 10))
    var batch: [AppendRequest] = []
    for number in 0..<operations {
        let stamp = Stamp(time: UInt64(1_800_000_000_000 + number) << 16, actor: actor)
        let place = number % states.count
        var editor = DocumentEditor(document: states[place], stamp: stamp)
        if number < states.count { editor.create() }
        try editor.set(["n"], .int(Int64(number)))
        try editor.set(["text"], .string("the text of document \(place) as of \(number)"))
        guard let delta = editor.pending.delta(stamp: stamp) else { fatalError("an edit has a delta") }
        states[place] = editor.document
        let operation = CRDT.Operation(
            actor: actor, sequence: UInt64(number + 1), timestamp: stamp.time,
            changes: [
                .init(
                    collection: "c", id: try DocumentID(.int(Int64(place))), delta: delta.encoded())
            ])
        batch.append(AppendRequest(operation, authorKey: "key"))
        if batch.count == 1_000 || number + 1 == operations {
            _ = try await log.append(batch, to: "db")
            batch = []
        }
    }
}

/// Opens log and materialization and folds what is new, as a service does when it starts; how long that took.
func restart(_ path: String, _ folder: String, _ logger: Logger) async throws -> (Duration, UInt64) {
    let started = ContinuousClock.now
    let log = try SQLiteOperationLog(path: path, logger: logger)
    let materializer = try await Materializer.open("db", log: log, folder: folder, logger: logger)
    try await materializer.advance()
    let offset = await materializer.position.offset
    let duration = ContinuousClock.now - started
    await materializer.close()
    await log.close()
    return (duration, offset)
}
