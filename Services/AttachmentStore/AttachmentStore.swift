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
/// Each database has its own folder, so an id learned in one database opens nothing in another. `shelves`
/// holds what is open of them.
///
/// A client may read a blob if it may read everything, or a document that refers to the blob. For others the
/// answer is 404.
public final class AttachmentStore: ServicePart {
    /// The default port of a process of its own.
    public static let defaultPort = 4004
    /// `attachment-store`.
    public let name = "attachment-store"

    private let folder: String
    private let documents: Materializations
    private let logger: Logger
    private let options: AttachmentOptions
    private let log: any OperationLog
    private let admin: AdminCredential?
    private let authenticator: Authenticator
    private let room: DiskRoom?
    private let damaged = Mutex<Set<String>>([])
    private let shelves = Mutex<[DatabaseID: BlobShelf]>([:])
    private let references: OpenDatabases<BlobReferences>
    /// Nil for attachments in folders.
    private let bucket: BucketClient?
    private let bucketHealth: KeptVerdict?
    private let folderHealth: KeptVerdict

    /// - Parameters:
    ///   - folder: `DATA/attachments`; created at first use.
    ///   - log: the source of the documents and their references.
    ///   - documents: materializations, of databases that clients may read only in part.
    ///   - authenticator: checks access tokens.
    ///   - options: the bounds of attachments.
    ///   - admin: opens the admin routes; nil for none.
    ///   - room: refuses uploads while it is nearly full.
    public init(
        folder: String, log: any OperationLog, documents: Materializations, authenticator: Authenticator,
        options: AttachmentOptions = AttachmentOptions(), admin: AdminCredential? = nil,
        room: DiskRoom? = nil,
        logger: Logger = Logger(label: "attachment-store")
    ) {
        self.folder = folder
        self.documents = documents
        self.logger = logger
        self.authenticator = authenticator
        (self.options, self.log, self.admin) = (options, log, admin)
        self.room = room
        bucket = options.bucket.map { BucketClient($0) }
        Measured.begin("mimeo_attachments_damaged_total", formerly: "attachments_damaged_total")
        bucketHealth = bucket.map { bucket in
            KeptVerdict(for: Limits.bucketHealth) { await BucketCheck.problem(of: bucket) }
        }
        folderHealth = KeptVerdict(for: Limits.folderHealth) { await Self.problem(ofFolder: folder) }
        references = OpenDatabases(logger: logger) { database in
            try await BlobReferences.open(database, in: documents)
        }
    }

    /// The routes of `/api/v4/attachments` and `/api/v5/attachments`.
    public func mount(on mount: inout ServiceMount) {
        if let system = authenticator.system {
            let eraser = Eraser(
                system: system, holder: name, place: Eraser.place(folder: folder), logger: logger,
                work: Eraser.Work(
                    isHeld: { try await self.keeps($0) }, erase: { try await self.erase($0) },
                    clean: { try await self.clean($0) }))
            mount.background("erasure") { await eraser.run() }
        }
        mount.background("attachment scrub") { [self] in
            while true {
                await scrub()
                try await Task.sleep(for: Limits.scrubInterval)
            }
        }
        mount.background("unfinished uploads") { [self] in
            while true {
                await removeOldUploads()
                try await Task.sleep(for: Limits.uploadLook)
            }
        }
        if let system = authenticator.system {
            mount.background("attachment place") { [self] in await notePlace(in: system) }
        }
        if let grace = options.graceSeconds {
            mount.background("attachment collection") { [self] in
                while true {
                    // Not at the start, when everybody reads the disk.
                    try await Task.sleep(for: .seconds(options.collectionSeconds))
                    await collect(graceSeconds: grace)
                }
            }
        }
        TusRoutes(authenticator: authenticator, maximumBytes: options.maximumBytes) { identity in
            try self.uploadShelf(of: identity.databaseID)
        }.mount(on: &mount)
        for version in ["v4", "v5"] { mountRoutes(version, on: &mount) }
        mount.on(.get, "/api/v5/attachments/:id/chunks") { request, context in
            let (identity, id, _) = try await self.readable(request, context, wantsBytes: true)
            return try await ChunkRoute(place: self.shelf(of: identity.databaseID).blobs).respond(id)
        }
        mount.on(.get, "/api/v5/attachments") { request, _ in
            let identity = try await self.authenticator.identity(for: request)
            guard identity.rights.read.allowsAnything else {
                throw IdentityError.notPermitted("read attachments")
            }
            return try await self.withReferences(identity.databaseID) { references in
                try await ListRoute(references: references, identity: identity).respond(to: request)
            }
        }
        guard let admin else { return }
        AdminRoutes(
            admin: admin, authenticator: authenticator, log: log, options: options,
            shelf: { try self.shelf(of: $0) }, collector: { try self.collector($0) }
        ).mount(on: &mount)
    }

