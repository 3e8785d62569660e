import CRDT
import Crypto
import Foundation
import Logging
import Machine
import OperationLog
import Replica

/// The documents that follow from a backup, folded in a scratch folder: memory does not grow with them.
final class BackupFold {
    private let folder: String
    private let replica: Materialization
    private let progress: BackupProgress
    private var loading = SnapshotLoading()
    private var waiting: [Materialization.LogItem] = []
    private var waitingBytes = 0

    /// - Parameter parent: the folder for the scratch folder.
    init(scratchIn parent: String, logger: Logger, progress: BackupProgress) throws {
        self.progress = progress
        let name = BackupFolder.scratch + hexadecimal(UInt64.random(in: .min ... .max))
        folder = "\(parent)/\(name)"
        replica = try Materialization(directory: folder, environment: .system, logger: logger)
    }

    /// Closes it and removes its files.
    func close() {
        try? replica.close()
        try? Folder.remove(folder)
    }

    /// Folds a whole run.
    /// - Parameter whenPartEnds: called when a part is folded to its end.
    func read(_ run: Run, whenPartEnds: (Run.Piece) throws -> Void = { _ in }) throws {
        let logID = try run.first.start().logID
        do {
            try run.read { item in
                switch item {
                case .key: break
                case .chunk(let bytes): try load(bytes)
                case .entry(let entry):
                    try take(entry, logID)
                    guard waiting.isEmpty else { break }
                    progress.tell(
                        "folding \(run.first.database)", entry.offset.rawValue - run.first.from,
                        of: run.last.through - run.first.from)
                case .end(let piece):
                    try fold()
                    try whenPartEnds(piece)
                }
                return true
            }
        } catch let error as ReplicaError {
            throw BackupError(.damaged, "the backup's operations cannot be folded: \(error)")
        }
    }

    /// Loads the next chunk of a snapshot.
    func load(_ chunk: [UInt8]) throws { loading = try replica.load(chunk, loading) }

    /// Folds an entry, at the latest with `fold`.
    func take(_ entry: LogEntry, _ logID: LogID) throws {
        waiting.append(
            Materialization.LogItem(
                position: LogPosition(logID: logID, offset: entry.offset, hash: entry.hash),
                bytes: entry.bytes))
        waitingBytes += entry.bytes.count
        if waiting.count >= Limits.appendedOperations || waitingBytes >= Limits.appendedBytes { try fold() }
    }

    /// Folds what waits.
    func fold() throws {
        var rest = waiting[...]
        while !rest.isEmpty { rest = rest.dropFirst(try replica.fold(Array(rest)).count) }
        (waiting, waitingBytes) = ([], 0)
    }

    /// The digest of the documents as they are now.
    func digest() throws -> FoldDigest {
        try digests().values.reduce(into: FoldDigest()) { $0.add($1) }
    }

    /// The digests of the documents by collection.
    func digests() throws -> [CollectionName: FoldDigest] { try replica.digests() }
}

extension Materialization {
    /// The digests of the present documents by collection, all of one moment.
    public func digests() throws -> [CollectionName: FoldDigest] {
        var digests: [CollectionName: FoldDigest] = [:]
        guard let reader = try snapshotReader() else { return digests }
        defer { reader.close() }
        while let chunk = try reader.next() {
            for record in try SnapshotChunk.records(in: chunk) {
                guard case .document(let document) = record else { continue }
                digests[document.key.collection, default: FoldDigest()].add(document)
            }
        }
        return digests
    }
}

/// A digest of documents that does not depend on their order: equal ones mean equal documents, deleted ones
/// included. It finds accidents; whoever can write a backup can forge it.
public struct FoldDigest: Sendable, Equatable {
    /// Documents that are not deleted.
    public private(set) var documents = 0
    private var high: UInt64 = 0
    private var low: UInt64 = 0

    /// The digest of no documents.
    public init() {}

    /// Adds a document.
    public mutating func add(_ document: SnapshotDocument) {
        var sum = SHA256()
        let name = Array(document.key.collection.text.utf8)
        sum.update(data: Array("\(name.count) \(document.key.id.bytes.count) \(document.isLive) ".utf8))
        sum.update(data: name)
        sum.update(data: document.key.id.bytes)
        sum.update(data: document.state.bytes)
        let bytes = Array(sum.finalize())
        high &+= bytes[0..<8].reduce(0) { $0 << 8 | UInt64($1) }
        low &+= bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
        if document.isLive { documents += 1 }
    }

    /// Adds all documents of another digest.
    public mutating func add(_ other: FoldDigest) {
        high &+= other.high
        low &+= other.low
        documents += other.documents
    }

    /// 32 hexadecimal digits.
    public var text: String { hexadecimal(high) + hexadecimal(low) }
}
