import CRDT
import Foundation
import Logging
import OperationLog
import ServiceKit

/// A log of many operations of an actor over a tenth as many documents of its own, written in groups.
func writeHistory(_ log: any OperationLog, operations: Int, actor: ActorID, collection: CollectionName)
    async throws
{
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
            actor: actor, sequence: SequenceNumber(UInt64(number + 1)), timestamp: stamp.time,
            changes: [
                .init(
                    collection: collection, id: try DocumentID(.int(Int64(place))), delta: delta.encoded())
            ])
        batch.append(AppendRequest(operation, authorKey: "key"))
        if batch.count == 1_000 || number + 1 == operations {
            _ = try await log.append(batch, to: "db")
            batch = []
        }
    }
}

/// Opens log and materialization and folds what is new, as a service does when it starts; how long that took.
func restart(_ path: String, _ folder: String, _ logger: Logger) async throws -> (Duration, Offset) {
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

/// Log and materializations as kill -9 leaves them: the files as they are while all are open.
func killed(_ folder: URL, as name: String) throws -> URL {
    let copy = folder.deletingLastPathComponent().appendingPathComponent(
        "\(folder.lastPathComponent)-\(name)")
    try FileManager.default.copyItem(at: folder, to: copy)
    return copy
}

/// How long a service takes from its start until it stands at the head of a log that another one was killed
/// with.
func measureRecovery(operations: Int, in parent: URL, _ logger: Logger) async throws {
    let folder = parent.appendingPathComponent("history")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path, logger: logger)
    try await log.createDatabase("db")
    func timed<Result>(_ what: String, _ body: () async throws -> Result) async throws -> Result {
        let started = ContinuousClock.now
        let result = try await body()
        print("history: \(what) in \(ContinuousClock.now - started)")
        return result
    }
    try await timed("\(operations) operations written") {
        try await writeHistory(log, operations: operations, actor: ActorID(1), collection: "c")
    }
    let fold = folder.appendingPathComponent("fold").path
    let whole = try await Materializer.open("db", log: log, folder: fold, logger: logger)
    try await timed("folded from its beginning") { try await whole.advance() }
    let snapshot = try await timed("a snapshot") { try await whole.writeSnapshot { true } }
    print("history: the snapshot has \(snapshot?.bytes ?? 0) bytes")
    // What nobody has folded when all are killed.
    try await writeHistory(log, operations: operations / 100, actor: ActorID(2), collection: "d")
    for isTruncated in [false, true] {
        if isTruncated {
            try await timed("truncated to its last hundredth") {
                try await log.truncate("db", through: Offset(UInt64(operations)), keepingHashesAfter: 0)
            }
        }
        for isFolded in [true, false] {
            let copy = try killed(folder, as: "\(isTruncated)-\(isFolded)")
            let place = copy.appendingPathComponent(isFolded ? "fold" : "fresh").path
            let path = copy.appendingPathComponent("log.sqlite").path
            let (time, offset) = try await restart(path, place, logger)
            print(
                "recovery of a log \(isTruncated ? "truncated to its last hundredth" : "of all operations"), "
                    + "\(isFolded ? "materialization in place" : "from its snapshot"), to \(offset): \(time) "
                    + "(goal 5 s)")
            try FileManager.default.removeItem(at: copy)
        }
    }
    await whole.close()
    await log.close()
}