    private func mountRoutes(_ version: String, on mount: inout ServiceMount) {
        mount.on(.post, "/api/\(version)/attachments/upload") { request, _ in
            let identity = try await self.authenticator.identity(for: request)
            guard identity.rights.write.allowsAnything else {
                throw IdentityError.notPermitted("write attachments")
            }
            try self.requireRoom()
            let shelf = try self.shelf(of: identity.databaseID)
            return try await UploadRoute(
                place: shelf.blobs, maximumBytes: self.options.maximumBytes,
                standing: { try self.authenticator.requireStanding(of: identity) },
                admit: { try await shelf.quota.admit($0) },
                whenStored: { self.stored($0, identity.databaseID) }
            ).respond(to: request)
        }
        for method in [HTTPRequest.Method.get, .head] {
            mount.on(method, "/api/\(version)/attachments/:id") { request, context in
                let (identity, id, described) = try await self.readable(
                    request, context, wantsBytes: request.headers[.accept] == "application/octet-stream",
                    mayBeSigned: true)
                let asked = request.uri.queryParameters.get("filename").flatMap { FileName.checked($0) }
                var file = described
                if let asked { file.name = asked }
                return try await DownloadRoute(
                    place: self.shelf(of: identity.databaseID).blobs,
                    standing: { try self.authenticator.requireStanding(of: identity) },
                    file: file, isSaved: asked != nil,
                    looksForPicture: request.uri.queryParameters.get("signed") != nil,
                    write: { try await context.write($0, to: &$1) }
                ).respond(to: request, id: id)
            }
        }
    }

    /// The attachment that a request asks for, if its client may read it; with name and type that a document
    /// gives the file.
    private func readable(
        _ request: Request, _ context: ServiceContext, wantsBytes: Bool, mayBeSigned: Bool = false
    ) async throws -> (identity: Identity, id: BlobID, file: FileDescription) {
        let identity: Identity
        if mayBeSigned, let token = request.uri.queryParameters.get("signed") {
            identity = try await authenticator.identity(
                signedURL: token, attachment: try context.parameters.require("id"), for: request)
        } else {
            identity = try await authenticator.identity(for: request)
        }
        guard identity.rights.read.allowsAnything else {
            throw IdentityError.notPermitted("read attachments")
        }
        let id = try BlobFailure.from { try BlobID(context.parameters.require("id")) }
        guard let file = try await file(id, identity, wantsBytes: wantsBytes) else {
            // The same answer as for an unknown id, so that the client does not learn whether the attachment
            // exists.
            throw BlobFailure(error: .unknown)
        }
        if identity.grant.read.everything {
            let blobs = try shelf(of: identity.databaseID).blobs
            if try await blobs.wasCollected(id) { throw BlobFailure(error: .gone) }
        }
        return (identity, id, file)
    }

    /// Closes the materializations.
    public func stop() async {
        for shelf in shelves.withLock({ Array($0.values) }) { await shelf.verification.stop() }
        for opened in await references.removeAll() { await opened.close() }
    }

    /// Returns whether anything of a database is stored here.
    private func keeps(_ database: DatabaseID) async throws -> Bool {
        if FileManager.default.fileExists(atPath: "\(folder)/\(database)") || documents.keeps(database) {
            return true
        }
        // Another process, which may be gone, has filled the bucket.
        guard let bucket else { return false }
        return try await !bucket.page("\(database)/", most: 1).objects.isEmpty
    }

    /// Removes the blobs of a deleted database. Its tokens are refused by now. An upload that began before
    /// may end after this; the eraser finds it at its next look.
    private func erase(_ database: DatabaseID) async throws {
        await references.close(database, if: { _ in true }) { await $0.close() }
        if bucket != nil { try await shelf(of: database).blobs.removeAll() }
        let folder = "\(folder)/\(database)"
        await shelves.withLock { $0.removeValue(forKey: database) }?.verification.stop()
        damaged.withLock { damaged in damaged = damaged.filter { !$0.hasPrefix("\(database)/") } }
        try await BlobStore.onDisk {
            if FileManager.default.fileExists(atPath: folder) {
                try FileManager.default.removeItem(atPath: folder)
            }
        }
        try await documents.erase(database)
    }

