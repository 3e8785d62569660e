// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
import Dispatch
import Foundation

// Members of the 4.x API. Each is declared so that a program that uses one is told its successor.

/// The body of a declaration that nobody can call.
private func unavailable() -> Never { preconditionFailure("unavailable") }

extension Ditto {
    @available(*, unavailable, message: "Use Ditto.open(config:) with a DittoConfig")
    public convenience init(identity: DittoIdentity, persistenceDirectory directory: URL? = nil) {
        unavailable()
    }

    @available(*, unavailable, message: "Use Ditto.open(config:) or Ditto.openSync(config:)")
    public convenience init(persistenceDirectory directory: URL? = nil) { unavailable() }

    @available(*, unavailable, message: "Use ditto.sync.start()")
    public func startSync() throws { unavailable() }

    @available(*, unavailable, message: "Use ditto.sync.start()")
    public func tryStartSync() throws { unavailable() }

    @available(*, unavailable, message: "Use ditto.sync.stop()")
    public func stopSync() { unavailable() }

    @available(*, unavailable, message: "Use ditto.sync.isActive")
    public var isSyncActive: Bool { unavailable() }

    @available(*, unavailable, message: "Leave it out: there is no sync with version 3")
    public func disableSyncWithV3() throws { unavailable() }

    @available(*, unavailable, renamed: "isActivated")
    public var activated: Bool { unavailable() }

    @available(*, unavailable, message: "Query system:transports_info")
    public var delegate: (any DittoDelegate)? {
        get { unavailable() }
        set { unavailable() }
    }

    @available(*, unavailable, message: "Query system:transports_info")
    public var delegateEventQueue: DispatchQueue {
        get { unavailable() }
        set { unavailable() }
    }

    @available(*, unavailable, message: "Use ditto.config.databaseID")
    public var appID: String { unavailable() }

    @available(*, unavailable, message: "Use ditto.presence.graph.localPeer.peerKey")
    public var siteID: UInt64 { unavailable() }

    @available(*, unavailable, renamed: "absolutePersistenceDirectory")
    public var persistenceDirectory: URL { unavailable() }

    @available(*, unavailable, message: "Use Ditto.version")
    public var sdkVersion: String { unavailable() }

    @available(*, unavailable, renamed: "setOfflineOnlyLicenseToken(_:)")
    public func setLicenseToken(_ token: String) throws { unavailable() }

    @available(*, unavailable, renamed: "setOfflineOnlyLicenseToken(_:)")
    public func setAccessLicense(_ token: String) { unavailable() }

    @available(*, unavailable, message: "Assign ditto.transportConfig")
    public func setTransportConfig(config: DittoTransportConfig) { unavailable() }

    @available(*, unavailable, message: "Use ditto.presence.observe")
    public func observePeers(
        callback: @escaping ([DittoRemotePeer]) -> Void
    ) -> DittoPeersObserver { unavailable() }

    @available(*, unavailable, message: "Query system:transports_info")
    public func observeTransportDiagnostics(callback: @escaping (Any) -> Void) -> DittoObserver {
        unavailable()
    }
}

extension DittoAuthenticator {
    @available(*, unavailable, message: "Use login(token:provider:completion:)")
    public func loginWithToken(
        _ token: String, provider: String, completion: @escaping (DittoSwiftError?) -> Void
    ) { unavailable() }

    @available(*, unavailable, message: "Use login(token:provider:completion:) with a token of the provider")
    public func loginWithCredentials(
        username: String, password: String, provider: String,
        completion: @escaping (DittoSwiftError?) -> Void
    ) { unavailable() }
}

extension DittoStore {
    @available(*, unavailable, message: "Use DQL: execute(query:arguments:)")
    public subscript(collectionName: String) -> DittoCollection { unavailable() }

    @available(*, unavailable, message: "Use DQL: execute(query:arguments:)")
    public func collection(_ name: String) -> DittoCollection { unavailable() }

    @available(*, unavailable, message: "Use execute(query: \"SELECT name FROM system:collections\")")
    public func collectionNames() -> [String] { unavailable() }

    @available(*, unavailable, message: "Use registerObserver on SELECT name FROM system:collections")
    public func collections() -> DittoPendingCollectionsOperation { unavailable() }

    @available(*, unavailable, message: "Use transaction(hint:isReadOnly:with:)")
    @discardableResult
    public func write(
        _ block: @escaping (DittoWriteTransaction) -> Void
    ) -> [DittoWriteTransactionResult] { unavailable() }

    @available(*, unavailable, message: "Use registerObserver: its handler is called when a result changes")
    public func queriesHash(queries: [DittoLiveQuery]) -> UInt { unavailable() }

    @available(*, unavailable, message: "Use registerObserver: its handler is called when a result changes")
    public func queriesHashMnemonic(queries: [DittoLiveQuery]) -> String { unavailable() }

    @available(*, unavailable, message: "Pass the token's dictionary, as it stands in the document")
    @discardableResult
    public func fetchAttachment(
        token: DittoAttachmentToken, deliverOn queue: DispatchQueue = .main,
        onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) throws -> DittoAttachmentFetcher { unavailable() }
}

extension DittoDocumentID {
    @available(*, unavailable, message: "Use value")
    public subscript(key: String) -> DittoDocumentIDPath { unavailable() }
}

extension DittoLogger {
    @available(*, unavailable, message: "Leave it out: levels are shown as text")
    public static var emojiLogLevelHeadingsEnabled: Bool {
        get { unavailable() }
        set { unavailable() }
    }

    @available(*, unavailable, message: "Use DittoLogger.export(to:) or setCustomLogCallback(_:)")
    public static func setLogFile(_ logFile: String?) { unavailable() }

    @available(*, unavailable, message: "Use DittoLogger.export(to:) or setCustomLogCallback(_:)")
    public static func setLogFileURL(_ logFile: URL?) { unavailable() }
}
