import Attachments
import CRDT
import Foundation
import Hummingbird
import Identity
import Logging
import Machine
import OperationLog
import ServiceKit
import Synchronization

/// Serves blobs over HTTP: for clients without a sync session, and as the fallback source of every peer.
///
/// Each database has its own folder, so an id learned in one database opens nothing in another. `stores`
/// holds the open blob stores and guards opening: two stores on one folder would remove each other's uploads.
///
/// A client may read a blob if it may read everything, or a document that refers to the blob. For others the
/// answer is 404.
public final class AttachmentStore: ServicePart {
    /// The default port of a process of its own.
    public static let defaultPort = 4004
    /// The largest attachment that is accepted unless `--max-attachment-bytes` says otherwise.
    public static let defaultMaximumBytes = Attachments.Limits.blobBytes
    /// `attachment-store`.
    public let name = "attachment-store"

    private let folder: String
    private let documents: String
    private let logger: Logger
    private let maximumBytes: Int64
    private let authenticator: Authenticator
    private let room: DiskRoom?
    private let damaged = Mutex<Set<String>>([])
    private let stores = Mutex<[DatabaseID: BlobStore]>([:])
    private let references: OpenDatabases<BlobReferences>

    /// - Parameters:
    ///   - folder: `DATA/attachments`; created at first use.
    ///   - log: the source of the documents and their references.
    ///   - documents: folder for materializations of databases that clients may read only in part.
    ///   - authenticator: checks access tokens.
    ///   - maximumBytes: largest attachment that is accepted.
    ///   - room: refuses uploads while it is nearly full.
    public init(
        folder: String, log: any OperationLog, documents: String, authenticator: Authenticator,
        maximumBytes: Int64 = Attachments.Limits.blobBytes, room: DiskRoom? = nil,
        logger: Logger = Logger(label: "attachment-store")
    ) {
        self.folder = folder
        self.documents = documents
        self.logger = logger
        self.authenticator = authenticator
        self.maximumBytes = maximumBytes
        self.room = room
        references = OpenDatabases(logger: logger) { database in
            try await BlobReferences.open(database, log: log, folder: documents, logger: logger)
        }
    }

    /// The routes of `/api/v4/attachments` and `/api/v5/attachments`.
    public func mount(on mount: inout ServiceMount) {
        if let system = authenticator.system {
            let eraser = Eraser(
                system: system, holder: name, place: Eraser.place(folder: folder), logger: logger,
                work: Eraser.Work(
                    isHeld: { self.keeps($0) }, erase: { try await self.erase($0) },
                    clean: { try await self.clean($0) }))
            mount.background("erasure") { await eraser.run() }
        }
        mount.background("attachment scrub") { [self] in
            while true {
                await scrub()
                try await Task.sleep(for: Limits.scrubInterval)
            }
        }
        for version in ["v4", "v5"] {
            mount.on(.post, "/api/\(version)/attachments/upload") { request, _ in
                let identity = try await self.authenticator.identity(for: request)
                guard identity.rights.write.allowsAnything else {
                    throw IdentityError.notPermitted("write attachments")
                }
                guard self.room?.isNearlyFull != true else { throw BlobFailure(error: .nearlyFull) }
                return try await UploadRoute(
                    store: self.store(of: identity.databaseID), maximumBytes: self.maximumBytes,
                    standing: { try self.authenticator.requireStanding(of: identity) },
                    whenStored: { self.mended($0, identity.databaseID) }
                ).respond(to: request)
            }
            for method in [HTTPRequest.Method.get, .head] {
                mount.on(method, "/api/\(version)/attachments/:id") { request, context in
                    let identity = try await self.authenticator.identity(for: request)
                    guard identity.rights.read.allowsAnything else {
                        throw IdentityError.notPermitted("read attachments")
                    }
                    let id = try BlobFailure.from { try BlobID(context.parameters.require("id")) }
                    guard try await self.mayRead(id, identity) else {
                        // The same answer as for an unknown id, so that the client does not learn whether
                        // the attachment exists.
                        throw BlobFailure(error: .unknown)
                    }
                    return try await DownloadRoute(
                        store: self.store(of: identity.databaseID),
                        standing: { try self.authenticator.requireStanding(of: identity) }
                    ).respond(to: request, id: id)
                }
            }
        }
    }

    /// Closes the materializations.
    public func stop() async {
        for opened in await references.removeAll() { await opened.close() }
    }

    /// Returns whether anything of a database is stored here.
    private func keeps(_ database: DatabaseID) -> Bool {
        FileManager.default.fileExists(atPath: "\(folder)/\(database)")
            || !DatabaseFolders.of(database, in: documents).isEmpty
    }

