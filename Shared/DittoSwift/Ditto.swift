import Foundation
import Logging
import Replica
import Synchronization

/// One open database on this device: its local store, its sync with others, its login.
///
/// Opening is exclusive: one `Ditto`, of one process, per persistence directory. It stays open until
/// `close()` is called or the last reference to it is released. Observers and subscriptions end with it.
public final class Ditto: Sendable {
    /// The configuration it was opened with; secrets are replaced by `[REDACTED]`.
    public let config: DittoConfig
    /// The directory of the data.
    public let absolutePersistenceDirectory: URL
    /// Reads and writes documents.
    public let store: DittoStore
    /// Syncs documents with others.
    public let sync: DittoSync
    /// Logs in; nil unless the configuration names a server.
    public let auth: DittoAuthenticator?
    /// Its disk usage.
    public let diskUsage: DiskUsage
    /// This small peer's report about itself.
    public let smallPeerInfo: DittoSmallPeerInfo
    /// This peer and the peers around it.
    public let presence: DittoPresence

    private let engine: Engine
    private let logFiles: LogFiles
    private let name: DeviceName
    private let transports: Mutex<DittoTransportConfig>
    /// The links with small peers; nil if the store could not be opened.
    let links: PeerLinks?
    private let report: SmallPeerReport
    private let keeper: AttachmentKeeper
    /// Facts that only the 4.x API knows of this instance.
    let origin: InstanceOrigin

    /// The name of this device for others: at most 24 bytes of UTF-8, the rest is cut off. The default is
    /// the computer's name. Others learn a new name at once (`presence`).
    public var deviceName: String {
        get { name.text }
        set {
            name.text = newValue
            presence.changed()
        }
    }

    /// The allowed transports to other peers: at first those to peers nearby. See `DittoTransportConfig` for
    /// the part that this version uses.
    public var transportConfig: DittoTransportConfig {
        get { transports.withLock { $0 } }
        set {
            let before = transports.withLock { config in
                defer { config = newValue }
                return config
            }
            apply(newValue, insteadOf: before)
        }
    }

    /// Changes `transportConfig` in one step. `block` must not use this instance. Links that are not
    /// configured any more end at once, and others begin. So does the session with the server if its address
    /// was in `connect.webSocketURLs` and is not any more.
    public func updateTransportConfig(
        block: (inout DittoTransportConfig) throws -> Void
    ) rethrows {
        let (before, config) = try transports.withLock { config in
            let before = config
            try block(&config)
            return (before, config)
        }
        apply(config, insteadOf: before)
    }

    /// A server's address that is named and then is not any more ends the session with the server. One that
    /// is never named there needs no naming: the configuration has it.
    private func apply(_ config: DittoTransportConfig, insteadOf before: DittoTransportConfig) {
        guard let links else { return }
        links.apply(config)
        if links.namesServer(config) {
            sync.use(server: true)
        } else if links.namesServer(before) {
            sync.use(server: false)
        }
    }

    /// The SDK's version.
    public static var version: String { "0.2.0" }

    /// The base of relative persistence directories: the current directory.
    public static var defaultRootDirectory: URL {
        URL(fileURLWithPath: FileManager.default.currentDirectoryPath, isDirectory: true)
    }

    /// Opens the database; creates it if it does not exist.
    /// - Throws: `validationError(.invalidDittoConfig)`; `storeError(.persistenceDirectoryLocked)` after
    ///   about a second; `storeError(.backendError)` for a damaged store, one of a newer version or one of
    ///   another database (`STORE-0106`), which is left unchanged.
    public class func open(config: DittoConfig = .default) async throws -> Ditto {
        try await opened { try Opening(config) }
    }

