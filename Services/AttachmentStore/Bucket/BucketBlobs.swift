import Attachments
import Foundation
import Machine

/// The attachments in a bucket, for backups and checks beside running stores. `BucketPlace` has the layout.
public struct BucketBlobs: Sendable {
    private let client: BucketClient
    private let files: BucketFiles

    /// No request is made yet.
    public init(_ address: BucketAddress) {
        client = BucketClient(address)
        files = BucketFiles(address)
    }

    /// The databases that have anything in the bucket.
    /// - Throws: `ATT-0401`, `ATT-0402`, like all that follow.
    public func databases() async throws -> [String] { try await names("") }

    /// The shelves of a database that have attachments: the first two characters of their ids.
    public func shelves(of database: String) async throws -> [String] {
        try await names("\(database)/blobs/")
    }

    /// The last parts of the prefixes below a prefix.
    private func names(_ prefix: String) async throws -> [String] {
        var names: [String] = []
        try await client.forEach(prefix, delimiter: "/") { page in
            names += page.prefixes.compactMap { $0.split(separator: "/").last.map(String.init) }
            return true
        }
        return names
    }

    /// The ids on a shelf, in their order.
    public func ids(on shelf: String, of database: String) async throws -> [String] {
        var ids: Set<String> = []
        try await files.forEach("\(database)/blobs/\(shelf)/") { object in
            guard let name = object.key.split(separator: "/").last, let id = BucketPlace.id(name) else {
                return
            }
            ids.insert(id.text)
        }
        return ids.sorted()
    }

    /// Returns whether an attachment is there.
    public func holds(_ id: String, of database: String) async throws -> Bool {
        try await newest(id, database) != nil
    }

    /// Reads an attachment from its beginning to its end, as it is.
    /// - Returns: false if it is gone.
    public func read(
        _ id: String, of database: String, _ body: (_ part: [UInt8]) throws -> Void
    ) async throws -> Bool {
        // An object that is gone may have been replaced by one of the same bytes.
        while let key = try await newest(id, database) {
            if try await files.read(key, body) { return true }
        }
        return false
    }

    /// Stores a file, whose content has been compared with its id.
    public func store(_ path: String, as id: String, of database: String) async throws {
        try await files.store(path, as: stem(id, database) + BucketPlace.stamp(SystemClock.seconds()))
    }

    private func newest(_ id: String, _ database: String) async throws -> String? {
        try await client.page(stem(id, database)).objects.map(\.key).max()
    }

    private func stem(_ id: String, _ database: String) -> String {
        "\(database)/blobs/\(id.prefix(2))/\(id)."
    }
}
