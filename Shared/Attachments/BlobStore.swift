import Foundation
import Synchronization

/// A folder of blobs, each named after the SHA-256 of its bytes.
///
/// Layout: `<folder>/<first two characters of the id>/<id>`, `<folder>/incoming/<number>` for blobs that are
/// arriving, and `<folder>/damaged/<id>` for those that no longer have their digest. Invariants: a file under
/// its id is complete and durable (written, fsynced, renamed, folder fsynced), and never changes. A file in
/// `incoming` is locked by its writer; one without a lock is left over from a crash, and the next opening
/// removes it.
///
/// A disk may change a file all the same. So a blob's digest is compared when it is first read after the
/// opening, and again if the file's length or times have changed since. A damaged blob is set aside: moved
/// to `damaged`, reported once, and refused (`BLOB-0202`) until the right bytes are stored again. Only an
/// erasure removes what was set aside.
///
/// `whole` guards what is known to be undamaged. `naming` is held while a file gets or loses the name of its
/// id, so that whoever has read a damaged file sets aside that one, and not one that has replaced it.
///
/// Several stores, also of several processes, may have a folder at a time: a file gets and loses the name of
/// its id under a lock of the folder (`File.alone`). Memory per transfer is one chunk. Names in `incoming`
/// are never reused while they are in use.
public final class BlobStore: Sendable {
    let folder: String
    private let maximumBytes: Int64
    /// Shared by all stores of this process.
    private static let counter = Atomic<UInt64>(0)
    /// The files' states when their digests were compared since the opening; at most `Limits.knownBlobs`.
    private let whole = Mutex<[BlobID: File.State]>([:])
    private let naming = Mutex<Void>(())
    private let whenDamaged: @Sendable (_ blob: BlobID, _ path: String) -> Void