    /// Removes the blobs of a deleted database. Its tokens are refused by now. An upload that began before
    /// may end after this; the eraser finds it at its next look.
    private func erase(_ database: DatabaseID) async throws {
        await references.close(database, if: { _ in true }) { await $0.close() }
        let (folder, documents) = ("\(folder)/\(database)", documents)
        stores.withLock { _ = $0.removeValue(forKey: database) }
        damaged.withLock { damaged in damaged = damaged.filter { !$0.hasPrefix("\(database)/") } }
        try await BlobStore.onDisk {
            if FileManager.default.fileExists(atPath: folder) {
                try FileManager.default.removeItem(atPath: folder)
            }
            try DatabaseFolders.remove(database, in: documents)
        }
    }

    /// Removes the blobs of erased documents that no other document refers to, and rewrites the
    /// materialization.
    private func clean(_ erasure: DocumentErasure) async throws {
        let database = erasure.databaseID
        guard keeps(database) else { return }
        let opened = try await references(database)
        try await opened.compact(through: Offset(erasure.erasedThrough ?? 0))
        let blobs = try store(of: database)
        for text in erasure.blobs {
            guard let id = try? BlobID(text), try await !opened.isReferred(to: id) else { continue }
            try await BlobStore.onDisk { try blobs.remove(id) }
            mended(id, database)
        }
    }

    /// Failing while the folder cannot be written, or an attachment is damaged and was not uploaded again.
    public func health() async -> HealthCheck {
        let damaged = damaged.withLock { $0.count }
        guard damaged == 0 else {
            return .failing(
                "BLOB-0202: \(damaged) attachments are damaged and were set aside; restore or upload them")
        }
        let folder = folder
        do {
            return try await BlobStore.onDisk {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                let isWritable = FileManager.default.isWritableFile(atPath: folder)
                return isWritable ? .ok : .failing("the attachments folder in the data folder is read-only")
            }
        } catch {
            return .failing("the attachments folder in the data folder cannot be created")
        }
    }

    /// Not ready while its folder cannot be written.
    public func readiness() async -> [Unreadiness] {
        let folder = folder
        let isWritable = try? await BlobStore.onDisk { FileManager.default.isWritableFile(atPath: folder) }
        guard isWritable != true else { return [] }
        return [
            Unreadiness(
                part: name, code: ServiceErrorCode.dataFolderUnusable.rawValue,
                message: "the attachments folder in the data folder is missing or read-only")
        ]
    }

    private func mayRead(_ id: BlobID, _ identity: Identity) async throws -> Bool {
        if identity.grant.read.everything { return true }
        let database = identity.databaseID
        let opened = try await usable(database)
        do {
            return try await opened.allows(id, by: identity.rights.read)
        } catch {
            // The read has found the documents damaged: they are rebuilt.
            guard await opened.hasLostHistory else { throw error }
            return try await usable(database).allows(id, by: identity.rights.read)
        }
    }

    private func usable(_ database: DatabaseID) async throws -> BlobReferences {
        let opened = try await references(database)
        guard await opened.hasLostHistory else { return opened }
        await references.close(database, if: { $0 === opened }) { await $0.close() }
        return try await references(database)
    }

    // MARK: Damage

    /// Compares every attachment with its name, slowly: what nobody reads may be damaged too.
    private func scrub() async {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for name in names.sorted() where !Task.isCancelled {
            guard let store = try? store(of: DatabaseID(name)) else { continue }
            try? await Self.scrubbing.run {
                try store.forEachID { id in
                    // The store reports it; an unreadable file is met again by its reader.
                    try? store.verify(id) { bytes in
                        usleep(useconds_t(bytes / (Limits.scrubBytesPerSecond / 1_000_000)))
                    }
                }
            }
        }
    }

    /// A thread that may sleep.
    private static let scrubbing = BlockingExecutor(label: "attachments.scrub", isSerial: true)

    private func note(_ id: BlobID, _ path: String, _ database: DatabaseID) {
        damaged.withLock { _ = $0.insert("\(database)/\(id)") }
        for name in ["mimeo_attachments_damaged_total", "attachments_damaged_total"] { Measured.count(name) }
        logger.error(
            "an attachment is damaged and was set aside",
            metadata: ["database": "\(database)", "id": "\(id)", "file": "\(path)"])
    }

    /// Called when an attachment was stored or erased: nothing of it is damaged any more.
    private func mended(_ id: BlobID, _ database: DatabaseID) {
        damaged.withLock { _ = $0.remove("\(database)/\(id)") }
    }

    private func store(of database: DatabaseID) throws -> BlobStore {
        // A verified token's database id is letters, digits, '-' and '_', so it is safe as a folder name.
        try stores.withLock { stores in
            if let store = stores[database] { return store }
            let store = try BlobFailure.from {
                try BlobStore(folder: "\(folder)/\(database)", maximumBytes: maximumBytes) {
                    [weak self] id, path in self?.note(id, path, database)
                }
            }
            stores[database] = store
            for id in store.damagedIDs { damaged.withLock { _ = $0.insert("\(database)/\(id)") } }
            return store
        }
    }
}
