import Foundation
import Replica

extension Ditto {
    /// Removes everything that an instance has kept in a directory: documents, writes that no server has
    /// taken yet, attachments, the login, persisted system parameters and logs. Then the directory opens for
    /// any database. Other files in it stay, and a directory without a store stays as it is. A call that was
    /// cut off can be repeated.
    /// - Parameter directory: as in `DittoConfig.persistenceDirectory`; `URL(string: "ditto")` is that of an
    ///   instance of the 4.x API that names none.
    /// - Throws: `storeError(.persistenceDirectoryLocked)` after about a second while an instance has it
    ///   open; `validationError(.invalidDittoConfig)` for one that cannot be used.
    public static func emptyPersistenceDirectory(_ directory: URL) throws {
        do {
            var config = DittoConfig.default
            config.persistenceDirectory = directory
            try empty(OpenedConfig(config, root: defaultRootDirectory).directory)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    private static func empty(_ directory: String) throws {
        let files = FileManager.default
        guard DocumentStore.fileNames.contains(where: { files.fileExists(atPath: "\(directory)/\($0)") })
        else { return }
        func remove(_ name: String) throws(SDKError) {
            let path = "\(directory)/\(name)"
            guard files.fileExists(atPath: path) else { return }
            do {
                try files.removeItem(atPath: path)
            } catch {
                throw SDKError(
                    .persistenceDirectoryInvalid, "\(path) cannot be removed: \(error.localizedDescription)")
            }
        }
        try PeerReplica.emptying(directory: directory, environment: .system) { removeStore in
            let names = DiskUsageItem.folders.filter { $0 != IdentityFiles.folder }
            for name in names + [StoreSettings.fileName] { try remove(name) }
            try removeStore()
            // Last: while the store is there, its session may be all that shows its database.
            try remove(IdentityFiles.folder)
        }
    }
}
