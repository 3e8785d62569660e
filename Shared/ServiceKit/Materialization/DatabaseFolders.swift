import CRDT
import Foundation

/// The folders of one database's materializations: `FOLDER/ID`, and `FOLDER/ID.2` and so on of further
/// instances on one data folder (`Materializer.open`).
public enum DatabaseFolders {
    /// The existing folders of a database.
    public static func of(_ database: DatabaseID, in folder: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { name in
            guard name.hasPrefix(database.text) else { return false }
            let rest = name.dropFirst(database.text.count)
            // No application's database has a dot in its id.
            return rest.isEmpty || rest.first == "." && Int(rest.dropFirst()) != nil
        }.map { "\(folder)/\($0)" }
    }

    /// Removes them with everything in them.
    public static func remove(_ database: DatabaseID, in folder: String) throws {
        for path in of(database, in: folder) {
            try FileManager.default.removeItem(atPath: path)
            DamageLedger.shared.forget(path)
        }
    }
}
