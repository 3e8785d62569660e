import Foundation
import Replica

/// The disk usage of a file or directory.
public struct DiskUsageItem: Equatable, Sendable {
    /// Its type.
    public var type: DittoFileSystemType
    /// Its absolute path.
    public var path: String
    /// The bytes of a file; for a directory, those of everything in it.
    public var sizeInBytes: Int
    /// The content of a directory, by name; empty for anything else.
    public var childItems: [DiskUsageItem]
}

/// The name of 5.x.
public typealias DittoDiskUsageItem = DiskUsageItem

/// The type of an entry in a directory.
public enum DittoFileSystemType: CustomStringConvertible, Sendable {
    /// A directory.
    case directory
    /// A file.
    case file
    /// A symbolic link, which is not followed.
    case symlink

    /// `directory`, `file` or `symlink`.
    public var description: String {
        switch self {
        case .directory: "directory"
        case .file: "file"
        case .symlink: "symlink"
        }
    }
}

extension DiskUsageItem {
    /// The folders of the original, by name; the store itself is not among them.
    static let folders = [
        "ditto_attachments", IdentityFiles.folder, "ditto_logs", "ditto_metrics", "ditto_system_info",
    ]

    /// Measures a persistence directory, in the shape that `DiskUsage.item` describes.
    /// - Parameter replicationBytes: the part of the store's file that is there for sync.
    init(persistenceDirectory root: URL, replicationBytes: Int) {
        var found = DiskUsageItem(at: root).childItems
        func take(_ isWanted: (String) -> Bool) -> [DiskUsageItem] {
            let (taken, left) = (found.filter { isWanted($0.name) }, found.filter { !isWanted($0.name) })
            found = left
            return taken
        }
        func folder(_ name: String, _ children: [DiskUsageItem]) -> DiskUsageItem {
            DiskUsageItem(
                type: .directory, path: root.appendingPathComponent(name).path,
                sizeInBytes: children.reduce(0) { $0 + $1.sizeInBytes }, childItems: children)
        }
        var store = take { DocumentStore.fileNames.contains($0) || $0 == StoreSettings.fileName }
        var replication: [DiskUsageItem] = []
        // The latest writes may still be in the write-ahead log.
        var left = replicationBytes
        for place in store.indices where left > 0 && store[place].name.hasPrefix(DocumentStore.databaseName) {
            var part = store[place]
            part.sizeInBytes = min(left, part.sizeInBytes)
            store[place].sizeInBytes -= part.sizeInBytes
            left -= part.sizeInBytes
            replication.append(part)
        }
        var children = [folder("ditto_replication", replication), folder("ditto_store", store)]
        for name in Self.folders { children.append(take { $0 == name }.first ?? folder(name, [])) }
        children.sort { $0.name < $1.name }
        self = folder("", children + found)
        path = root.path
    }

    private var name: String { String(path.split(separator: "/").last ?? "") }

    /// Measures a file or directory. One that disappears meanwhile counts as empty.
    init(at url: URL) {
        let manager = FileManager.default
        path = url.path
        let attributes = try? manager.attributesOfItem(atPath: url.path)
        switch attributes?[.type] as? FileAttributeType {
        case .typeDirectory?:
            let names = (try? manager.contentsOfDirectory(atPath: url.path)) ?? []
            type = .directory
            childItems = names.sorted().map { DiskUsageItem(at: url.appendingPathComponent($0)) }
            sizeInBytes = childItems.reduce(0) { $0 + $1.sizeInBytes }
        case let found:
            type = found == .typeSymbolicLink ? .symlink : .file
            childItems = []
            sizeInBytes = (attributes?[.size] as? NSNumber)?.intValue ?? 0
        }
    }
}