    /// Removes the blobs of erased documents that no other document refers to, and rewrites the
    /// materialization.
    private func clean(_ erasure: DocumentErasure) async throws {
        let database = erasure.databaseID
        guard try await keeps(database) else { return }
        let opened = try await references(database)
        try await opened.compact(through: Offset(erasure.erasedThrough ?? 0))
        let blobs = try shelf(of: database).blobs
        for text in erasure.blobs {
            guard let id = try? BlobID(text), try await !opened.isReferred(to: id) else { continue }
            try await blobs.remove(id)
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
        if let problem = await bucketHealth?.problem() { return .failing(problem) }
        return await folderHealth.problem().map { .failing($0) } ?? .ok
    }

    private static func problem(ofFolder folder: String) async -> String? {
        do {
            return try await BlobStore.onDisk {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                let isWritable = FileManager.default.isWritableFile(atPath: folder)
                return isWritable ? nil : "the attachments folder in the data folder is read-only"
            }
        } catch {
            return "the attachments folder in the data folder cannot be created"
        }
    }

    /// Not ready while its folder cannot be written.
    public func readiness() async -> [Unreadiness] {
        if let problem = await bucketHealth?.problem() {
            let code = AttachmentStoreErrorCode.bucketUnavailable.rawValue
            return [Unreadiness(part: name, code: code, message: problem)]
        }
        let folder = folder
        let isWritable = try? await BlobStore.onDisk { FileManager.default.isWritableFile(atPath: folder) }
        guard isWritable != true else { return [] }
        return [
            Unreadiness(
                part: name, code: ServiceErrorCode.dataFolderUnusable.rawValue,
                message: "the attachments folder in the data folder is missing or read-only")
        ]
    }

    private func file(
        _ id: BlobID, _ identity: Identity, wantsBytes: Bool = true
    ) async throws -> FileDescription? {
        let rules = identity.rights.read
        guard identity.grant.read.everything else {
            return try await withReferences(identity.databaseID) { try await $0.file(id, by: rules) }
        }
        // A peer asks for bytes alone, and does not wait for documents to be read. Without documents the file
        // is bytes.
        if wantsBytes { return FileDescription() }
        let file = try? await withReferences(identity.databaseID) {
            try await $0.fileKnownSoon(id, by: rules)
        }
        return file.flatMap { $0 } ?? FileDescription()
    }

    /// Asks the references of a database, and again if that has found its documents damaged: they are
    /// rebuilt.
    private func withReferences<Answer: Sendable>(
        _ database: DatabaseID, _ body: @Sendable (BlobReferences) async throws -> Answer
    ) async throws -> Answer {
        let opened = try await usable(database)
        do {
            return try await body(opened)
        } catch {
            guard await opened.hasLostHistory else { throw error }
            return try await body(usable(database))
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
        for database in databases where !Task.isCancelled && bucket == nil {
            guard let store = try? shelf(of: database).blobs.arrivals else { continue }
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
        Measured.count("mimeo_attachments_damaged_total", formerly: "attachments_damaged_total")
        logger.error(
            "an attachment is damaged and was set aside",
            metadata: ["database": "\(database)", "id": "\(id)", "file": "\(path)"])
    }

    /// Called when an attachment was stored or erased: nothing of it is damaged any more.
    private func mended(_ id: BlobID, _ database: DatabaseID) {
        damaged.withLock { _ = $0.remove("\(database)/\(id)") }
    }

    private func uploadShelf(of database: DatabaseID) throws -> UploadShelf {
        let shelf = try shelf(of: database)
        return UploadShelf(
            uploads: shelf.uploads,
            admit: { [self] bytes in
                try requireRoom()
                try await shelf.quota.admit(bytes)
            },
            admitWhole: { try await shelf.quota.admitWhole($0) },
            requireRoom: { [self] in try requireRoom() },
            adopt: { [self] info, path in
                try await shelf.blobs.adopt(info, path)
                stored(info, database)
            })
    }

    private func stored(_ info: BlobInfo, _ database: DatabaseID) {
        mended(info.id, database)
        try? shelf(of: database).quota.added(info.length)
    }

    private func collector(_ database: DatabaseID) throws -> Collector {
        Collector(
            database: database, place: try shelf(of: database).blobs,
            references: { [self] in try await usable(database) }, logger: logger)
    }

    /// One pass over each database that the log has.
    private func collect(graceSeconds: Int64) async {
        for database in await allDatabases() where !Task.isCancelled {
            do {
                guard try await log.databaseExists(database) else { continue }
                guard let report = try await collector(database).collect(graceSeconds: graceSeconds) else {
                    continue
                }
                try shelf(of: database).quota.counted(report.keptBytes)
            } catch {
                logger.warning(
                    "attachments cannot be collected; nothing was removed",
                    metadata: ["database": "\(database)", "error": "\(error)"])
            }
        }
    }

    private func requireRoom() throws {
        guard room?.isNearlyFull != true else { throw BlobFailure(error: .nearlyFull) }
    }

    /// Tells the log where attachments are, for tools that do not have this process's flags.
    private func notePlace(in system: SystemDatabase) async {
        let bucket = options.bucket.map { AttachmentBucketRecord(id: $0.text, region: $0.region) }
        while !Task.isCancelled {
            do {
                return try await system.note(attachments: bucket)
            } catch {
                logger.warning("the place of attachments is not noted", metadata: ["error": "\(error)"])
                try? await Task.sleep(for: Limits.placeRetry)
            }
        }
    }

    /// Removes uploads that nobody has gone on with.
    private func removeOldUploads() async {
        let old = SystemClock.seconds() - Limits.uploadLifeSeconds
        for database in await allDatabases() where !Task.isCancelled {
            guard let shelf = try? shelf(of: database) else { continue }
            do {
                try await shelf.blobs.removeLeftOvers(since: old)
                let removed = try await BlobStore.onDisk {
                    try shelf.uploads.removeUploads(untouchedSince: old)
                }
                if removed > 0 {
                    logger.info(
                        "unfinished uploads were removed",
                        metadata: ["database": "\(database)", "uploads": "\(removed)"])
                }
            } catch {
                logger.warning(
                    "unfinished uploads cannot be removed",
                    metadata: ["database": "\(database)", "error": "\(error)"])
            }
        }
    }

    /// The databases that have a folder here.
    private var databases: [DatabaseID] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.sorted().map { DatabaseID($0) }
    }

    /// The databases that have a folder here, or a part of the bucket.
    private func allDatabases() async -> [DatabaseID] {
        guard let bucket else { return databases }
        var names: Set<String> = Set(databases.map(\.text))
        do {
            try await bucket.forEach("", delimiter: "/") { page in
                names.formUnion(page.prefixes.map { String($0.dropLast()) })
                return true
            }
        } catch {
            logger.warning("the bucket cannot be listed", metadata: ["error": "\(error)"])
        }
        return names.sorted().map { DatabaseID($0) }
    }

    private func place(_ database: DatabaseID) throws(AttachmentError) -> any BlobPlace {
        let folder = "\(folder)/\(database)"
        let whenDamaged: @Sendable (BlobID, String) -> Void = { [weak self] id, path in
            self?.note(id, path, database)
        }
        let store = try BlobStore(
            folder: folder, maximumBytes: options.maximumBytes, whenDamaged: whenDamaged)
        guard let bucket else {
            for id in store.damagedIDs { damaged.withLock { _ = $0.insert("\(database)/\(id)") } }
            return FolderPlace(arrivals: store, folder: folder)
        }
        return BucketPlace(
            bucket, database, arrivals: store, nowSeconds: { SystemClock.seconds() }, whenDamaged: whenDamaged
        )
    }

    private func shelf(of database: DatabaseID) throws -> BlobShelf {
        // A verified token's database id is letters, digits, '-' and '_', so it is safe as a folder name.
        try shelves.withLock { shelves in
            if let shelf = shelves[database] { return shelf }
            let maximumBytes = options.maximumBytes
            let shelf = try BlobFailure.from {
                BlobShelf(
                    try place(database),
                    try PartialUploads(
                        folder: "\(folder)/\(database)/uploads", maximumBytes: maximumBytes),
                    quotaBytes: options.quotaBytes)
            }
            shelves[database] = shelf
            return shelf
        }
    }
}
