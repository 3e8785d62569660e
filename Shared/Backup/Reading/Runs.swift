import CRDT
import OperationLog

/// A backup of a chain and its folder.
struct ChainedBackup {
    let manifest: Manifest
    let path: String
}

/// A stretch of one database's log in a chain of backups: a base, and the parts that continue it.
struct Run {
    /// A part and the folder of its files.
    struct Piece {
        let part: Manifest.Part
        let folder: String
        let backup: String
    }

    var pieces: [Piece]

    var first: Manifest.Part { pieces[0].part }
    var last: Manifest.Part { pieces[pieces.count - 1].part }
}

/// The runs of one database in a chain, oldest first.
struct Runs {
    private(set) var all: [Run] = []

    /// - Throws: `BAK-0204` for a part that does not continue the one before.
    init(of database: DatabaseID, in chain: [ChainedBackup]) throws(BackupError) {
        for link in chain {
            guard let part = link.manifest.part(of: database) else { continue }
            let piece = Run.Piece(part: part, folder: link.path, backup: link.manifest.name)
            guard part.base == .parent else {
                all.append(Run(pieces: [piece]))
                continue
            }
            guard let before = all.last?.last, try before.end() == part.start() else {
                throw BackupError(
                    .chainBroken,
                    "database \(database) in \(link.manifest.name) does not continue the backup before")
            }
            all[all.count - 1].pieces.append(piece)
        }
    }
}

/// One step of a run, in the log's order.
enum RunItem {
    /// A chunk of the snapshot that the run begins with.
    case chunk([UInt8])
    /// The key of an actor, before the chunk or entry that needs it.
    case key(ActorID, String)
    case entry(LogEntry)
    /// A part has been read to its end, and its files are whole.
    case end(Run.Piece)
}

extension Run {
    /// Reads everything, with all hashes checked. The files are not held in memory.
    /// - Parameter body: returns false to end the reading early.
    /// - Throws: `BAK-0202`, `BAK-0203`, and the body's errors.
    func read(_ body: (RunItem) throws -> Bool) throws {
        var place = try first.start()
        for piece in pieces {
            for file in piece.part.files {
                let reader = try FrameReader(folder: piece.folder, file)
                while let frame = try reader.next() {
                    switch frame {
                    case .key(let actor, let key):
                        guard try body(.key(actor, key)) else { return }
                    case .chunk(let bytes):
                        guard try body(.chunk(bytes)) else { return }
                    case .entry(let record, let hash):
                        let entry = LogEntry(offset: place.offset.next, hash: hash, record: record)
                        let digest = ChainHash.digest(
                            actor: record.actor, sequence: record.sequence, timestamp: record.timestamp,
                            contentHash: ChainHash.content(record.bytes))
                        guard ChainHash.next(after: place.hash, digest: digest) == hash else {
                            throw BackupError.damaged(
                                "\(piece.folder)/\(file.name)",
                                "has an operation that does not follow its predecessor (\(entry.offset))")
                        }
                        place = LogPosition(logID: place.logID, offset: entry.offset, hash: hash)
                        guard try body(.entry(entry)) else { return }
                    case .end: break
                    }
                }
            }
            guard try place == piece.part.end() else {
                throw BackupError.damaged(piece.folder, "lacks operations of \(piece.part.database)")
            }
            guard try body(.end(piece)) else { return }
        }
    }
}
