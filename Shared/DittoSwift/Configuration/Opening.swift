import CRDT
import Foundation
import Logging
import Replica

/// The parts of an instance that can fail to open.
struct Opening {
    /// The configuration without secrets.
    let config: DittoConfig
    /// The persistence directory.
    let directory: URL
    let engine: Engine
    let logFiles: LogFiles
    let server: ServerAddresses?
    let authenticator: DittoAuthenticator?
    let sync: DittoSync
    /// The links with small peers; nil if the store could not be opened.
    let links: PeerLinks?
    /// The transports that the instance comes with.
    let transports: DittoTransportConfig
    /// False if the store could not be opened, and for one that is only looked into.
    let hasDatabase: Bool
    /// False if the store could not be opened.
    let isOpen: Bool

    /// Opens the store of a configuration.
    /// - Parameter isAnyDatabase: true to look into the store of whatever database. It neither takes the
    ///   configuration's id nor is refused for it, so sync must not be started.
    init(
        _ given: DittoConfig, transports: DittoTransportConfig = .ofNewInstance, isAnyDatabase: Bool = false
    ) throws {
        let (logger, logFiles) = Self.logger()
        let opened = try OpenedConfig(given, root: Ditto.defaultRootDirectory)
        if UUID(uuidString: given.databaseID) == nil {
            logger.warning("the database id is not a UUID", metadata: ["database": "\(given.databaseID)"])
        }
        let files = IdentityFiles(directory: opened.directory)
        let owner = StoreOwner(DatabaseID(given.databaseID)) {
            files.session().map { DatabaseID($0.databaseID) }
        }
        let engine = try Engine(
            directory: opened.directory, owner: isAnyDatabase ? nil : owner, logger: logger)
        config = opened.redacted
        directory = URL(fileURLWithPath: opened.directory, isDirectory: true)
        server = opened.server
        self.engine = engine
        self.logFiles = logFiles
        if let server {
            let authenticator = try DittoAuthenticator(
                server: server, databaseID: given.databaseID,
                files: files, logger: logger)
            self.authenticator = authenticator
            let links = try PeerLinks(
                engine, databaseID: given.databaseID, authority: .server(authenticator, server),
                files: files)
            self.links = links
            sync = try DittoSync(engine, server, given.databaseID, authenticator, links, logger)
        } else {
            authenticator = nil
            let links = try PeerLinks(
                engine, databaseID: given.databaseID,
                authority: opened.sharedKey.map { .shared($0) } ?? .none, files: files)
            self.links = links
            sync = DittoSync(engine, links)
        }
        self.transports = transports
        hasDatabase = !isAnyDatabase
        isOpen = true
    }

    /// An instance that could not be opened, for the 4.x API, whose initializer does not throw. It has no
    /// store: every call that needs one throws `failure`.
    init(failed failure: Failure, directory: URL) {
        let (logger, logFiles) = Self.logger()
        logger.error(
            "the database cannot be opened",
            metadata: ["code": "\(failure.code)", "error": "\(failure.message)"])
        config = .default
        self.directory = directory
        engine = Engine(
            directory: directory.path, logger: logger, failure: SDKError(repeating: failure))
        self.logFiles = logFiles
        server = nil
        authenticator = nil
        links = nil
        transports = .ofNewInstance
        sync = DittoSync(engine, nil)
        hasDatabase = false
        isOpen = false
    }

    private static func logger() -> (Logger, LogFiles) {
        let files = LogFiles()
        return (Logger(label: "ditto") { SDKLogHandler(label: $0, files: files) }, files)
    }
}
