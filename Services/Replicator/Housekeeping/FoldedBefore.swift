import CRDT
import Foundation

/// The databases that an earlier run of the process folded in a folder.
enum FoldedBefore {
    /// The log's databases that have a folder there, the one that was written to last first.
    static func databases(in folder: String, of all: [DatabaseID]) -> [DatabaseID] {
        let folded = all.compactMap { database -> (database: DatabaseID, written: Date)? in
            let files = (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/\(database)")) ?? []
            let dates = files.compactMap { file in
                let attributes = try? FileManager.default.attributesOfItem(
                    atPath: "\(folder)/\(database)/\(file)")
                return attributes?[.modificationDate] as? Date
            }
            return dates.max().map { (database, $0) }
        }
        return folded.sorted { $0.written > $1.written }.map(\.database)
    }
}
