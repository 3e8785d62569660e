import Attachments
import Foundation
import Hummingbird
import Identity
import Logging
import ServiceKit
import Synchronization

/// Blobs over HTTP, for clients without a sync session and as the store every peer falls back to.
///
/// Each database has a folder of its own, so an id learned in one database opens nothing in another.
/// `stores` holds the opened ones and guards opening: two stores on one folder would remove each other's
/// uploads.
public final class AttachmentStore: ServicePart {
    /// The default port of a process of its own.
    public static let defaultPort = 4004
    /// `attachment-store`.
    public let name = "attachment-store"

    private let folder: String
    private let maximumBytes: Int64
    private let authenticator: Authenticator
    private let stores = Mutex<[String: BlobStore]>([:])

    /// - Parameters:
    ///   - folder: `DATA/attachments`; made on first use.
    ///   - authenticator: checks access tokens.
    ///   - maximumBytes: largest attachment that is accepted.
    public init(
        folder: String, authenticator: Authenticator, maximumBytes: Int64 = Attachments.Limits.blobBytes
    ) {
        self.folder = folder
        self.authenticator = authenticator
        self.maximumBytes = maximumBytes
    }

    /// The routes of `/api/v4/attachments` and `/api/v5/attachments`.
    public func mount(on mount: inout ServiceMount) {
        for version in ["v4", "v5"] {
            mount.on(.post, "/api/\(version)/attachments/upload") { request, _ in
                let identity = try await self.authenticator.identity(for: request)
                guard identity.rights.write.allowsAnything else {
                    throw IdentityError.notPermitted("write attachments")
                }
                return try await UploadRoute(store: self.store(of: identity), maximumBytes: self.maximumBytes)
                    .respond(to: request)
            }
            for method in [HTTPRequest.Method.get, .head] {
                mount.on(method, "/api/\(version)/attachments/:id") { request, context in
                    let identity = try await self.authenticator.identity(for: request)
                    guard identity.rights.read.allowsAnything else {
                        throw IdentityError.notPermitted("read attachments")
                    }
                    return try await DownloadRoute(store: self.store(of: identity))
                        .respond(to: request, id: context.parameters.require("id"))
                }
            }
        }
    }

    /// Whether the folder can be written.
    public func health() async -> HealthCheck {
        let folder = folder
        do {
            return try await DiskThread.run {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                let isWritable = FileManager.default.isWritableFile(atPath: folder)
                return isWritable ? .ok : .failing("the attachment folder cannot be written")
            }
        } catch {
            return .failing("the attachment folder cannot be made")
        }
    }

    private func store(of identity: Identity) throws -> BlobStore {
        // A verified token's database id is letters, digits, '-' and '_', so it is safe as a folder name.
        try stores.withLock { stores in
            if let store = stores[identity.databaseID] { return store }
            do {
                let store = try BlobStore(
                    folder: "\(folder)/\(identity.databaseID)", maximumBytes: maximumBytes)
                stores[identity.databaseID] = store
                return store
            } catch let error as AttachmentError {
                throw BlobFailure(error: error)
            }
        }
    }
}