    /// Opens a store; creates the folder if it does not exist.
    /// - Parameters:
    ///   - folder: created with mode 0700.
    ///   - maximumBytes: the size of the largest accepted blob.
    ///   - whenDamaged: called for each blob that is set aside, with the file's new path.
    /// - Throws: `BLOB-0201`.
    public init(
        folder: String, maximumBytes: Int64 = Limits.blobBytes,
        whenDamaged: @escaping @Sendable (_ blob: BlobID, _ path: String) -> Void = { _, _ in }
    ) throws(AttachmentError) {
        self.folder = folder
        self.whenDamaged = whenDamaged
        self.maximumBytes = maximumBytes
        try Self.makeFolder(folder)
        try Self.makeFolder("\(folder)/incoming")
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: "\(folder)/incoming") {
                Self.removeLeftOver("\(folder)/incoming/\(name)")
            }
        } catch {
            throw AttachmentError(.storageFailed, "the folder \(folder)/incoming cannot be read")
        }
    }

    /// A text that no other file of this process has.
    static func drawNumber() -> String {
        let number = counter.add(1, ordering: .relaxed).newValue
        return "\(ProcessInfo.processInfo.processIdentifier)-\(number)"
    }

    /// Removes a file in `incoming` unless somebody is writing it.
    private static func removeLeftOver(_ path: String) {
        guard let file = try? File(path: path, flags: O_RDWR), (try? file.lock(waits: false)) == true else {
            return
        }
        File.remove(path)
    }

    /// Starts to receive a blob whose id is not known yet.
    /// - Throws: `BLOB-0201`.
    public func writer() throws(AttachmentError) -> BlobWriter {
        while true {
            let name = Self.drawNumber()
            let writer = try BlobWriter(
                store: self, path: "\(folder)/incoming/\(name)", maximumBytes: maximumBytes)
            // Nil if a process with the same number on another host has the name, or removed the file just
            // before it was locked.
            if let writer { return writer }
        }
    }

    /// The id and length of a stored blob; nil when it is not stored.
    public func info(_ id: BlobID) throws(AttachmentError) -> BlobInfo? {
        guard File.exists(path(id)) else { return nil }
        return try BlobInfo(id: id, length: File(path: path(id), flags: O_RDONLY).state.length)
    }

    /// Opens a blob for reading, once its digest was compared: the first reading after the opening takes the
    /// time of a whole one.
    /// - Throws: `BLOB-0102` when it is not stored, `BLOB-0202` when it is damaged, `BLOB-0201`.
    public func reader(_ id: BlobID) throws(AttachmentError) -> BlobReader {
        while true {
            let reader = try openReader(id)
            if whole.withLock({ $0[id] }) == reader.state { return reader }
            if try compare(reader, { _ in }) { return reader }
        }
    }

    /// Reads a whole blob and compares its digest with its name, however often that was done before.
    /// - Parameter pace: called with the bytes of each chunk; it may pause.
    /// - Throws: `BLOB-0202` when they differ, and the blob is set aside; `BLOB-0102`, `BLOB-0201`.
    public func verify(_ id: BlobID, pace: (Int) -> Void = { _ in }) throws(AttachmentError) {
        while !(try compare(try openReader(id), pace)) {}
    }

    /// The ids of all stored blobs, shelf by shelf; `body` may take its time.
    /// - Throws: `BLOB-0201`.
    public func forEachID(_ body: (BlobID) -> Void) throws(AttachmentError) {
        for shelf in try Self.names(in: folder) where shelf.utf8.count == Limits.shelfCharacters {
            for name in try Self.names(in: "\(folder)/\(shelf)") {
                if let id = try? BlobID(name) { body(id) }
            }
        }
    }

    /// The blobs that were set aside and not stored again.
    public var damagedIDs: [BlobID] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: damaged)) ?? []
        let ids = names.compactMap { try? BlobID($0.prefix { $0 != "." }) }
        return ids.filter { !File.exists(path($0)) }
    }

    private func openReader(_ id: BlobID) throws(AttachmentError) -> BlobReader {
        guard File.exists(path(id)) else {
            throw File.exists("\(damaged)/\(id.text)") ? AttachmentError.damaged(id) : AttachmentError.unknown
        }
        return try BlobReader(id: id, path: path(id))
    }

    /// - Returns: false if the file is damaged and was replaced meanwhile.
    private func compare(_ reader: BlobReader, _ pace: (Int) -> Void) throws(AttachmentError) -> Bool {
        var digest = BlobDigest()
        var offset: Int64 = 0
        while offset < reader.length {
            let chunk = try reader.read(at: offset)
            guard !chunk.isEmpty else { break }
            digest.update(chunk)
            offset += Int64(chunk.count)
            pace(chunk.count)
        }
        guard digest.id == reader.id else {
            guard try setAside(reader) else { return false }
            throw AttachmentError.damaged(reader.id)
        }
        remember(reader.id, reader.state)
        return true
    }

    private func remember(_ id: BlobID, _ state: File.State) {
        whole.withLock { whole in
            if whole.count >= Limits.knownBlobs { whole = [:] }
            whole[id] = state
        }
    }

    /// Removes a blob and what was set aside of it; nothing happens when it is not stored. A reader that has
    /// it open goes on.
    public func remove(_ id: BlobID) throws(AttachmentError) {
        _ = whole.withLock { $0.removeValue(forKey: id) }
        File.remove("\(folder)/chunks/\(id.text)")
        if File.exists(path(id)) {
            File.remove(path(id))
            try File.syncFolder("\(folder)/\(id.text.prefix(Limits.shelfCharacters))")
        }
        guard File.exists(damaged) else { return }
        let copies = try Self.names(in: damaged).filter { $0.prefix { $0 != "." } == id.text }
        guard !copies.isEmpty else { return }
        for copy in copies { File.remove("\(damaged)/\(copy)") }
        try File.syncFolder(damaged)
    }

    /// The fate of a damaged file that was to be set aside.
    private enum Fate {
        case moved
        /// Another reader was first.
        case isGone
        /// Another file has its name by now.
        case isReplaced
    }

    /// Moves the damaged file of a reader out of the way.
    /// - Returns: false if another file has its name by now.
    private func setAside(_ reader: BlobReader) throws(AttachmentError) -> Bool {
        let id = reader.id
        try Self.makeFolder(damaged)
        let fate = try naming.withLock { _ throws(AttachmentError) -> Fate in
            try File.alone(in: folder) { () throws(AttachmentError) -> Fate in
                _ = whole.withLock { $0.removeValue(forKey: id) }
                guard File.exists(path(id)) else { return .isGone }
                guard try openReader(id).state.isOfSameFile(as: reader.state) else { return .isReplaced }
                var target = "\(damaged)/\(id.text)"
                var number = 1
                while File.exists(target), number < Limits.damagedCopies {
                    number += 1
                    target = "\(damaged)/\(id.text).\(number)"
                }
                // Told before the name is gone: whoever is answered that it is damaged finds health failing.
                whenDamaged(id, target)
                try File.rename(path(id), to: target)
                return .moved
            }
        }
        switch fate {
        case .isReplaced: return false
        case .isGone: return true
        case .moved:
            try File.syncFolder(damaged)
            try File.syncFolder("\(folder)/\(id.text.prefix(Limits.shelfCharacters))")
            return true
        }
    }

    /// Moves a complete and durable file of the same disk to its id. A blob that is stored already is
    /// compared: a whole one stays, a damaged one is set aside and replaced.
    /// - Throws: `BLOB-0201`, `BLOB-0203`.
    public func adopt(_ path: String, as id: BlobID) throws(AttachmentError) {
        let target = self.path(id)
        if File.exists(target) {
            do {
                try verify(id)
                // Stored again now, so that nobody collects it as old. If it was collected meanwhile, the new
                // file takes its place.
                let isThere = try File.alone(in: folder) { () throws(AttachmentError) in
                    guard File.exists(target) else { return false }
                    try File.touch(target)
                    return true
                }
                if isThere {
                    remember(id, try openReader(id).state)
                    File.remove(path)
                    return
                }
            } catch {
                guard error.code == .corrupt || error.code == .notFound else { throw error }
            }
        }
        let shelf = "\(folder)/\(id.text.prefix(Limits.shelfCharacters))"
        if !File.exists(shelf) {
            try Self.makeFolder(shelf)
            try File.syncFolder(folder)
        }
        try naming.withLock { _ throws(AttachmentError) in
            try File.alone(in: folder) { () throws(AttachmentError) in
                try File.touch(path)
                try File.rename(path, to: target)
            }
        }
        try File.syncFolder(shelf)
        remember(id, try openReader(id).state)
    }

    private var damaged: String { "\(folder)/damaged" }

    static func names(in folder: String) throws(AttachmentError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        } catch {
            throw AttachmentError(.storageFailed, "the folder \(folder) cannot be read")
        }
    }

    private func path(_ id: BlobID) -> String {
        "\(folder)/\(id.text.prefix(Limits.shelfCharacters))/\(id.text)"
    }

    static func makeFolder(_ path: String) throws(AttachmentError) {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw AttachmentError(.storageFailed, "the folder \(path) cannot be created")
        }
    }
}
