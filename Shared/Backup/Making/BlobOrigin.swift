import Foundation

/// A place of blobs, as a backup reads it beside running stores: an attachment-store's folder, or its bucket.
public protocol BlobOrigin: Sendable {
    /// The databases that may have blobs.
    func databases() async throws -> [String]
    /// The shelves of a database that have blobs: the first two characters of their ids.
    func shelves(of database: String) async throws -> [String]
    /// The ids on a shelf, in their order.
    func ids(on shelf: String, of database: String) async throws -> [String]
    /// Returns whether a blob is there.
    func holds(_ id: String, of database: String) async throws -> Bool
    /// Reads a blob from its beginning to its end.
    /// - Returns: false if it is gone.
    func read(
        _ id: String, of database: String, _ body: (_ part: [UInt8]) throws -> Void
    ) async throws -> Bool
    /// The path of a blob on this machine; nil where it has none.
    func path(of id: String, _ database: String) -> String?
}

/// A place for the blobs of a backup other than a folder.
public protocol BlobTarget: Sendable {
    /// Returns whether a blob is there.
    func holds(_ id: String, of database: String) async throws -> Bool
    /// Stores a file, whose content has been compared with its id.
    func store(_ path: String, as id: String, of database: String) async throws
}

extension BlobOrigin {
    /// None, for a place that is not on this machine.
    public func path(of id: String, _ database: String) -> String? { nil }
}

/// An attachment-store's folder: `DATABASE/xx/ID`.
struct BlobFolder: BlobOrigin {
    let folder: String

    private static let shelfCharacters = 2
    private static let idCharacters = 43

    func databases() async throws -> [String] {
        try Folder.names(folder).filter { !$0.hasPrefix(".") }
    }

    func shelves(of database: String) async throws -> [String] {
        let path = "\(folder)/\(database)"
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue
        else { return [] }
        return try Folder.names(path).filter { $0.utf8.count == Self.shelfCharacters }
    }

    func ids(on shelf: String, of database: String) async throws -> [String] {
        try Folder.names("\(folder)/\(database)/\(shelf)").filter { $0.utf8.count == Self.idCharacters }
    }

    func holds(_ id: String, of database: String) async throws -> Bool { Folder.exists(file(id, database)) }

    func read(
        _ id: String, of database: String, _ body: (_ part: [UInt8]) throws -> Void
    ) async throws -> Bool {
        guard Folder.exists(file(id, database)) else { return false }
        let input = try InputFile(file(id, database))
        while let part = try input.read() { try body(part) }
        return true
    }

    func path(of id: String, _ database: String) -> String? { file(id, database) }

    private func file(_ id: String, _ database: String) -> String {
        "\(folder)/\(database)/\(id.prefix(Self.shelfCharacters))/\(id)"
    }
}
