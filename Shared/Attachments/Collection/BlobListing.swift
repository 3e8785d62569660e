import Foundation

extension BlobStore {
    /// A stored blob, as a listing has it.
    public struct Entry: Sendable, Equatable {
        /// The name.
        public let id: BlobID
        /// The bytes.
        public let length: Int64
        /// Seconds since 1970 when it was last stored.
        public let storedAtSeconds: Int64
        /// Further names, for a place that stores a blob under several.
        public let names: [String]

        /// A blob of these facts.
        public init(id: BlobID, length: Int64, storedAtSeconds: Int64, names: [String] = []) {
            (self.id, self.length, self.storedAtSeconds) = (id, length, storedAtSeconds)
            self.names = names
        }
    }

    /// The shelves that have blobs, in their order.
    public func shelves() throws(AttachmentError) -> [String] {
        try Self.names(in: folder).filter { $0.utf8.count == Limits.shelfCharacters }
    }

    /// The blobs of a shelf, in the order of their ids.
    public func entries(_ shelf: String) throws(AttachmentError) -> [Entry] {
        guard File.exists("\(folder)/\(shelf)") else { return [] }
        return try Self.names(in: "\(folder)/\(shelf)").compactMap { name in
            guard let id = try? BlobID(name), let state = File.state(of: "\(folder)/\(shelf)/\(name)") else {
                return nil
            }
            return Entry(id: id, length: state.length, storedAtSeconds: state.writtenAtSeconds)
        }
    }

    /// Stored blobs after an id, in the order of their ids; at most `most` of them.
    /// - Throws: `BLOB-0201`.
    public func list(after: String = "", most: Int) throws(AttachmentError) -> [Entry] {
        var found: [Entry] = []
        for shelf in try shelves() where shelf >= after.prefix(Limits.shelfCharacters) {
            for entry in try entries(shelf) where entry.id.text > after {
                guard found.count < most else { return found }
                found.append(entry)
            }
        }
        return found
    }

    /// The number of stored blobs, and their bytes.
    /// - Throws: `BLOB-0201`.
    public func usage() throws(AttachmentError) -> (count: Int, bytes: Int64) {
        var (count, bytes) = (0, Int64(0))
        for shelf in try shelves() {
            for entry in try entries(shelf) {
                count += 1
                bytes += entry.length
            }
        }
        return (count, bytes)
    }

    /// Returns whether a blob was collected, and not stored again since.
    public func wasCollected(_ id: BlobID) -> Bool {
        let shelf = String(id.text.prefix(Limits.shelfCharacters))
        return collected.read(shelf)[id] != nil
    }

    /// When blobs were collected.
    var collected: BlobLedger { BlobLedger(folder: "\(folder)/collected") }

    /// Removes a blob unless it was stored again since.
    /// - Returns: false if it was, or is gone.
    public func collect(_ entry: Entry) throws(AttachmentError) -> Bool {
        let path = "\(folder)/\(entry.id.text.prefix(Limits.shelfCharacters))/\(entry.id.text)"
        return try File.alone(in: folder) {
            guard let state = File.state(of: path), state.writtenAtSeconds <= entry.storedAtSeconds else {
                return false
            }
            File.remove(path)
            File.remove("\(folder)/chunks/\(entry.id.text)")
            return true
        }
    }
}

extension BlobStore: CollectableBlobs {
    /// The notes of earlier passes about a shelf.
    public func times(_ ledger: BlobLedger.Kind, _ shelf: String) -> [BlobID: Int64] {
        BlobLedger(folder: "\(folder)/\(ledger.rawValue)").read(shelf)
    }

    /// Replaces that durably.
    public func note(
        _ times: [BlobID: Int64], in ledger: BlobLedger.Kind, _ shelf: String
    ) throws(AttachmentError) {
        try BlobLedger(folder: "\(folder)/\(ledger.rawValue)").write(times, shelf)
    }

    /// Makes the removals on a shelf durable.
    public func settle(_ shelf: String) throws(AttachmentError) {
        try File.syncFolder("\(folder)/\(shelf)")
    }
}

extension BlobDigest {
    init(of bytes: ArraySlice<UInt8>) {
        self.init()
        update(Array(bytes))
    }
}