    /// As `open(config:)`, but blocks the calling thread.
    public class func openSync(config: DittoConfig = .default) throws -> Ditto {
        do {
            return try Ditto(Opening(config))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Opens a store to look into it, of whatever database it is: for the command line. Sync must not be
    /// started, because the store need not be of the configuration's database.
    package class func open(store directory: URL) async throws -> Ditto {
        var config = DittoConfig.default
        config.persistenceDirectory = directory
        return try await opened { [config] in
            try Opening(config, transports: DittoTransportConfig(), isAnyDatabase: true)
        }
    }

    /// As `open(config:)`, with all transports to other peers off: for the command line and for tests, which
    /// turn on those that they mean.
    package class func openAlone(config: DittoConfig) async throws -> Ditto {
        try await opened { try Opening(config, transports: DittoTransportConfig()) }
    }

    private class func opened(_ opening: @escaping @Sendable () throws -> Opening) async throws -> Ditto {
        do {
            return try await Engine.openingQueue.run { try Ditto(opening()) }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    init(_ opening: Opening, origin: InstanceOrigin = InstanceOrigin()) {
        let (engine, logger) = (opening.engine, opening.engine.logger)
        config = opening.config
        absolutePersistenceDirectory = opening.directory
        self.engine = engine
        self.origin = origin
        logFiles = opening.logFiles
        let name = DeviceName()
        self.name = name
        transports = Mutex(opening.transports)
        diskUsage = DiskUsage(engine, root: absolutePersistenceDirectory)
        smallPeerInfo = DittoSmallPeerInfo(engine)
        store = DittoStore(engine)
        auth = opening.authenticator
        sync = opening.sync
        let links = opening.links
        self.links = links
        links?.apply(opening.transports)
        let files = IdentityFiles(directory: opening.directory.path)
        let (ownKey, known, connection, settings) = (OwnKey(files), auth?.peerKey, sync, engine.settings)
        presence = DittoPresence(
            DittoPresence.Source(
                peerKey: { known ?? ownKey.text }, deviceName: { name.text },
                isConnected: { connection.isConnectedToServer },
                linked: { links?.mesh.peers ?? [] }, around: { links?.presence.graph },
                tell: { links?.presence.set($0) },
                debounce: { settings.parameters.presenceDebounce }))
        let transfers = Self.transfers(opening)
        store.transfers.connect(transfers)
        keeper = AttachmentKeeper(engine, transfers, logger: logger)
        let report = SmallPeerReport(
            engine, smallPeerInfo,
            SmallPeerReport.Source(
                peerKey: { known ?? ownKey.text }, deviceName: { name.text },
                isConnected: { connection.isConnectedToServer },
                subscriptions: { [weak connection] in
                    connection?.subscriptions.map(\.queryString) ?? []
                }))
        self.report = report
        smallPeerInfo.onNews { [weak report] in report?.wake() }
        if opening.hasDatabase { engine.setReport { [weak report] in await report?.provide() } }
        sync.onStatus { [weak self, weak presence, weak transfers, weak report] in
            presence?.changed()
            transfers?.wake()
            report?.wake()
            if let self { origin.connectionChanged(of: self) }
        }
        presence.changed()
        connectLinks(transfers)
        store.owner.set(self)
        engine.setTransportInformation { [weak self] in
            guard let self else { return [] }
            // The instance's own: a captured `links` would keep the engine, which keeps this closure.
            return TransportInformation(
                config: transportConfig, server: auth.map { _ in self.sync.status }, links: self.links
            ).rows
        }
        sync.owner.set(self)
        auth?.owner.set(self)
        if opening.isOpen { begin(opening.directory) }
    }

    /// Begins the work of an open instance.
    private func begin(_ directory: URL) {
        let settings = engine.settings
        keeper.begin()
        // Last, so that a failed opening leaves no log.
        logFiles.open(in: directory.path) {
            let parameters = settings.parameters
            return LogFiles.Policy(
                bytes: parameters.logFileBytes, age: parameters.logFileAge, count: parameters.logFiles)
        }
    }

    /// Connects the links with presence, the session's report and the transfers.
    private func connectLinks(_ transfers: AttachmentTransfers) {
        guard let links else { return }
        links.presence.onChange { [weak presence, weak links] in
            guard let presence else { return }
            presence.graphChanged()
            links?.graphChanged { presence.graph }
        }
        links.connect(
            ask: { [weak presence] peer in await presence?.allows(peer) ?? true },
            changed: { [weak sync, weak transfers] in
                sync?.linksChanged()
                transfers?.linksChanged()
            })
        links.share.connect(transfers)
    }

    private static func transfers(_ opening: Opening) -> AttachmentTransfers {
        let (engine, connection) = (opening.engine, opening.sync)
        return AttachmentTransfers(
            engine.attachments, server: opening.server, authenticator: opening.authenticator,
            logger: engine.logger,
            unmentioned: { [weak engine] prefixes in
                guard let engine else { return nil }
                return await AttachmentKeeper.unmentioned(prefixes, engine)
            },
            links: { [weak links = opening.links] in links?.mesh.blobLinks ?? [] },
            isConnected: { connection.isConnectedToServer })
    }

    deinit {
        // Nobody can wait for the instance any more, so it closes in the background.
        presence.stopAll()
        let transfers = store.transfers.current
        transfers?.shutDown()
        keeper.shutDown()
        report.shutDown()
        let (engine, sync, diskUsage, logFiles) = (engine, sync, diskUsage, logFiles)
        let keeper = keeper
        engine.observers.cancelAll()
        Task.detached {
            diskUsage.stopAll()
            await keeper.shutDownAndWait()
            await transfers?.shutDownAndWait()
            await sync.shutDown()
            logFiles.close()
            try? engine.close()
        }
    }

    /// Ends sync, observers and subscriptions, and closes the store. Later calls throw
    /// `storeError(.backendError)`. When this returns, the directory can be opened again.
    public func close() async {
        engine.observers.cancelAll()
        diskUsage.stopAll()
        presence.stopAll()
        await keeper.shutDownAndWait()
        await store.transfers.current?.shutDownAndWait()
        report.shutDown()
        await sync.shutDown()
        let (engine, logFiles) = (engine, logFiles)
        try? await Engine.openingQueue.run {
            // Before the directory is released: then another process may write there.
            logFiles.close()
            try engine.close()
        }
    }

    /// No licence is needed: any token is accepted.
    public func setOfflineOnlyLicenseToken(_ licenseToken: String) throws {}

    /// No licence is needed: always true.
    public var isActivated: Bool { true }
}

/// The name of a device.
final class DeviceName: Sendable {
    private let name = Mutex(DeviceName.fitting(DeviceName.ofComputer))

    /// The name, cut to the longest that may be sent.
    var text: String {
        get { name.withLock { $0 } }
        set { name.withLock { $0 = Self.fitting(newValue) } }
    }

    /// The longest part of a name that may be sent, in whole characters.
    static func fitting(_ name: String) -> String {
        var text = name
        while text.utf8.count > Limits.deviceNameBytes { text.removeLast() }
        return text
    }

    static var ofComputer: String {
        var bytes = [CChar](repeating: 0, count: 256)
        let failed = gethostname(&bytes, bytes.count - 1) != 0
        let name = String(
            decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return failed || name.isEmpty ? "unknown" : name
    }
}

/// A weak reference that is set once its target exists.
final class Owner: Sendable {
    private struct Reference: Sendable { weak var ditto: Ditto? }
    private let reference = Mutex(Reference())

    var ditto: Ditto? { reference.withLock { $0.ditto } }
    func set(_ ditto: Ditto) { reference.withLock { $0.ditto = ditto } }
}
