import Foundation
import Logging
import Replica
import Synchronization

/// One open database on this device: its local store, its sync with others, its login.
///
/// Opening is exclusive: one `Ditto`, of one process, per persistence directory. It stays open until
/// `close()` is called or the last reference to it is gone; observers and subscriptions end with it.
public final class Ditto: Sendable {
    /// The configuration it was opened with; secrets read `[REDACTED]`.
    public let config: DittoConfig
    /// Where the data is.
    public let absolutePersistenceDirectory: URL
    /// Reads and writes documents.
    public let store: DittoStore
    /// Exchanges documents with others.
    public let sync: DittoSync
    /// Logs in; nil unless the configuration names a server.
    public let auth: DittoAuthenticator?

    private let engine: Engine

    /// The SDK's version.
    public static var version: String { "0.1.0" }

    /// What relative persistence directories are relative to: the current directory.
    public static var defaultRootDirectory: URL {
        URL(fileURLWithPath: FileManager.default.currentDirectoryPath, isDirectory: true)
    }

    /// Opens the database, creating it if need be.
    /// - Throws: `validationError(.invalidDittoConfig)`; `storeError(.persistenceDirectoryLocked)` after
    ///   about a
    ///   second; `storeError(.backendError)` for a damaged store or one of a newer version, which stays as
    /// it is.
    public class func open(config: DittoConfig = .default) async throws -> Ditto {
        do {
            return try await Engine.openingQueue.run { try openSync(config: config) }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// As `open(config:)`, blocking the calling thread meanwhile.
    public class func openSync(config: DittoConfig = .default) throws -> Ditto {
        do {
            return try Ditto(config)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    private init(_ given: DittoConfig) throws {
        let logger = Logger(label: "ditto")
        let opened = try OpenedConfig(given, root: Self.defaultRootDirectory)
        if UUID(uuidString: given.databaseID) == nil {
            logger.warning("the database id is no UUID", metadata: ["database": "\(given.databaseID)"])
        }
        config = opened.redacted
        absolutePersistenceDirectory = URL(fileURLWithPath: opened.directory, isDirectory: true)
        engine = try Engine(directory: opened.directory, logger: logger)
        store = DittoStore(engine)
        if let server = opened.server {
            let authenticator = try DittoAuthenticator(
                server: server, databaseID: given.databaseID,
                files: IdentityFiles(directory: opened.directory),
                logger: logger)
            auth = authenticator
            sync = try DittoSync(engine, server, given.databaseID, authenticator, logger)
        } else {
            auth = nil
            sync = DittoSync(engine)
        }
        store.owner.set(self)
        sync.owner.set(self)
        auth?.owner.set(self)
    }

    deinit {
        // Nothing of the instance is left to wait for, so it closes behind its back.
        let (engine, sync) = (engine, sync)
        engine.observers.cancelAll()
        Task.detached {
            await sync.shutDown()
            try? engine.close()
        }
    }

    /// Ends sync, observers and subscriptions, and closes the store. Everything that is called afterwards
    /// throws `storeError(.backendError)`. Returns when the directory can be opened again.
    public func close() async {
        engine.observers.cancelAll()
        await sync.shutDown()
        let engine = engine
        try? await Engine.openingQueue.run { try engine.close() }
    }

    /// There is no licence: any token is taken.
    public func setOfflineOnlyLicenseToken(_ licenseToken: String) throws {}

    /// There is no licence: always true.
    public var isActivated: Bool { true }
}

/// A weak reference that is set once its target exists.
final class Owner: Sendable {
    private struct Reference: Sendable { weak var ditto: Ditto? }
    private let reference = Mutex(Reference())

    var ditto: Ditto? { reference.withLock { $0.ditto } }
    func set(_ ditto: Ditto) { reference.withLock { $0.ditto = ditto } }
}
